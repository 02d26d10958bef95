"""Kueue's Workload, its queues, ResourceFlavor, Topology and WorkloadPriorityClass as v0.19 stores them.

Written for the local cluster from the fields and rules that Kueue documents. v1beta2 alone is served here.
Pod templates are stored as they come.
"""

from collections.abc import Sequence
from typing import Any

from localcluster.crds.schema import (
    Schema,
    anything,
    definition,
    flag,
    int32,
    integer,
    many,
    one_of,
    quantities,
    record,
    text,
    time,
)

GROUP = "kueue.x-k8s.io"
VERSION = "v1beta2"
HOSTNAME = "kubernetes.io/hostname"

DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_DIGITS = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY = rf"^(\+|-)?{_DIGITS}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_DIGITS}))?$"
EFFECTS = "['NoSchedule', 'PreferNoSchedule', 'NoExecute']"

EITHER = {
    "exactly one of the fields in [universal individual] must be set": (
        "has(self.individual) != has(self.universal)"
    )
}


def definitions() -> list[Schema]:
    return [_workload(), _cluster_queue(), _local_queue(), _flavor(), _topology(), _priority_class()]


def _rules(rules: dict[str, str]) -> dict[str, Any]:
    return {
        "x-kubernetes-validations": [{"rule": rule, "message": message} for message, rule in rules.items()]
    }


def _map(items: Schema, *keys: str, **more: Any) -> Schema:
    kind = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return many(items, **kind, **more)


def _atomic(items: Schema, **more: Any) -> Schema:
    return many(items, **{"x-kubernetes-list-type": "atomic"}, **more)


def _name(**more: Any) -> Schema:
    return text(maxLength=253, pattern=DNS_NAME, **more)


def _pod_set_name(**more: Any) -> Schema:
    return text(maxLength=63, pattern=DNS_LABEL, **more)


def _quantity(**more: Any) -> Schema:
    either: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY}
    return either | {"x-kubernetes-int-or-string": True} | more


def _texts() -> Schema:
    return {"type": "object", "additionalProperties": text()}


def _conditions() -> Schema:
    fields = {
        "type": text(maxLength=316, pattern=LABEL_KEY),
        "status": one_of("True", "False", "Unknown"),
        "reason": text(minLength=1, maxLength=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        "message": text(maxLength=32768),
        "lastTransitionTime": time(),
        "observedGeneration": integer(format="int64", minimum=0),
    }
    required = ("lastTransitionTime", "message", "reason", "status", "type")
    return _map(record(fields, required=required), "type", maxItems=16)


def _tolerations() -> Schema:
    fields = {
        "key": text(),
        "operator": text(),
        "value": text(),
        "effect": text(),
        "tolerationSeconds": integer(format="int64"),
    }
    rules = {
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'": (
            "self.all(t, has(t.key) || (has(t.operator) && t.operator == 'Exists'))"
        ),
        "effect must be 'NoExecute' when 'tolerationSeconds' is set": (
            "self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))"
        ),
        "supported toleration values: 'Equal'(default), 'Exists'": (
            "self.all(t, !has(t.operator) || t.operator in ['Exists', 'Equal'])"
        ),
        "a value must be empty when 'operator' is 'Exists'": (
            "self.all(t, !has(t.value) || !has(t.operator) || t.operator != 'Exists')"
        ),
        "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'": (
            f"self.all(t, !has(t.effect) || t.effect in {EFFECTS})"
        ),
    }
    return _atomic(record(fields), maxItems=8, **_rules(rules))


def _topology() -> Schema:
    rules = {
        "levels are mutable only when kubernetes.io/hostname is the lowest level "
        "both before and after the change": (
            f"self == oldSelf || [self, oldSelf].all(l, l[size(l) - 1].nodeLabel == '{HOSTNAME}')"
        ),
        "must be unique": "self.all(i, self.exists_one(j, j.nodeLabel == i.nodeLabel))",
        "the kubernetes.io/hostname label can only be used at the lowest level of topology": (
            f"self.all(i, i.nodeLabel != '{HOSTNAME}') || self[size(self) - 1].nodeLabel == '{HOSTNAME}'"
        ),
    }
    level = record({"nodeLabel": text(minLength=1, maxLength=316, pattern=LABEL_KEY)}, required=["nodeLabel"])
    levels = _atomic(level, minItems=1, maxItems=16, **_rules(rules))
    return _definition("Topology", "topologies", ["topo"], record({"levels": levels}, required=["levels"]))


