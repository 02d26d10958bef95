"""What is known of the channels of nodes, and the claims that follow from it."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduling.gang.nvlink import channel_claims
from scheduling.nodes.channels import (
    CHANNEL_DRIVER,
    SETTLED_AFTER,
    ChannelCount,
    channel_faults,
    channel_notices,
    has_channel,
    node_with_channel,
)
from tests.unit.scheduling.build import nvlink_tasks

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LONG_AGO = NOW - SETTLED_AFTER - SECOND
GROUP = ("workflow", "groups", 0)
CHANNEL = [{"name": "channel-0"}, {"name": "daemon-0"}]


def resource_slice(*, owner=None, metadata=None, **spec):
    owners = [{"kind": "Node", "name": owner, "controller": True}] if owner else []
    return {
        "metadata": {"name": "s", "ownerReferences": owners} if metadata is None else metadata,
        "spec": {"driver": CHANNEL_DRIVER, "nodeName": "n", "devices": CHANNEL} | spec,
    }


SLICES = {
    "a channel": (resource_slice(), "n"),
    "made by its node's plugin": (resource_slice(owner="n"), "n"),
    "another driver": (resource_slice(driver="gpu.nvidia.com"), ""),
    "no driver": (resource_slice(driver=None), ""),
    "the daemon alone": (resource_slice(devices=[{"name": "daemon-0"}]), ""),
    "no device": (resource_slice(devices=None), ""),
    "devices that are none": (resource_slice(devices=["channel-0", 7, {}]), ""),
    "devices of another shape": (resource_slice(devices="channel-0"), ""),
    "no node": (resource_slice(nodeName=None), ""),
    "a node that is no text": (resource_slice(nodeName={"a": 1}), ""),
    "all nodes": (resource_slice(nodeName=None, allNodes=True), ""),
    "another node's plugin": (resource_slice(owner="m"), ""),
    "owners of another shape": (resource_slice(metadata={"ownerReferences": ["m", {"kind": "Node"}]}), ""),
    "owners that are no list": (resource_slice(metadata={"ownerReferences": 7}), "n"),
    "no spec": ({"metadata": {"name": "s"}}, ""),
}


@pytest.mark.parametrize("phrase", SLICES)
def test_a_slice_gives_a_channel_to_its_own_node(phrase):
    body, want = SLICES[phrase]
    assert node_with_channel(body) == want


NODES = {
    # offers, since when, slices followed at: what is known
    "a channel": (True, LONG_AGO, NOW, True),
    "a channel since now": (True, NOW, NOW, True),
    "without for long": (False, LONG_AGO, NOW, False),
    "without, and new": (False, NOW - SETTLED_AFTER + SECOND, NOW, None),
    "without, since nobody knows when": (False, None, NOW, None),
    "slices never listed": (False, LONG_AGO, None, None),
    "an old channel, slices not followed": (True, LONG_AGO, None, None),
    "nothing heard for long": (False, LONG_AGO, LONG_AGO, None),
}


@pytest.mark.parametrize("phrase", NODES)
def test_no_channel_is_known_only_of_a_node_that_had_time_to_offer_one(phrase):
    offers, since, observed_at, want = NODES[phrase]
    assert has_channel(offers=offers, since=since, observed_at=observed_at, now=NOW) is want


NONE = ChannelCount(nodes=7, offering=0, since=LONG_AGO, observed_at=NOW, names=("n0", "n1", "n2"))
YOUNG = ChannelCount(nodes=7, offering=0, since=NOW, observed_at=NOW)
SOME = ChannelCount(nodes=7, offering=1, since=NOW, observed_at=NOW)
NEVER = ChannelCount(nodes=7, offering=0, since=LONG_AGO, observed_at=None)
EMPTY = ChannelCount(nodes=0, offering=0, since=None, observed_at=None)


def decide(phrase, count, *, word=None):
    """The faults and notices of a group whose platform gb200 has these channels."""
    tasks = nvlink_tasks(phrase)
    claims = channel_claims(tasks, group_word=word, has_domain=word is not False)
    known = {"tasks": tasks, "claims": claims, "counts": {"gb200": count}, "now": NOW, "group_path": GROUP}
    notices = [notice for _, notice in channel_notices(**known)]
    return list(channel_faults(group_word=word, **known)), notices


PLACES = {
    "by the rule": ("a:4@gb200 b:4@gb200", None, GROUP),
    "by the group": ("a:4@gb200", True, (*GROUP, "nvlink")),
    "by a task": ("a:0@gb200 b:4@gb200=true", None, (*GROUP, "tasks", 1, "nvlink")),
}


@pytest.mark.parametrize("phrase", PLACES)
def test_a_claim_that_no_node_can_meet_is_refused_where_it_is_written(phrase):
    tasks, word, want = PLACES[phrase]
    (fault,), notices = decide(tasks, NONE, word=word)
    assert (fault.code, fault.path, notices) == ("nvlink_without_channel", want, [])
    assert "n0, n1, n2 and 4 more" in fault.message


@pytest.mark.parametrize("phrase", ["a:4@gb200", "a:4@gb200=false b:0@gb200", "a:8@h100 b:8@h100"])
def test_without_a_claim_channels_matter_nothing(phrase):
    assert decide(phrase, NONE) == ([], [])


def test_one_node_with_a_channel_is_enough():
    assert decide("a:4@gb200 b:4@gb200", SOME) == ([], [])


UNKNOWN = {
    "nodes never observed": (EMPTY, "no node of it has been observed"),
    "slices never observed": (NEVER, "the ResourceSlices of its cluster have not been observed"),
    "new nodes": (YOUNG, "10 minutes"),
}


@pytest.mark.parametrize("phrase", UNKNOWN)
def test_a_claim_is_warned_of_where_channels_are_not_known(phrase):
    count, want = UNKNOWN[phrase]
    faults, (notice,) = decide("a:4@gb200 b:4@gb200", count)
    assert (faults, notice.code) == ([], "nvlink_channels_unknown")
    assert want in notice.message
