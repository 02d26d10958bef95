"""What a pool lets its users do to nodes and Secrets, and whether a change lets them do more. Pure.

A pool's platforms allow tasks to be privileged, to use a node's network and to mount its directories; its pod
templates may do all of that to every pod; ``shared_credentials`` hand out Secrets of the backend's namespace;
``allow_exec`` and ``allow_port_forward`` let users into tasks that have any of these.
Each holds on the nodes that the platform selects. A change *widens* privilege if users of the pool may then
do something, or do it on some node, that they could not do before. A change of the templates that apply
counts always, because a template may as well take privilege away.

A platform is compared with every platform that was there, not with the one of its name: a new name for the
same thing widens nothing. Their number and size are the author's choice, so the comparison costs the size of
both pools together: each thing that was allowed has a mask with one bit for each platform that allowed it.
"""

import posixpath
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_REACHES = ("allow_exec", "allow_port_forward")

Content = Mapping[str, Any]
"""A pool as the history keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """The rights of the tasks of one platform, and on which nodes; templates may do anything."""

    privileged: bool = False
    host_network: bool = False
    mounts: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    selector: frozenset[tuple[str, str]]
    tolerations: tuple[tuple[tuple[str, Any], ...], ...]

    @property
    def reaches_nodes(self) -> bool:
        return bool(self.privileged or self.host_network or self.mounts or self.templates)

    def things(self) -> Iterator[tuple[str, Hashable]]:
        """What it allows, apart from the nodes that it selects."""
        yield "templates", self.templates
        if self.privileged:
            yield "privileged", True
        if self.host_network:
            yield "host_network", True
        for path in self.mounts:
            yield "mount", path
        for toleration in self.tolerations:
            yield "toleration", toleration


class _Earlier:
    """The grants before a change; ``_masks`` has a bit for each grant that allows a thing."""

    def __init__(self, grants: Sequence[_Grant]) -> None:
        self._grants = grants
        self._masks: defaultdict[tuple[str, Hashable], int] = defaultdict(int)
        for place, grant in enumerate(grants):
            for thing in grant.things():
                self._masks[thing] |= 1 << place

    def covers(self, grant: _Grant) -> bool:
        """Whether one of them allowed everything that the grant allows, there too."""
        mask = (1 << len(self._grants)) - 1
        for kind, value in grant.things():
            if kind == "mount":
                mask &= self._within(str(value))
            elif kind != "toleration" or grant.reaches_nodes:
                mask &= self._masks.get((kind, value), 0)
            if not mask:
                return False
        return not grant.reaches_nodes or any(
            earlier.selector <= grant.selector for earlier in self._of(mask)
        )

    def _of(self, mask: int) -> Iterator[_Grant]:
        while mask:
            place = mask.bit_length() - 1
            yield self._grants[place]
            mask ^= 1 << place

    def _within(self, path: str) -> int:
        """The grants that allowed a directory or one above."""
        mask = self._masks.get(("mount", "/"), 0)
        end = len(path)
        while end > 0:
            mask |= self._masks.get(("mount", path[:end]), 0)
            end = path.rfind("/", 0, end)
        return mask


def widened(before: Content, after: Content) -> list[str]:
    """The fields by which a change widens privilege; empty if it does not."""
    return list(_widened(before, after))


def _widened(before: Content, after: Content) -> Iterator[str]:
    if set(after["shared_credentials"]) - set(before["shared_credentials"]):
        yield "shared_credentials"
    if after["common_pod_template"] != before["common_pod_template"]:
        yield "common_pod_template"
    yield from _newly_reached(before, after)
    grants = [_grant(before, platform) for platform in _platforms(before).values()]
    if not any(grant.templates for grant in grants):
        grants.append(_grant(before, {}))  # a platform that allows nothing was as good as there
    earlier = _Earlier(grants)
    for name, platform in _platforms(after).items():
        if not earlier.covers(_grant(after, platform)):
            yield f"platforms.{name}" if name else "platforms"


def _newly_reached(before: Content, after: Content) -> Iterator[str]:
    """What lets users into running tasks, where these have more than other pods have."""
    has_more = any(_grant(after, platform).reaches_nodes for platform in _platforms(after).values())
    if has_more or after["shared_credentials"]:
        yield from (name for name in _REACHES if after.get(name) and not before.get(name))


def _platforms(pool: Content) -> Content:
    """A pool without platforms has one that allows nothing."""
    return pool["platforms"] or {"": {}}


def _grant(pool: Content, platform: Content) -> _Grant:
    mounts = [*platform.get("allowed_mounts", []), *platform.get("default_mounts", [])]
    return _Grant(
        privileged=platform.get("privileged_allowed", False),
        host_network=platform.get("host_network_allowed", False),
        mounts=tuple(_directory(mount) for mount in mounts),
        templates=(*pool["common_pod_template"], *platform.get("override_pod_template", ())),
        selector=frozenset({**platform.get("node_selector", {}), **pool["node_selector"]}.items()),
        tolerations=tuple(
            tuple(sorted(toleration.items()))
            for toleration in (*pool["tolerations"], *platform.get("tolerations", ()))
        ),
    )


def _directory(mount: str) -> str:
    """The node's directory that a mount names; two slashes in front are one to a node."""
    return "/" + posixpath.normpath(mount.partition(":")[0]).lstrip("/")