def _flavor() -> Schema:
    taint = record(
        {"key": text(), "value": text(), "effect": text(), "timeAdded": time()}, required=["effect", "key"]
    )
    effects = {
        "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'": (
            f"self.all(t, t.effect in {EFFECTS})"
        )
    }
    rules = {
        "at least one nodeLabel is required when topology is set": (
            "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) > 0)"
        ),
        "topologyName is immutable when topologyName is set": (
            "!has(oldSelf.topologyName) || (has(self.topologyName) && "
            "oldSelf.topologyName == self.topologyName)"
        ),
    }
    spec = record(
        {
            "nodeLabels": _texts() | {"maxProperties": 8, "x-kubernetes-map-type": "atomic"},
            "nodeTaints": _atomic(taint, maxItems=8, **_rules(effects)),
            "tolerations": _tolerations(),
            "topologyName": _name(),
        },
        **_rules(rules),
    )
    return _definition("ResourceFlavor", "resourceflavors", ["flavor", "flavors", "rf"], spec)


def _priority_class() -> Schema:
    return definition(
        group=GROUP,
        kind="WorkloadPriorityClass",
        plural="workloadpriorityclasses",
        version=VERSION,
        namespaced=False,
        fields={"value": int32(), "description": text(maxLength=2048)},
        required=["value"],
        short_names=["wpc"],
        status=False,
    )


def _stop_policy() -> Schema:
    return one_of("None", "Hold", "HoldAndDrain", default="None")


def _fair_sharing() -> Schema:
    return record({"weight": _quantity(default=1)})


def _usage(*, borrowed: bool) -> Schema:
    fields = {"name": text(), "total": _quantity()} | ({"borrowed": _quantity()} if borrowed else {})
    resources = _map(record(fields, required=["name"]), "name", maxItems=64)
    flavor = record({"name": _name(), "resources": resources}, required=["name", "resources"])
    return _map(flavor, "name", maxItems=64)


def _queue_status(*, borrowed: bool, sharing: Schema) -> Schema:
    counts = {f"{which}Workloads": int32() for which in ("admitted", "pending", "reserving")}
    usage = {f"flavors{which}": _usage(borrowed=borrowed) for which in ("Reservation", "Usage")}
    return record({"conditions": _conditions(), "fairSharing": sharing, **counts, **usage})


def _local_queue() -> Schema:
    unchanged = {"field is immutable": "oldSelf == self"}
    spec = record(
        {
            "clusterQueue": _name(**_rules(unchanged)),
            "fairSharing": _fair_sharing(),
            "stopPolicy": _stop_policy(),
        }
    )
    consumption = record(
        {"consumedResources": quantities(), "lastUpdate": time()},
        required=["consumedResources", "lastUpdate"],
    )
    sharing = record(
        {"weightedShare": integer(format="int64"), "admissionFairSharingStatus": consumption},
        required=["weightedShare"],
    )
    status = _queue_status(borrowed=False, sharing=sharing)
    return _definition(
        "LocalQueue", "localqueues", ["queue", "queues", "lq"], spec, namespaced=True, status=status
    )


def _resource_groups() -> Schema:
    quota = record(
        {
            "name": text(),
            "nominalQuota": _quantity(),
            "borrowingLimit": _quantity(),
            "lendingLimit": _quantity(),
        },
        required=["name", "nominalQuota"],
    )
    flavor = record(
        {"name": _name(), "resources": _map(quota, "name", minItems=1, maxItems=64)},
        required=["name", "resources"],
    )
    rules = {
        "flavors must have the same number of resources as the coveredResources": (
            "self.flavors.all(f, size(self.coveredResources) == size(f.resources))"
        )
    }
    group = record(
        {
            "coveredResources": _atomic(text(), minItems=1, maxItems=64),
            "flavors": _map(flavor, "name", minItems=1, maxItems=64),
        },
        required=["coveredResources", "flavors"],
        **_rules(rules),
    )
    return _atomic(group, maxItems=16)


def _preemption() -> Schema:
    within = one_of("Never", "LowerPriority", "LowerOrNewerEqualPriority", default="Never")
    borrowing = record(
        {
            "maxPriorityThreshold": int32(),
            "policy": one_of("Never", "LowerPriority", default="Never"),
        },
        default={},
    )
    rules = {
        "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never": (
            "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort) || "
            "self.borrowWithinCohort.policy == 'Never'"
        )
    }
    return record(
        {
            "withinClusterQueue": within,
            "reclaimWithinCohort": one_of("Never", "LowerPriority", "Any", default="Never"),
            "borrowWithinCohort": borrowing,
        },
        default={},
        **_rules(rules),
    )


