"""Other tenants' pods: what each holds as a scheduler counts it, their sum on each node, and their lane."""

import json
from uuid import uuid4

import pytest

from scheduling.fit.snapshot import Evictable
from workflows.observer.foreign_usage import ForeignUsageSums, see_foreign_pod
from workflows.observer.inbox import BATCH, Batch, ForeignUsageChanges, Inbox
from workflows.values.observation import ForeignUsageSeen, PodSeen
from workflows.values.pod_usage import MOST, usage_of

GIB = 2**30


def asks(**amounts):
    names = {"gpu": "nvidia.com/gpu", "storage": "ephemeral-storage"}
    return {"resources": {"requests": {names.get(name, name): text for name, text in amounts.items()}}}


def sidecar(**amounts):
    return asks(**amounts) | {"restartPolicy": "Always"}


HELD = {
    "nothing asked for: a pod's place": ({"containers": [{}]}, (0, 0, 0, 0, 1)),
    "containers run side by side": (
        {"containers": [asks(gpu="4", cpu="1500m"), asks(gpu=4, memory="1Gi", storage="1k")]},
        (8, 1500, GIB, 1000, 1),
    ),
    "init containers run one by one": (
        {"initContainers": [asks(cpu="3"), asks(cpu="2", memory="8Gi")], "containers": [asks(cpu="1")]},
        (0, 3000, 8 * GIB, 0, 1),
    ),
    "a sidecar runs beside containers": (
        {"initContainers": [sidecar(cpu="1")], "containers": [asks(cpu="2")]},
        (0, 3000, 0, 0, 1),
    ),
    "and beside the init containers after it, not those before": (
        {"initContainers": [asks(cpu="4"), sidecar(cpu="1"), asks(cpu="4")], "containers": [asks(cpu="2")]},
        (0, 5000, 0, 0, 1),
    ),
    "overhead is added": (
        {"containers": [asks(cpu="1")], "overhead": {"cpu": "250m", "memory": "120Mi"}},
        (0, 1250, 120 * 2**20, 0, 1),
    ),
    "what the pod asks for as a whole goes over its containers": (
        {"containers": [asks(cpu="1", memory="1Gi", gpu="2")], **asks(cpu="4")},
        (2, 4000, GIB, 0, 1),
    ),
    "parts are rounded up": ({"containers": [asks(cpu="1u", memory="100m")]}, (0, 1, 1, 0, 1)),
    "nonsense counts as nothing": ({"containers": [asks(cpu="lots", memory="-1")]}, (0, 0, 0, 0, 1)),
    "and more than there can be is bounded": ({"containers": [asks(memory="9E99")] * 2}, (0, 0, MOST, 0, 1)),
}


@pytest.mark.parametrize("case", HELD)
def test_a_pod_holds_what_a_scheduler_counts(case):
    spec, want = HELD[case]
    assert usage_of(spec) == want


def pod(uid, node="n1", *, phase="Running", namespace="theirs", **amounts):
    return see_foreign_pod(
        {
            "metadata": {"name": uid, "namespace": namespace, "uid": uid},
            "spec": {"nodeName": node, "containers": [asks(**amounts)]},
            "status": {"phase": phase},
        }
    )


def told(news):
    return {pod.node: (pod.amounts[0], pod.amounts[4]) for pod in news}


def test_only_nodes_whose_sum_changed_are_told():
    tally = ForeignUsageSums(())
    assert told(tally.listed([pod("a", gpu="2"), pod("b", gpu="4"), pod("c", "n2")])) == {
        "n1": (6, 2),
        "n2": (0, 1),
    }
    assert told(tally.changed(pod("a", gpu="2"))) == {}
    assert told(tally.changed(pod("d", "n2", gpu="8"))) == {"n2": (8, 2)}
    assert told(tally.changed(pod("d", "n2", gpu="8", phase="Succeeded"))) == {"n2": (0, 1)}
    assert told(tally.deleted(pod("b"))) == {"n1": (2, 1)}
    assert told(tally.deleted(pod("unheard of"))) == {}


def test_a_complete_list_corrects_everything_and_a_node_that_is_free_of_them_gets_zeros():
    tally = ForeignUsageSums([ForeignUsageSeen(node="gone", amounts=(1, 0, 0, 0, 1))])
    assert told(tally.listed([pod("a")])) == {"gone": (0, 0), "n1": (0, 1)}
    assert told(tally.listed([pod("b", "n2", gpu="1")])) == {"n1": (0, 0), "n2": (1, 1)}
    assert told(tally.listed([pod("b", "n2", gpu="1")])) == {}


