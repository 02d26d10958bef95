"""The KAI scheduler as a scheduler backend: objects, features by version, texts, evictions.

How it places work is a matter of ``scheduling.gang`` and ``scheduling.fit``, which name it as their source.
"""

from scheduling.backends.base import ReadBack
from scheduling.backends.facets import SchedulerBackend, SchedulerTraits, TopologyObjects
from scheduling.backends.kai import evictions, minimum, pod_keys
from scheduling.backends.kai.features import BIND_REQUEST, FEATURES, POD_GROUP, TOPOLOGY
from scheduling.backends.kai.foreign_gangs import KaiForeignGangs
from scheduling.backends.kai.render import Kai as Kai
from scheduling.backends.kai.render import levels_in, topology

_IMPLEMENTATION = Kai()

KAI = SchedulerBackend(
    product="KAI",
    scheduler_name="kai-scheduler",
    pod_group=POD_GROUP,
    read_back=ReadBack(
        status=("schedulingConditions",),
        annotations=(minimum.STALE_ANNOTATION, evictions.EVICTED_ANNOTATION),
        events=("Evict", "StaleJob", "NotReady"),
        waiting=("NotReady",),
        evicting=("Evict",),
        event_annotation=evictions.ACTION_ANNOTATION,
        stale=minimum.STALE_ANNOTATION,
        evicted=evictions.EVICTED_ANNOTATION,
    ),
    features=FEATURES,
    bind_request=BIND_REQUEST,
    shard_label="kai.scheduler/node-pool",
    reads_label=pod_keys.reads_label,
    reads_annotation=pod_keys.reads_annotation,
    traits=SchedulerTraits(
        spares_normal=True,
        counts_largest=True,
        pins_sets=True,
        orders_sets=True,
        consolidates=True,
        shuns_drivers="gpu",
    ),
    rendering=_IMPLEMENTATION,
    edits=_IMPLEMENTATION,
    queues=_IMPLEMENTATION,
    topologies=TopologyObjects(kind=TOPOLOGY, levels_in=levels_in, of_levels=topology),
    texts=_IMPLEMENTATION,
    foreign=KaiForeignGangs(),
    installation=_IMPLEMENTATION,
)