def _selector() -> Schema:
    expression = record(
        {"key": text(), "operator": text(), "values": _atomic(text())}, required=["key", "operator"]
    )
    return record(
        {"matchExpressions": _atomic(expression), "matchLabels": _texts()},
        **{"x-kubernetes-map-type": "atomic"},
    )


def _fungibility() -> Schema:
    ways = ("MayStopSearch", "TryNextFlavor")
    rules = {
        "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor": (
            "!has(self.preference) || [self.whenCanBorrow, self.whenCanPreempt].all(w, w == 'TryNextFlavor')"
        )
    }
    return record(
        {
            "preference": one_of("BorrowingOverPreemption", "PreemptionOverBorrowing"),
            "whenCanBorrow": one_of(*ways, default="MayStopSearch"),
            "whenCanPreempt": one_of(*ways, default="TryNextFlavor"),
        },
        default={},
        **_rules(rules),
    )


def _cluster_queue() -> Schema:
    check = record(
        {
            "name": text(minLength=1, maxLength=316),
            "onFlavors": many(_name(), maxItems=64, **{"x-kubernetes-list-type": "set"}),
        },
        required=["name"],
    )
    checks = record(
        {"admissionChecks": _map(check, "name", minItems=1, maxItems=64)}, required=["admissionChecks"]
    )
    modes = one_of("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")
    migration = record(
        {
            "mode": one_of("TryPreferredFlavors", "RetainFirstAdmission", maxLength=253),
            "constraints": record({"lastAcceptableFlavorName": _name()}),
        },
        required=["mode"],
    )
    rules = {
        "borrowingLimit must be nil when cohort is empty": (
            "has(self.cohortName) || !has(self.resourceGroups) || self.resourceGroups.all(g, "
            "g.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))"
        )
    }
    spec = record(
        {
            "admissionChecksStrategy": checks,
            "admissionScope": record({"admissionMode": modes}, required=["admissionMode"]),
            "cohortName": _name(),
            "concurrentAdmissionPolicy": record({"migration": migration}, required=["migration"]),
            "fairSharing": _fair_sharing(),
            "flavorFungibility": _fungibility(),
            "namespaceSelector": _selector(),
            "preemption": _preemption(),
            "queueingStrategy": one_of("StrictFIFO", "BestEffortFIFO", default="BestEffortFIFO"),
            "resourceGroups": _resource_groups(),
            "stopPolicy": _stop_policy(),
        },
        **_rules(rules),
    )
    sharing = record({"weightedShare": integer(format="int64")}, required=["weightedShare"])
    status = _queue_status(borrowed=True, sharing=sharing)
    return _definition("ClusterQueue", "clusterqueues", ["cq"], spec, status=status)


def _topology_request() -> Schema:
    layer = record(
        {"topology": text(minLength=1, maxLength=63), "size": int32(minimum=1)}, required=["size", "topology"]
    )
    return record(
        {
            "required": text(maxLength=63),
            "preferred": text(maxLength=63),
            "unconstrained": flag(),
            "podIndexLabel": text(maxLength=317),
            "subGroupIndexLabel": text(maxLength=317),
            "subGroupCount": int32(minimum=0),
            "podSetGroupName": text(maxLength=256),
            "podSetSliceRequiredTopology": text(maxLength=63),
            "podSetSliceSize": int32(minimum=1),
            "podsetSliceRequiredTopologyConstraints": _atomic(layer, maxItems=3),
        }
    )