def test_a_node_says_whose_pods_use_most_of_it_and_says_so_anew_when_they_change_hands():
    tally = ForeignUsageSums(())
    (news,) = tally.listed(
        [pod("a", namespace="ml", gpu=2), pod("b", namespace="ml", gpu=4), pod("c", namespace="web")]
    )
    assert json.loads(news.shares) == [["ml", None, 6, 0, 0, 0, 2], ["web", None, 0, 0, 0, 0, 1]]
    assert [*ForeignUsageSums([news]).listed([pod("a", namespace="ml", gpu=2)])] != []
    tally.deleted(pod("c"))
    (news,) = tally.changed(pod("c", namespace="batch"))
    assert [namespace for namespace, *_ in json.loads(news.shares)] == ["ml", "batch"]


def kai_pod(priority, *, named="low", gang="gang-1", **labels):
    return {
        "metadata": {
            "namespace": "ml",
            "uid": "u",
            "annotations": {"pod-group-name": gang},
            "labels": {"kai.scheduler/queue": "train", **labels},
        },
        "spec": {"nodeName": "n1", "priority": priority, "priorityClassName": named},
    }


SPARED = {
    "its priority is that of work that is never preempted": kai_pod(100),
    "it is in no gang of KAI's": kai_pod(50, gang=""),
    "its own class does not say its gang's priority": kai_pod(50, named=""),
    "its gang has another class": kai_pod(50, priorityClassName="high"),
    "it is marked": kai_pod(50, **{"kai.scheduler/preemptibility": "non-preemptible"}),
}


@pytest.mark.parametrize("why", SPARED)
def test_a_pod_is_no_candidate_for_preemption_where(why):
    assert see_foreign_pod(SPARED[why]).kind.evictable is None


def test_a_pod_of_a_low_gang_of_kai_may_be_preempted_by_its_queue_and_priority():
    seen = see_foreign_pod(kai_pod(50))
    assert seen.kind.evictable == Evictable("train", 50)
    (news,) = ForeignUsageSums(()).listed([seen])
    assert json.loads(news.shares) == [["ml", ["train", 50], 0, 0, 0, 0, 1]]


def test_of_many_namespaces_on_a_node_those_that_use_most_are_named():
    pods = [pod(str(number), namespace=f"ns-{number}", gpu=number) for number in range(1, 20)]
    (news,) = ForeignUsageSums(()).listed(pods)
    assert {namespace for namespace, *_ in json.loads(news.shares)} == {
        f"ns-{number}" for number in range(12, 20)
    }
    assert news.amounts[0] == sum(range(1, 20))


def test_two_streams_add_up_and_a_list_of_one_replaces_its_own():
    tally = ForeignUsageSums((), streams=2)
    assert told(tally.listed([pod("a", gpu="2")], stream="x")) == {"n1": (2, 1)}
    assert not tally.complete
    assert told(tally.listed([pod("b", gpu="4")], stream="y")) == {"n1": (6, 2)}
    assert tally.complete
    assert told(tally.listed([pod("c", gpu="1")], stream="x")) == {"n1": (5, 2)}
    assert told(tally.deleted(pod("b"), stream="y")) == {"n1": (1, 1)}


def held(node, gpu=1):
    return ForeignUsageSeen(node=node, amounts=(gpu, 0, 0, 0, 1))


def test_their_lane_never_waits_and_leaves_ours_its_room():
    inbox = Inbox(most=1)
    for number in range(3 * BATCH):
        inbox.put_foreign_usage(held(f"n{number}"))
    inbox.note_foreign_usage("")
    inbox.put(PodSeen(namespace="osmo", name="p", uid="u", group_uuid=uuid4(), phase="Running"), listed=False)
    batch = inbox.take(timeout=1.0, linger=0.0)
    foreign = batch.foreign_usage
    assert (len(batch.pods), len(foreign.usage), foreign.problem) == (1, BATCH, None)
    assert inbox.size() == 2 * BATCH
    assert inbox.take(timeout=0.0, linger=0.0) == Batch(), "the next part leaves later"


def test_a_write_that_failed_does_not_go_over_a_newer_one():
    inbox = Inbox()
    inbox.put_foreign_usage(held("n1", gpu=8))
    inbox.put_back(ForeignUsageChanges({"n1": held("n1"), "n2": held("n2")}, problem=""))
    kept = inbox.take(timeout=0.0, linger=0.0).foreign_usage
    assert (kept.usage, kept.problem) == ({"n1": held("n1", gpu=8), "n2": held("n2")}, "")
