"""KAI's PodGroup, Queue, Topology and BindRequest as some of its versions serve them.

Written for the local cluster from the fields and rules that KAI documents and that running
schedulers showed; v0.13 and v0.17 differ in what a PodGroup and a Topology accept, and the
product tells them apart by exactly that. The definitions alone accept duplicate sub-group names
and unknown parents: those are refused by KAI's webhook, which is an admission policy here
(``webhook``), since not every cluster runs it.
"""

from collections.abc import Mapping
from typing import Any, Literal

from localcluster.crds.schema import (
    Schema,
    anything,
    definition,
    flag,
    int32,
    integer,
    many,
    number,
    one_of,
    quantities,
    record,
    text,
    time,
)

Version = Literal["0.13", "0.17.0", "0.17"]
"""0.17.0 is the release, 0.17 a later build, as for the stand-in (``standins.kai.versions``)."""

_LEAST: Mapping[Version, int] = {"0.13": 1, "0.17.0": 1, "0.17": 0}
"""The least ``minMember`` and ``minSubGroup`` of a pod group as a whole; leaves may have 0 from 0.15 on."""

DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
NODE_LABEL = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


def definitions(version: Version) -> list[Schema]:
    """The four kinds in the form that this line of KAI installs."""
    return [_pod_group(version), _queue(), _topology(version), _bind_request(version)]


def _pod_group(version: Version) -> Schema:
    newer = version != "0.13"
    member = int32(minimum=0 if newer else 1)
    name = {"pattern": DNS_LABEL} if newer else {}
    sub_group = {
        "name": text(minLength=1, **name),
        "parent": text(**name),
        "minMember": member,
        "topologyConstraint": _constraint(),
    }
    spec = {
        "minMember": int32(minimum=_LEAST[version]),
        "queue": text(),
        "priorityClassName": text(),
        "preemptibility": one_of("preemptible", "non-preemptible"),
        "markUnschedulable": flag(),
        "schedulingBackoff": int32(),
        "topologyConstraint": _constraint(),
    }
    if newer:
        sub_group["minSubGroup"] = int32(minimum=0)
        spec |= {
            "minSubGroup": int32(minimum=_LEAST[version]),
            "preemptionDelay": text(),
            "stalenessGracePeriod": text(),
        }
    else:
        spec |= {"parallelism": int32(), "completions": int32(), "backoffLimit": int32()}
    spec["subGroups"] = many(record(sub_group, required=["name"]))
    return definition(
        group="scheduling.run.ai",
        kind="PodGroup",
        plural="podgroups",
        version="v2alpha2",
        namespaced=True,
        short_names=["pg"],
        fields={"spec": record(spec), "status": record(_pod_group_status(newer=newer))},
    )


def _constraint() -> Schema:
    return record({"topology": text(), "requiredTopologyLevel": text(), "preferredTopologyLevel": text()})


def _pod_group_status(*, newer: bool) -> dict[str, Schema]:
    condition = {
        "type": text(),
        "status": text(),
        "reason": text(),
        "message": text(),
        "transitionID": text(),
        "lastTransitionTime": time(),
    }
    amounts = ("allocated", "allocatedNonPreemptible", "requested")
    fields = {
        "conditions": many(record(dict(condition))),
        "resourcesStatus": record({name: quantities() for name in amounts}),
        "schedulingConditions": many(record(condition | {"nodePool": text(), "reasons": many(_reason())})),
    }
    if not newer:  # declared up to v0.15, written by nobody
        fields |= {"phase": text()} | {
            name: int32() for name in ("pending", "running", "succeeded", "failed")
        }
    return fields


def _reason() -> Schema:
    amounts = (
        "podGroupRequestedNonPreemptibleResources",
        "podGroupRequestedResources",
        "queueAllocatedNonPreemptibleResources",
        "queueAllocatedResources",
        "queueDeservedResources",
        "queueRequestedResources",
        "queueResourceLimits",
    )
    queue = record({"name": text()} | {name: quantities() for name in amounts})
    return record({"reason": text(), "message": text(), "details": record({"queueDetails": queue})})


def _queue() -> Schema:
    share = {"quota": number(), "overQuotaWeight": number(), "limit": number()}
    condition = {
        "type": text(),
        "status": text(),
        "reason": text(),
        "message": text(),
        "lastProbeTime": time(),
        "lastTransitionTime": time(),
    }
    spec = {
        "displayName": text(),
        "parentQueue": text(),
        "priority": integer(),
        "preemptMinRuntime": text(),
        "reclaimMinRuntime": text(),
        "resources": record({name: record(dict(share)) for name in ("cpu", "gpu", "memory")}),
    }
    status = {
        "allocated": quantities(),
        "allocatedNonPreemptible": quantities(),
        "requested": quantities(),
        "childQueues": many(text()),
        "conditions": many(record(condition, required=["status", "type"])),
    }
    return definition(
        group="scheduling.run.ai",
        kind="Queue",
        plural="queues",
        version="v2",
        namespaced=False,
        fields={"spec": record(spec), "status": record(status)},
    )


