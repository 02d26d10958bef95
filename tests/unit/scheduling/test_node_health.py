"""A node's health follows from what Kubernetes says of it and from OSMO's rules."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduling.nodes.node_health import NodeHealth, NodeState, node_health, rule_fault, rules_of

TEXT = "2026-11-22T12:03:00Z"
SINCE = datetime(2026, 11, 22, 12, 3, tzinfo=UTC)
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "since": TEXT}
UNREADY = READY | {"status": "False", "reason": "KubeletNotReady"}
SILENT = READY | {"status": "Unknown", "reason": "NodeStatusUnknown"}
DISK = {"type": "DiskPressure", "status": "True", "since": TEXT}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": TEXT}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": TEXT}
NO_PRESSURE = {".*Pressure": "False"}


def health(*conditions, taints=(), cordoned=False, ready=True, rules=None):
    return node_health(
        conditions, taints=taints, unschedulable=cordoned, ready=ready, rules=rules_of(rules or {})
    )


CASES = {
    "ready": (health(READY), NodeState.HEALTHY, "", None),
    "its kubelet says it is not": (health(UNREADY), NodeState.NOT_READY, "KubeletNotReady", SINCE),
    "its kubelet says nothing": (health(SILENT), NodeState.UNREACHABLE, "NodeStatusUnknown", SINCE),
    "not ready, then silent": (
        health(UNREADY, taints=[UNREACHABLE]),
        NodeState.UNREACHABLE,
        "KubeletNotReady",
        SINCE,
    ),
    "cordoned": (health(READY, taints=[CORDON], cordoned=True), NodeState.CORDONED, "", SINCE),
    "cordoned by hand, no controller": (health(READY, cordoned=True), NodeState.CORDONED, "", None),
    "silent and cordoned": (health(SILENT, cordoned=True), NodeState.UNREACHABLE, "NodeStatusUnknown", SINCE),
    "pressure that no rule is about": (health(READY, DISK), NodeState.HEALTHY, "", None),
    "pressure that a rule forbids": (
        health(READY, DISK, rules=NO_PRESSURE),
        NodeState.UNHEALTHY,
        "DiskPressure",
        SINCE,
    ),
    "a rule for a condition that it lacks": (health(READY, rules=NO_PRESSURE), NodeState.HEALTHY, "", None),
    "a rule begins at the start": (
        health(READY, DISK, rules={"Pressure": "False"}),
        NodeState.HEALTHY,
        "",
        None,
    ),
    "a rule that lets silence pass": (
        health(SILENT, rules={"Ready": "True|Unknown"}),
        NodeState.HEALTHY,
        "",
        None,
    ),
    "a stored rule that is none": (health(READY, DISK, rules={"(": "x"}), NodeState.HEALTHY, "", None),
    "a stored rule that Python cannot count": (
        health(READY, DISK, rules={"a{99999999999}": "True"}),
        NodeState.HEALTHY,
        "",
        None,
    ),
    "a stored rule of groups in groups": (
        health(READY, DISK, rules={"(" * 500 + ")" * 500: "True"}),
        NodeState.HEALTHY,
        "",
        None,
    ),
    "no condition was ever posted": (
        health(DISK),
        NodeState.NOT_READY,
        "NodeStatusNeverUpdated",
        None,
    ),
    "no condition is known, ready": (health(), NodeState.HEALTHY, "", None),
    "no condition is known, not ready": (health(ready=False), NodeState.UNREACHABLE, "", None),
    "a time that is none": (
        health(UNREADY | {"since": "soon"}),
        NodeState.NOT_READY,
        "KubeletNotReady",
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_node_has_one_state_the_worst(case):
    seen, state, reason, since = CASES[case]
    assert seen == NodeHealth(state, reason, since)


@pytest.mark.parametrize("state", NodeState)
def test_only_a_node_that_is_not_ready_or_unreachable_is_lost_in_time(state):
    seen, limit = NodeHealth(state, "", SINCE), timedelta(minutes=5)
    loses = state in (NodeState.NOT_READY, NodeState.UNREACHABLE)
    assert seen.lost_at(limit) == (SINCE + limit if loses else None)
    assert not seen.is_lost(limit, now=SINCE + limit - timedelta(seconds=1))
    assert seen.is_lost(limit, now=SINCE + limit) is loses
    assert not seen.is_lost(None, now=SINCE + timedelta(days=1))


def test_a_node_of_which_nobody_knows_since_when_is_never_lost():
    assert NodeHealth(NodeState.UNREACHABLE).lost_at(timedelta(minutes=5)) is None


def test_the_sentence_names_node_state_time_and_reason():
    sentence = NodeHealth(NodeState.UNREACHABLE, "NodeStatusUnknown", SINCE).sentence("node-7")
    assert sentence == "Node node-7 is unreachable since 2026-11-22 12:03:00 UTC (NodeStatusUnknown)."


@pytest.mark.parametrize(
    ("pattern", "statuses", "text"),
    [
        ("Ready", "True", ""),
        (".*Pressure", "False|Unknown", ""),
        ("^osmo.nvidia.com/.*$", "^(True|Unknown)$", ""),
        ("Ready", "Yes", "must be one or more of"),
        ("Ready", "", "must be one or more of"),
        ("(a+)+b", "True", "repeat no group"),
        ("(?=a)", "True", "no assertion"),
        ("a*b*c*", "True", "at most 2 times"),
        ("(", "True", "no regular expression"),
        ("a" * 257, "True", "at most 256 characters"),
        ("(" * 500 + "a" + ")" * 500, "True", "at most 256 characters"),
        ("(" * 100 + "a" + ")" * 100, "True", "8 groups"),
        ("a{99999999999}", "True", "no regular expression"),
        ("a{1000000}b{1000000}", "True", ""),
        ("(" + "|".join(map(str, range(64))) + ")", "True", ""),
        ("(.|a|b|c|d)(.|a|b|c|d)", "True", ""),
        ("(.|a|b|c|d)(.|a|b|c|d|e)", "True", 'at most 8 signs "|"'),
    ],
)
def test_a_rule_that_cannot_be_used_is_explained(pattern, statuses, text):
    fault = rule_fault(pattern, statuses)
    assert text in fault if text else fault == ""


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z"])
def test_a_time_that_nobody_can_reckon_with_is_none(text):
    node = health(SILENT | {"since": text})
    assert (node.since, node.lost_at(timedelta(minutes=5))) == (None, None)
