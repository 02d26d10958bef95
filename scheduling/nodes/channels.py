"""Which nodes offer an NVLink channel, and the claims that no node can meet. Pure.

NVIDIA's DRA driver publishes the channel of each node in a ResourceSlice, which its kubelet plugin makes.
That a node has no channel is concluded from the absence of one, which has innocent causes: the slices were
not followed, or the plugin of a node that joined or was upgraded a moment ago has not published yet. So a
node is known to be without a channel only if slices are followed and it has been without for SETTLED_AFTER.
A slice that lies can only make a claim wait, never refuse it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from scheduling.errors import Fault, Notice, Path
from scheduling.gang.nvlink import ChannelClaim, NvlinkTask
from scheduling.sentences import agree, listing, plain_listing, plural

CHANNEL_DRIVER = "compute-domain.nvidia.com"
"""The driver of the slices that have channels; other drivers of NVIDIA publish GPUs."""

SETTLED_AFTER = timedelta(minutes=10)
"""How long a node is without a channel before that counts: a new node starts the driver's plugin first."""

NAMED = 5


def node_with_channel(resource_slice: Mapping[str, Any]) -> str:
    """The node that a ResourceSlice gives a channel to; empty for none.

    A plugin publishes for its own node, which is the slice's owner: one that names another node is not
    believed, and neither is one that is for several nodes.
    """
    spec, metadata = resource_slice.get("spec") or {}, resource_slice.get("metadata") or {}
    node, devices = spec.get("nodeName"), spec.get("devices")
    if spec.get("driver") != CHANNEL_DRIVER or not isinstance(node, str) or not isinstance(devices, list):
        return ""
    if any(owner != node for owner in _owning_nodes(metadata.get("ownerReferences"))):
        return ""
    names = (str(device.get("name")) for device in devices if isinstance(device, Mapping))
    return node if any(name.startswith("channel-") for name in names) else ""


def _owning_nodes(owners: object) -> Iterator[object]:
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, Mapping) and owner.get("kind") == "Node":
            yield owner.get("name")


def has_channel(
    *, offers: bool, since: datetime | None, observed_at: datetime | None, now: datetime
) -> bool | None:
    """Whether a node has a channel; None where that is not known.

    ``since`` is when it began or ceased to offer one, or was first observed. ``observed_at`` is until when
    the slices of its cluster are known, None where they are not followed.
    """
    settled = settled_until(observed_at, now=now)
    if settled is None:
        return None
    if offers:
        return True
    return None if since is None or since > settled else False


def settled_until(observed_at: datetime | None, *, now: datetime) -> datetime | None:
    """The instant up to which a node must have been without a channel to be known to have none.

    None where nothing is known of any node: its cluster's slices are not followed.
    """
    if observed_at is None or now - observed_at > SETTLED_AFTER:
        return None
    return now - SETTLED_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCount:
    """The channels of a platform's nodes. ``since`` is the latest of the nodes' (``has_channel``).

    ``names`` are those of the first nodes, where none offers a channel.
    """

    nodes: int
    offering: int
    since: datetime | None
    observed_at: datetime | None
    names: tuple[str, ...] = ()

    def answer(self, now: datetime) -> bool | None:
        """Whether some node has a channel; None where that is not known."""
        if not self.nodes:
            return None
        return has_channel(offers=self.offering > 0, since=self.since, observed_at=self.observed_at, now=now)

    def doubt(self, now: datetime) -> str:
        """Why that is not known, as the end of a sentence."""
        if not self.nodes:
            return "no node of it has been observed"
        if has_channel(offers=True, since=None, observed_at=self.observed_at, now=now) is None:
            return "the ResourceSlices of its cluster have not been observed"
        minutes = int(SETTLED_AFTER.total_seconds() // 60)
        return f"no node of it offers one, but some joined or lost theirs less than {minutes} minutes ago"


def channel_faults(
    tasks: Sequence[NvlinkTask],
    claims: Mapping[str, ChannelClaim],
    *,
    counts: Mapping[str, ChannelCount],
    now: datetime,
    group_word: bool | None,
    group_path: Path,
) -> Iterator[Fault]:
    """Refuse claims on platforms of which every node is known to be without a channel, by platform.

    The fault stands at the word that makes the first claim, or at the group where the rule makes it.
    """
    for platform, claiming in _claiming(tasks, claims):
        count = counts.get(platform)
        if count is None or count.answer(now) is not False:
            continue
        first = claiming[0]
        path = (*group_path, "nvlink") if group_word else group_path
        nodes = plain_listing(count.names, limit=NAMED, total=count.nodes)
        message = (
            f"{_subject(platform, capital=True)} has no node with an NVLink channel, which "
            f"{_tasks(claiming, capital=False)} {agree(len(claiming), 'claims', 'claim')}: "
            f"NVIDIA's DRA driver offers none on {nodes}. Say `nvlink: false`, or have the driver's kubelet "
            "plugin started there."
        )
        yield Fault(
            (*first.path, "nvlink") if first.word else path,
            "nvlink_without_channel",
            message,
            allowed=("false",),
        )


def channel_notices(
    tasks: Sequence[NvlinkTask],
    claims: Mapping[str, ChannelClaim],
    *,
    counts: Mapping[str, ChannelCount],
    now: datetime,
    group_path: Path,
) -> Iterator[tuple[str, Notice]]:
    """Warn of claims on platforms of which it is not known whether a node has a channel, by platform."""
    for platform, claiming in _claiming(tasks, claims):
        count = counts.get(platform)
        if count is not None and count.answer(now) is None:
            message = (
                f"Whether {_subject(platform, capital=False)} has nodes with an NVLink channel is not known: "
                f"{count.doubt(now)}. {_tasks(claiming, capital=True)} "
                f"{agree(len(claiming), 'claims', 'claim')} one and {agree(len(claiming), 'waits', 'wait')} "
                "for ever if there is none."
            )
            yield platform, Notice("nvlink_channels_unknown", message, group_path)


def _claiming(
    tasks: Sequence[NvlinkTask], claims: Mapping[str, ChannelClaim]
) -> Iterator[tuple[str, list[NvlinkTask]]]:
    """The tasks that claim a channel, by platform with NVLink."""
    by_platform: dict[str, list[NvlinkTask]] = {}
    for task in tasks:
        if claims[task.name].is_made and task.platform_has_nvlink:
            by_platform.setdefault(task.platform, []).append(task)
    yield from by_platform.items()


def _tasks(tasks: Sequence[NvlinkTask], *, capital: bool) -> str:
    noun = plural(len(tasks), "Task" if capital else "task")
    return f"{noun} {listing([task.name for task in tasks])}"


def _subject(platform: str, *, capital: bool) -> str:
    if platform:
        return f'{"Platform" if capital else "platform"} "{platform}"'
    return "The pool" if capital else "the pool"
