"""A scheduler backend as somebody else would write it: from the interface alone, installed as a package.

Its gangs are of a kind of its own, it keeps levels in an object of its own, it holds required sets side by
side and nothing else, and it says in a field of its own why a gang waits.
"""

from scheduling import names
from scheduling.backends.applied import applied
from scheduling.backends.base import (
    Meaning,
    PodParts,
    ReadBack,
    RenderedGang,
    ResourceKind,
    WaitingReason,
    WaitKind,
)
from scheduling.backends.by_table import ByTable
from scheduling.backends.facets import SchedulerBackend, SchedulerTraits, TopologyObjects
from scheduling.backends.plain_texts import PlainTexts
from scheduling.capabilities import Capability, SchedulerVersion
from scheduling.errors import UnsupportedCapability
from scheduling.gang.subgroups import lay_out

OLDEST = SchedulerVersion(1, 0)


GANG = ResourceKind("toy.example.com/v1", "Gang", "gangs")
FABRIC = ResourceKind("toy.example.com/v1", "Fabric", "fabrics", namespaced=False)
SHARE = ResourceKind("toy.example.com/v1", "Share", "shares", namespaced=False)


class ToyRendering(ByTable):
    """What it can hold, and the objects of gangs and pools."""

    name = "toy"
    oldest = OLDEST
    needs = dict.fromkeys((Capability.GANG, Capability.GANG_MULTI_SET, Capability.TOPOLOGY_REQUIRED), OLDEST)
    max_levels = 2
    pool_kinds = (FABRIC, SHARE)

    def version_of(self, *, kubernetes, pod_group_schema):
        if pod_group_schema is None:
            raise UnsupportedCapability(
                "The cluster serves no gangs.toy.example.com: it has no toy scheduler."
            )
        return SchedulerVersion(1, 4)

    def render(self, request):
        tree = self.tree(request)
        name = f"{request.group.hex}-toy"
        sets = lay_out(tree)
        entries = [
            {"tasks": len(part.tasks), "within": request.terms.levels[part.constraint.required].label}
            for part in sets
            if part.constraint.required is not None
        ]
        parts = PodParts({"toy.example.com/gang": name}, {}, request.terms.scheduler_name, {})
        return RenderedGang(
            pod_groups=(_gang(name, request, {"share": request.terms.queue, "sets": entries}),),
            pods={task.name: parts for task in request.gang.tasks},
            topologies=(fabric_of(request.terms.installation, request.terms.levels),)
            if request.terms.levels
            else (),
            constraints=applied(tree, {}),
            sets={},
        )

    def pool_objects(self, request):
        name = request.queues.queue(request.namespace, request.pool)
        base = _share(f"base-of-{name}", request, {})
        share = _share(name, request, {"base": f"base-of-{name}"})
        fabric = (fabric_of(request.installation, request.levels),) if request.levels else ()
        return (base, share, *fabric)

    def above(self, pool_object):
        return pool_object["spec"].get("base", "")


def _gang(name, request, spec):
    labels = {names.INSTALLATION_LABEL: request.terms.installation.hex, names.GROUP_LABEL: request.group.hex}
    metadata = {"name": name, "labels": labels, "namespace": request.terms.namespace}
    return {"apiVersion": GANG.api_version, "kind": GANG.kind, "metadata": metadata, "spec": spec}


def _share(name, request, spec):
    metadata = {"name": name, "labels": {names.INSTALLATION_LABEL: request.installation.hex}}
    return {"apiVersion": SHARE.api_version, "kind": SHARE.kind, "metadata": metadata, "spec": spec}


def fabric_of(installation, levels):
    labels = [level.label for level in levels]
    return {
        "apiVersion": FABRIC.api_version,
        "kind": FABRIC.kind,
        "metadata": {
            "name": f"fabric-{len(labels)}",
            "labels": {names.INSTALLATION_LABEL: installation.hex},
        },
        "spec": {"tiers": labels},
    }


def tiers_in(manifest):
    return tuple(manifest["spec"]["tiers"])


class ToyEdits:
    """Its gangs may be edited, and never need it."""

    def resized(self, gang, *, living, waiting, rest):
        return {}

    def relaxed(self, before, after):
        return None


class ToyTexts(PlainTexts):
    """Why its gangs wait."""

    meanings = {"Stuck": Meaning(WaitKind.CAPACITY, help="Bring more bricks.")}

    def waiting_reasons(self, waiting):
        said = [str(group["status"].get("why", "")) for group in waiting.pod_groups]
        said += [str(event["message"]) for event in waiting.events]
        return tuple(WaitingReason("Stuck", f"The toy scheduler says: {why}.", why) for why in said if why)


TOY = SchedulerBackend(
    scheduler_name="toy-scheduler",
    pod_group=GANG,
    read_back=ReadBack(status=("why",), events=("Stuck", "Thrown"), waiting=("Stuck",), evicting=("Thrown",)),
    traits=SchedulerTraits(spares_normal=True),
    rendering=ToyRendering(),
    edits=ToyEdits(),
    topologies=TopologyObjects(kind=FABRIC, levels_in=tiers_in, of_levels=fabric_of),
    texts=ToyTexts(),
)