def _topology(version: Version) -> Schema:
    level = {"nodeLabel": text(minLength=1, maxLength=316, pattern=NODE_LABEL)}
    if version != "0.13":
        level["alias"] = text(minLength=1, maxLength=316, pattern=NODE_LABEL)
    levels = many(
        record(level, required=["nodeLabel"]),
        minItems=1,
        maxItems=16,
        **{"x-kubernetes-list-type": "atomic", "x-kubernetes-validations": _level_rules(version)},
    )
    return definition(
        group="kai.scheduler",
        kind="Topology",
        plural="topologies",
        version="v1alpha1",
        namespaced=False,
        fields={"spec": record({"levels": levels}, required=["levels"])},
        required=["spec"],
        status=False,
    )


def _level_rules(version: Version) -> list[dict[str, str]]:
    """Levels never change, none stands twice, and a single node is the narrowest there can be."""
    labels, before = "self.map(l, l.nodeLabel)", "oldSelf.map(l, l.nodeLabel)"
    older = version == "0.13"
    return [
        {
            "rule": f"{labels} == {before}",
            "message": "field is immutable"
            if older
            else "nodeLabel structure is immutable; only aliases may be edited",
        },
        {
            "rule": "self.all(l, self.exists_one(other, other.nodeLabel == l.nodeLabel))",
            "message": "must be unique" if older else "nodeLabel must be unique",
        },
        {
            "rule": "self.all(l, l.nodeLabel != 'kubernetes.io/hostname' || l == self[size(self) - 1])",
            "message": "the kubernetes.io/hostname label can only be used at the lowest level of topology",
        },
    ]


def _bind_request(version: Version) -> Schema:
    """What the scheduler asks of the binder; allocations are stored as they come."""
    claim = record({"name": text(), "allocation": anything()})
    spec = {
        "podName": text(),
        "selectedNode": text(),
        "receivedResourceType": text(),
        "receivedGPU": record({"count": integer(), "portion": text()}),
        "selectedGPUGroups": many(text()),
        "resourceClaimAllocations": many(claim),
        "backoffLimit": int32(),
    }
    if version != "0.13":
        spec |= {"extendedResourceClaimAllocation": anything(), "predictedNUMAZones": many(anything())}
    status = {"phase": text(), "reason": text(), "failedAttempts": int32()}
    return definition(
        group="scheduling.run.ai",
        kind="BindRequest",
        plural="bindrequests",
        version="v1alpha2",
        namespaced=True,
        fields={"spec": record(spec), "status": record(status)},
    )


def webhook(version: Version) -> list[Schema]:
    """KAI's PodGroup webhook as an admission policy.

    A group too large for the evaluation budget passes unchecked (``failurePolicy: Ignore``), and
    cycles among parents are not looked for.
    """
    named, parents = "variables.named", "variables.parents"
    rules = [
        (
            f"{named}.all(n, {named}.exists_one(m, m == n))",
            "duplicate subgroup names",
        ),
        (f"{parents}.all(p, p in {named})", "a parent names no subgroup"),
    ]
    if version != "0.13":
        leaf, updated = f"!(g.name in {parents})", "request.operation != 'CREATE'"
        rules += [
            (
                f"variables.groups.all(g, g.name in {parents} || has(g.minMember))",
                "a leaf subgroup must set minMember",
            ),
            (
                f"{updated} || variables.groups.all(g, {leaf} || !has(g.minMember))",
                "minMember is not allowed on a subgroup with children; use minSubGroup",
            ),
            (
                "variables.groups.all(g, !(has(g.minMember) && has(g.minSubGroup)))",
                "minMember and minSubGroup exclude each other",
            ),
        ]
    return [_policy(rules), _binding()]


POLICY = "kai-podgroup-webhook"


def _policy(rules: list[tuple[str, str]]) -> Schema:
    matched: dict[str, Any] = {
        "apiGroups": ["scheduling.run.ai"],
        "apiVersions": ["v2alpha2"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["podgroups"],
    }
    groups = "has(object.spec) && has(object.spec.subGroups) ? object.spec.subGroups : []"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": [matched]},
            "variables": [
                {"name": "groups", "expression": groups},
                {"name": "named", "expression": "variables.groups.map(g, g.name)"},
                {
                    "name": "parents",
                    "expression": "variables.groups.map(g, has(g.parent), g.parent)",
                },
            ],
            "validations": [
                {"expression": rule, "message": message, "reason": "Invalid"} for rule, message in rules
            ],
        },
    }


def _binding() -> Schema:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    }
