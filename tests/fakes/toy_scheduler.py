"""A scheduler backend as somebody else would write it: from the interface alone, installed as a package.

Its gangs are of a kind of its own, it keeps levels in an object of its own, it holds required sets side by
side and nothing else, and it says in a field of its own why a gang waits.
"""

from scheduling import names
from scheduling.backends.applied import applied
from scheduling.backends.base import PodParts, ReadBack, RenderedGang, ResourceKind, WaitingReason
from scheduling.backends.by_table import ByTable
from scheduling.capabilities import Capability, SchedulerVersion
from scheduling.errors import UnsupportedCapability
from scheduling.subgroups import lay_out

OLDEST = SchedulerVersion(1, 0)


class Toy(ByTable):
    name = "toy"
    oldest = OLDEST
    needs = dict.fromkeys((Capability.GANG, Capability.GANG_MULTI_SET, Capability.TOPOLOGY_REQUIRED), OLDEST)
    max_levels = 2
    scheduler_name = "toy-scheduler"
    pod_group = ResourceKind("toy.example.com/v1", "Gang", "gangs")
    read_back = ReadBack(
        status=("why",), events=("Stuck", "Thrown"), waiting=("Stuck",), evicting=("Thrown",)
    )
    fabric = ResourceKind("toy.example.com/v1", "Fabric", "fabrics", namespaced=False)
    share = ResourceKind("toy.example.com/v1", "Share", "shares", namespaced=False)
    topology = fabric
    pool_kinds = (fabric, share)
    edits_pod_groups = True
    spares_normal = True

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
            {"tasks": len(part.tasks), "within": request.levels[part.constraint.required].label}
            for part in sets
            if part.constraint.required is not None
        ]
        parts = PodParts({"toy.example.com/gang": name}, {}, request.scheduler_name, {})
        return RenderedGang(
            pod_groups=(
                self._object(self.pod_group, name, request, {"share": request.queue, "sets": entries}),
            ),
            pods={task.name: parts for task in request.gang.tasks},
            topologies=(self.topology_of(request.installation, request.levels),) if request.levels else (),
            constraints=applied(tree, {}),
            sets={},
        )

    def _object(self, kind, name, request, spec):
        labels = {names.INSTALLATION_LABEL: request.installation.hex}
        if kind.namespaced:
            labels |= {names.GROUP_LABEL: request.group.hex}
        metadata = {"name": name, "labels": labels}
        if kind.namespaced:
            metadata["namespace"] = request.namespace
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}

    def resized(self, gang, *, living, waiting, rest):
        return {}

    def relaxed(self, before, after):
        return None

    def pool_objects(self, request):
        name = request.queues.queue(request.namespace, request.pool)
        base = self._object(self.share, f"base-of-{name}", request, {})
        share = self._object(self.share, name, request, {"base": f"base-of-{name}"})
        fabric = (self.topology_of(request.installation, request.levels),) if request.levels else ()
        return (base, share, *fabric)

    def above(self, pool_object):
        return pool_object["spec"].get("base", "")

    def topology_of(self, installation, levels):
        labels = [level.label for level in levels]
        return {
            "apiVersion": self.fabric.api_version,
            "kind": self.fabric.kind,
            "metadata": {
                "name": f"fabric-{len(labels)}",
                "labels": {names.INSTALLATION_LABEL: installation.hex},
            },
            "spec": {"tiers": labels},
        }

    def levels_in(self, manifest):
        return tuple(manifest["spec"]["tiers"])

    def waiting_reasons(self, waiting):
        said = [str(group["status"].get("why", "")) for group in waiting.pod_groups]
        said += [str(event["message"]) for event in waiting.events]
        return tuple(WaitingReason("Stuck", f"The toy scheduler says: {why}.", why) for why in said if why)
