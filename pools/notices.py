"""What is accepted and should be known all the same: said in the reply to a save, and by the admin."""

from pools import conditions, selectors
from pools.models import Backend, Pool
from scheduling.errors import Notice
from scheduling.levels import check_look_alikes


def pool_notices(pool: Pool) -> list[Notice]:
    """What a saved pool's author should know of its cluster. At most two queries."""
    return [*_of_backend(pool), *_of_source(pool), *_of_labels(pool)]


def backend_notices(backend: Backend) -> list[Notice]:
    """What a saved backend's author should know of its cluster."""
    told = []
    for kind, code in (("Reachable", "unreachable"), ("SchedulerServed", "scheduler_unknown")):
        if (entry := conditions.find(backend.conditions, kind)) and entry["status"] != "True":
            told.append(Notice(code, entry["message"]))
    return told


def _of_backend(pool: Pool) -> list[Notice]:
    backend = pool.backend
    if conditions.status_of(backend.conditions, "Reachable") != "True":
        message = (
            f'Backend "{backend.name}" has not answered: the pool was checked against the oldest version of '
            f'"{backend.scheduler_type}" that is supported.'
        )
        return [Notice("unreachable", message, ("backend",))]
    if pool.nvlink and conditions.status_of(backend.conditions, "ComputeDomainServed") == "False":
        message = (
            f'Backend "{backend.name}" serves no ComputeDomain (NVIDIA\'s DRA driver is not installed): task '
            "groups of this pool will wait for it."
        )
        return [Notice("compute_domain_not_served", message, ("nvlink",))]
    return []


def _of_source(pool: Pool) -> list[Notice]:
    if pool.topology_source != Pool.TopologySource.EXTERNAL:
        return []
    message = (
        f'Topology "{pool.topology_name}" is used whole and never written: nodes without the label of its '
        "narrowest level are used by no requirement of this pool."
    )
    return [Notice("external_topology", message, ("topology_name",))]


def _of_labels(pool: Pool) -> list[Notice]:
    """Labels that nodes do not carry; nothing is said while no node of the pool is known."""
    levels = selectors.pool_levels(pool)
    if not levels:
        return []
    found = selectors.domains_of(pool)
    if not found.nodes:
        return []
    told = []
    if any(key.outside == found.nodes for key in found.keys):
        carried = selectors.node_labels(selectors.pool_nodes(pool))
        told += check_look_alikes(levels, carried, path=("topology_keys",))
    return told + [
        Notice(
            "nodes_without_label",
            f"{key.outside} of the pool's {found.nodes} nodes lack {key.level.label} or the label of a "
            f'broader key: no requirement on "{key.level.key}" can use them.',
            ("topology_keys", rank, "label"),
        )
        for rank, key in enumerate(found.keys)
        if key.outside
    ]