def _workload_spec() -> Schema:
    pod_set = record(
        {
            "name": _pod_set_name(default="main"),
            "template": anything(),
            "count": int32(default=1, minimum=0),
            "minCount": int32(minimum=1),
            "topologyRequest": _topology_request(),
        },
        required=["template"],
        **_rules(
            {
                "minCount should be positive and less or equal to count": (
                    "!has(self.minCount) || self.count >= self.minCount"
                )
            }
        ),
    )
    reference = record(
        {
            "group": one_of(GROUP, "scheduling.k8s.io"),
            "kind": one_of("WorkloadPriorityClass", "PriorityClass"),
            "name": _name(minLength=1),
        },
        required=["group", "kind", "name"],
        **_rules(
            {
                "only the PriorityClass kind is allowed for the scheduling.k8s.io group": (
                    "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'"
                ),
                "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group": (
                    f"self.group != '{GROUP}' || self.kind == 'WorkloadPriorityClass'"
                ),
            }
        ),
    )
    gate = record({"name": text(minLength=1, maxLength=63)}, required=["name"])
    return record(
        {
            "active": flag() | {"default": True},
            "maximumExecutionTimeSeconds": int32(minimum=1),
            "podSets": _map(pod_set, "name", minItems=1, maxItems=18),
            "preemptionGates": _map(gate, "name", maxItems=8),
            "priority": int32(),
            "priorityClassRef": reference,
            "queueName": _name(),
        },
        **_rules(
            {
                "priority should not be nil when priorityClassRef is set": (
                    "has(self.priority) || !has(self.priorityClassRef)"
                )
            }
        ),
    )


def _assignment() -> Schema:
    values = record(
        {
            "universal": text(maxLength=63),
            "individual": record(
                {
                    "prefix": text(maxLength=63),
                    "suffix": text(maxLength=63),
                    "roots": _atomic(text(maxLength=63), minItems=1, maxItems=100000),
                },
                required=["roots"],
            ),
        },
        **_rules(EITHER),
    )
    counts = record(
        {
            "universal": int32(minimum=1),
            "individual": _atomic(int32(minimum=1), minItems=1, maxItems=100000),
        },
        **_rules(EITHER),
    )
    part = record(
        {
            "domainCount": int32(minimum=1),
            "podCounts": counts,
            "valuesPerLevel": _atomic(values, minItems=1, maxItems=16),
        },
        required=["domainCount", "podCounts", "valuesPerLevel"],
        **_rules(
            {
                "podCounts.individual must have length equal to domainCount": (
                    "!has(self.podCounts.individual) || self.domainCount == size(self.podCounts.individual)"
                ),
                "valuesPerLevel.individual, if set, must have roots of length equal to domainCount "
                "of this TopologyAssignmentSlice": (
                    "self.valuesPerLevel.all(v, !has(v.individual) || "
                    "self.domainCount == size(v.individual.roots))"
                ),
            }
        ),
    )
    return record(
        {
            "levels": _atomic(text(maxLength=317), minItems=1, maxItems=16),
            "slices": _atomic(part, maxItems=1000),
        },
        required=["levels", "slices"],
        **_rules(
            {
                "valuesPerLevel must have the same length as the number of levels "
                "in this TopologyAssignment": (
                    "self.slices.all(s, size(self.levels) == size(s.valuesPerLevel))"
                )
            }
        ),
    )


def _admission() -> Schema:
    assigned = record(
        {
            "name": _pod_set_name(default="main"),
            "count": int32(minimum=0),
            "flavors": {"type": "object", "additionalProperties": _name()},
            "resourceUsage": quantities(),
            "delayedTopologyRequest": one_of("Pending", "Ready", maxLength=7),
            "topologyAssignment": _assignment(),
        }
    )
    return record(
        {"clusterQueue": _name(), "podSetAssignments": _map(assigned, "name", maxItems=18)},
    )


def _check_states() -> Schema:
    update = record(
        {
            "name": _pod_set_name(),
            "annotations": _texts(),
            "labels": _texts(),
            "nodeSelector": _texts(),
            "tolerations": _tolerations(),
        },
        required=["name"],
    )
    state = record(
        {
            "name": text(minLength=1, maxLength=316),
            "state": one_of("Pending", "Ready", "Retry", "Rejected"),
            "message": text(maxLength=32768),
            "lastTransitionTime": time(),
            "podSetUpdates": _atomic(update, maxItems=18),
            "requeueAfterSeconds": int32(minimum=0),
            "retryCount": int32(minimum=0),
        },
        required=["lastTransitionTime", "message", "name", "state"],
    )
    return _map(state, "name", maxItems=8)


