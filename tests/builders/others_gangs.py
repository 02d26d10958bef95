"""Gangs of others as an observer keeps them, from manifests of their objects and pods."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduling.backends.registry import installed
from scheduling.capabilities import SchedulerVersion
from scheduling.foreign.gang import ForeignGang, GangKept, PodKept, kept_pods, root_of
from scheduling.kubernetes_syntax import GPU


def pod_kept(*, gpus=0, **fields) -> PodKept:
    """A pod that asks for one core, some memory and GPUs."""
    return PodKept(requests={"cpu": 1000, "memory": 2**30, **({GPU: gpus} if gpus else {})}, **fields)


def template_kept(template: Mapping[str, Any]) -> PodKept:
    """A template's pod, of which only the first container's GPUs and the node selector are read."""
    spec = template.get("spec") or {}
    requests = spec["containers"][0].get("resources", {}).get("requests", {})
    return pod_kept(gpus=int(requests.get(GPU, 0)), selector=dict(spec.get("nodeSelector", {})))


def stored(gang: GangKept) -> GangKept:
    """The gang as it comes back from the database."""
    return GangKept.from_json(json.loads(json.dumps(gang.to_json())))


def gang_kept(scheduler, obj, pods=(), *, above=(), resource=None, template=template_kept) -> GangKept:
    """What is kept of an object, of those above it, and of waiting pods, each with its manifest."""
    foreign = installed()[scheduler].foreign
    kind = resource or foreign.kinds[0]
    metadata = obj["metadata"]
    pairs = [
        (part, kept)
        for manifest, kept in pods
        for name, part in [foreign.gang_of(manifest)]
        if name == metadata["name"]
    ]
    return stored(
        GangKept(
            resource=kind.crd,
            namespace=metadata.get("namespace", "ns"),
            name=metadata["name"],
            created=metadata.get("creationTimestamp", ""),
            obj=foreign.keep(kind, obj, pod_of=template),
            above=tuple(foreign.keep(foreign.kinds[-1], each, pod_of=template) for each in above),
            pods=kept_pods(pairs),
        )
    )


def read(scheduler, gang: GangKept, *, topologies=None, queues=None, version=None, beside=()) -> ForeignGang:
    """The gang as the scheduler's facet reads it."""
    siblings = [each for each in beside if each is not gang and root_of(each) == root_of(gang) != ""]
    return installed()[scheduler].foreign.read(
        gang,
        topologies=topologies or {},
        queues=queues or {},
        version=SchedulerVersion.parse_known(version or ""),
        siblings=siblings,
    )


def codes(gang: ForeignGang) -> set[str]:
    return {str(entry.code) for entry in gang.unread}


def changed_pods(gang: GangKept, **changes) -> GangKept:
    """The gang with other values of all its pods."""
    return replace(gang, pods=tuple(replace(entry, pod=replace(entry.pod, **changes)) for entry in gang.pods))
