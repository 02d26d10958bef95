"""The health of a ComputeDomain is counted from the nodes of the group's pods."""

from datetime import UTC, datetime

import pytest

from workflows.lifecycle.domain_health import (
    ChannelTask,
    Membership,
    deleted_domain,
    domain_nodes,
    health_of,
    membership,
)

BEFORE = datetime(2026, 11, 22, 12, tzinfo=UTC)
NOW = datetime(2026, 11, 22, 12, 30, tzinfo=UTC)


def status(**nodes):
    """A ComputeDomain's status, by node; the domain itself always says that it is Ready."""
    return {
        "status": "Ready",
        "nodes": [{"name": name, "cliqueID": "c.0", "status": state} for name, state in nodes.items()],
    }


CASES = {
    "all nodes are ready": (status(a="Ready", b="Ready"), "ab", "True", "2 of 2 nodes"),
    "a daemon is not ready": (status(a="Ready", b="NotReady"), "ab", "False", "Not ready: b."),
    "a node has not joined": (status(a="Ready"), "ab", "False", "Not ready: b."),
    "no node has joined": (status(), "ab", "Unknown", "lists no node"),
    "a node without a pod is not ready": (status(a="Ready", z="NotReady"), "a", "True", "1 of 1 node"),
    "a status that no controller writes": (
        {"nodes": ["a", {"name": 3}, None]},
        "a",
        "Unknown",
        "lists no node",
    ),
    "no status, as where the host runs IMEX": ({}, "a", "Unknown", "leaves IMEX to the host"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_domain_is_ready_when_each_node_of_its_pods_is(case):
    written, pod_nodes, want, text = CASES[case]
    tasks = [channel(node=node, joined=False) for node in pod_nodes]
    condition = health_of(domain_nodes(written), tasks, now=NOW).condition
    assert (condition.type, condition.status) == ("NVLinkReady", want)
    assert text in condition.message


def test_a_long_list_of_nodes_is_cut():
    tasks = [channel(node=f"node-{n:02}", joined=False) for n in range(72)]
    message = health_of(domain_nodes(status(other="Ready")), tasks, now=NOW).sentence
    assert message.startswith("0 of 72 nodes")
    assert "node-04 and 67 more" in message


def test_a_deleted_domain_has_no_ready_node_and_takes_none_for_left():
    health = deleted_domain(["b", "a", "a"])
    assert (health.condition.status, health.condition.reason) == ("False", "DomainDeleted")
    assert (health.expected, health.unready) == (2, ("a", "b"))
    assert membership([channel()], health) == Membership()


def channel(*, node="a", runs=True, joined=True, left=False, placed=False):
    """One try of a task on a node, by what was written of it before."""
    return ChannelTask(
        pk=7,
        node=node,
        holds=True,
        runs=runs,
        placed_at=BEFORE if placed else None,
        joined_at=BEFORE if joined else None,
        left_at=BEFORE if left else None,
    )


SINCE = {
    "it left the domain before": (channel(left=True), "Not ready: a since 2026-11-22 12:00 UTC."),
    "it leaves the domain now": (channel(), "Not ready: a since 2026-11-22 12:30 UTC."),
    "it has not joined since its pod came": (
        channel(joined=False, placed=True),
        "Not ready: a since 2026-11-22 12:00 UTC.",
    ),
    "nobody knows": (channel(joined=False), "Not ready: a."),
}


@pytest.mark.parametrize("case", SINCE)
def test_the_health_says_since_when_a_node_is_not_ready(case):
    task, want = SINCE[case]
    sentence = health_of(domain_nodes(status(a="NotReady")), [task], now=NOW).sentence
    assert sentence == f"0 of 1 node of its NVLink domain are ready. {want}"


MEMBERS = {
    "a node joins": (channel(joined=False), status(a="Ready"), Membership(joined=(7,))),
    "a node stays": (channel(), status(a="Ready"), Membership()),
    "a node leaves": (channel(), status(a="NotReady"), Membership(left=(7,))),
    "a node is not listed any more": (channel(), status(b="Ready"), Membership(left=(7,))),
    "a node is still out": (channel(left=True), status(a="NotReady"), Membership()),
    "a node is back": (channel(left=True), status(a="Ready"), Membership(joined=(7,))),
    "a node never joined": (channel(joined=False), status(a="NotReady"), Membership()),
    "a task does not run yet": (channel(runs=False), status(a="NotReady"), Membership()),
    "a controller reports no node": (channel(), status(), Membership()),
}


@pytest.mark.parametrize("case", MEMBERS)
def test_a_node_leaves_only_the_domain_that_it_had_joined(case):
    task, written, want = MEMBERS[case]
    tasks = [task, channel(node="b")] if "b" in str(written) else [task]
    health = health_of(domain_nodes(written), tasks, now=NOW)
    assert membership([task], health) == want