def _workload_status() -> Schema:
    gate = record(
        {
            "name": text(minLength=1, maxLength=63),
            "position": one_of("Closed", "Open"),
            "lastTransitionTime": time(),
        },
        required=["lastTransitionTime", "name", "position"],
    )
    reclaimable = record({"name": _pod_set_name(), "count": int32(minimum=0)}, required=["count", "name"])
    requests = record({"name": _pod_set_name(), "resources": quantities()}, required=["name"])
    causes = ("reason", "underlyingCause")
    eviction = record(
        {**{cause: text(maxLength=316) for cause in causes}, "count": int32(minimum=0)},
        required=["count", *causes],
    )
    node = record({"name": text(maxLength=63)}, required=["name"])
    return record(
        {
            "accumulatedPastExecutionTimeSeconds": int32(),
            "admission": _admission(),
            "admissionChecks": _check_states(),
            "clusterName": text(maxLength=256),
            "conditions": _conditions(),
            "nominatedClusterNames": _atomic(text(maxLength=256), maxItems=20),
            "preemptionGates": _map(gate, "name", maxItems=8),
            "reclaimablePods": _map(reclaimable, "name", maxItems=18),
            "requeueState": record({"count": int32(minimum=0), "requeueAt": time()}),
            "resourceRequests": _map(requests, "name", maxItems=18),
            "schedulingStats": record({"evictions": _map(eviction, *causes, maxItems=256)}),
            "unhealthyNodes": _map(node, "name", maxItems=8),
        },
        **_rules(
            {
                "clusterName is immutable once set": (
                    "!has(self.clusterName) || !has(oldSelf.clusterName) || "
                    "self.clusterName == oldSelf.clusterName"
                ),
                "clusterName and nominatedClusterNames are mutually exclusive": (
                    "!has(self.clusterName) || !has(self.nominatedClusterNames) || "
                    "size(self.nominatedClusterNames) == 0"
                ),
            }
        ),
    )


def _true(whose: str, kind: str) -> str:
    """A rule's test that a condition is true."""
    conditions = f"has({whose}.status) && has({whose}.status.conditions)"
    return f"({conditions} && {whose}.status.conditions.exists(c, c.type == '{kind}' && c.status == 'True'))"


def _unchanged(field: str) -> str:
    """A rule's test that an optional field of the spec is as it was."""
    old, new = f"oldSelf.spec.{field}", f"self.spec.{field}"
    return f"(has({old}) == has({new}) && (!has({new}) || {old} == {new}))"


def _workload() -> Schema:
    before, now = _true("oldSelf", "QuotaReserved"), _true("self", "QuotaReserved")
    both = "has(oldSelf.spec.priorityClassRef) && has(self.spec.priorityClassRef)"
    reference = "priorityClassRef"
    plain = (
        "self.spec.priorityClassRef.group == 'scheduling.k8s.io' && "
        "self.spec.priorityClassRef.kind == 'PriorityClass'"
    )

    def same(field: str) -> str:
        return f"oldSelf.spec.{reference}.{field} == self.spec.{reference}.{field}"

    rules = {
        "podSetAssignments must have the same number of podSets as the spec": (
            f"!({now} && has(self.status.admission)) || "
            "size(self.status.admission.podSetAssignments) == size(self.spec.podSets)"
        ),
        "priorityClassRef is immutable while workload quota reserved": (
            f"!{before} || has(oldSelf.spec.{reference}) == has(self.spec.{reference})"
        ),
        "priorityClassRef.group is immutable while workload quota reserved": (
            f"!({before} && {both}) || {same('group')}"
        ),
        "priorityClassRef.kind is immutable while workload quota reserved": (
            f"!({before} && {both}) || {same('kind')}"
        ),
        "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass "
        "while workload quota reserved": (f"!({before} && {both} && {plain}) || {same('name')}"),
        "queueName is immutable while workload quota reserved": (
            f"!({before} && {now}) || {_unchanged('queueName')}"
        ),
        "maximumExecutionTimeSeconds is immutable while workload quota reserved": (
            f"!({_true('oldSelf', 'Admitted')} && {_true('self', 'Admitted')}) || "
            f"{_unchanged('maximumExecutionTimeSeconds')}"
        ),
    }
    document = _definition(
        "Workload",
        "workloads",
        ["kwl", "kueueworkload", "kueueworkloads"],
        _workload_spec(),
        namespaced=True,
        status=_workload_status(),
    )
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"] |= _rules(rules)
    return document


def _definition(
    kind: str,
    plural: str,
    short_names: Sequence[str],
    spec: Schema,
    *,
    namespaced: bool = False,
    status: Schema | None = None,
) -> Schema:
    return definition(
        group=GROUP,
        kind=kind,
        plural=plural,
        version=VERSION,
        namespaced=namespaced,
        fields={"spec": spec} | ({} if status is None else {"status": status}),
        short_names=short_names,
        status=status is not None,
    )
