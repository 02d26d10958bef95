"""Which messages on evicting are about a pod that is gone, and what they say of it."""

import pytest

from scheduling.backends.base import EvictionCause
from scheduling.backends.default import Default
from scheduling.backends.evictions import eviction_of
from scheduling.backends.kai import Kai

OWN, PEER, BEFORE = (f"{digit * 32}-{retry}" for digit, retry in (("a", 1), ("b", 0), ("a", 0)))


def evicted(name):
    return f"Pod osmo/{name} was preempted by higher priority workload osmo/{'c' * 32} (action: preempt)"


FOLDED = f"(combined from similar events): {evicted(PEER)}"
MESSAGES = {
    "its own name": ([evicted(OWN), evicted(PEER)], evicted(OWN)),
    "a peer's name alone": ([evicted(PEER)], ""),
    "an earlier try's name": ([evicted(BEFORE)] * 12, ""),
    "no name at all": (["somebody wanted its bricks"], "somebody wanted its bricks"),
    "so many names that the rest was folded": ([evicted(PEER), FOLDED], FOLDED),
    "nothing": ([], ""),
}


@pytest.mark.parametrize(("messages", "want"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_counts_for_the_pods_it_is_about(messages, want):
    eviction = eviction_of(Kai(), OWN, messages=messages, peers={OWN, PEER})
    assert (eviction.message if eviction else "").endswith(want)
    assert (eviction is None) == (want == "")


ACTIONS = {
    "preempt": (EvictionCause.PREEMPTION, "to make room for work of higher priority: "),
    "reclaim": (EvictionCause.RECLAIM, "another queue reclaimed its share: "),
    "consolidation": (EvictionCause.CONSOLIDATION, "to pack running work closer together: "),
    "stalegangeviction": (EvictionCause.STALE_GANG, "too few tasks of its gang were running: "),
    "something new": (EvictionCause.UNKNOWN, "It was evicted by KAI, cause unknown: why"),
}


@pytest.mark.parametrize(("action", "want"), ACTIONS.items())
def test_kai_says_in_its_action_why_a_pod_had_to_go(action, want):
    eviction = eviction_of(Kai(), OWN, messages=[f"why (action: {action})"], peers={OWN})
    cause, words = want
    assert eviction.cause == cause
    assert words in eviction.message


POD = f"osmo/{PEER}"
MERGED = {
    f"Pod {POD} was preempted by higher priority workload osmo/g": EvictionCause.PREEMPTION,
    f"Pod {POD} was preempted by workload osmo/g. Queue a uses <...>": EvictionCause.RECLAIM,
    f"Pod {POD} was preempted and rescheduled due to bin packing (resource consolidation) procedure": (
        EvictionCause.CONSOLIDATION
    ),
    f"Workload doesn't have the minimum required number of pods (4), evicting remaining pod: {POD}": (
        EvictionCause.STALE_GANG
    ),
    "Workload doesn't meet the minimum required number of pods (2) in sub-group 00-a, currently 1 exist": (
        EvictionCause.STALE_GANG
    ),
    f"Pod {POD} had to go": EvictionCause.UNKNOWN,
}


@pytest.mark.parametrize(("text", "want"), MERGED.items())
def test_a_merged_event_without_its_action_is_read_by_its_text(text, want):
    messages = [f"(combined from similar events): {text}"]
    eviction = eviction_of(Kai(), OWN, messages=messages, peers={OWN, PEER})
    assert eviction.cause == want
    assert ("cause unknown" in eviction.message) == (want == EvictionCause.UNKNOWN)
    assert eviction.message.endswith(messages[0])


@pytest.mark.parametrize(
    "scheduler", [Default(), None], ids=["one without words of its own", "none installed"]
)
def test_a_message_of_another_scheduler_is_passed_on_as_it_is(scheduler):
    eviction = eviction_of(scheduler, OWN, messages=["thrown out", evicted(PEER)], peers={OWN, PEER})
    assert eviction.message == "The scheduler evicted it: thrown out"
    assert eviction.cause == EvictionCause.UNKNOWN
    assert eviction_of(scheduler, OWN, messages=[evicted(PEER)], peers={OWN, PEER}) is None
