"""What a pool lets its users do to nodes and Secrets, and whether a change lets them do more. Pure.

A pool's platforms allow tasks to be privileged, to use a node's network and to mount its directories; its pod
templates may do all of that to every pod; ``shared_credentials`` hand out Secrets of the backend's namespace.
Each holds on the nodes that the platform selects. A change *widens* privilege if users of the pool may then
do something, or do it on some node, that they could not do before. A change of the templates that apply
counts always, because a template may as well take privilege away.

A platform is compared with every platform that was there, not with the one of its name: a new name for the
same thing widens nothing.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Content = Mapping[str, Any]
"""A pool as the history keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """What the tasks of one platform may do, and on which nodes; templates may do anything."""

    privileged: bool = False
    host_network: bool = False
    mounts: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    selector: frozenset[tuple[str, str]]
    tolerations: tuple[Mapping[str, Any], ...]

    @property
    def reaches_nodes(self) -> bool:
        return bool(self.privileged or self.host_network or self.mounts or self.templates)

    def covers(self, other: "_Grant") -> bool:
        """Whether everything that the other allows was allowed, there too."""
        allows = (
            self.privileged >= other.privileged
            and self.host_network >= other.host_network
            and all(_is_within(path, self.mounts) for path in other.mounts)
            and self.templates == other.templates
        )
        if not allows or not other.reaches_nodes:
            return allows
        return self.selector <= other.selector and all(
            toleration in self.tolerations for toleration in other.tolerations
        )


def widened(before: Content, after: Content) -> list[str]:
    """The fields by which a change widens privilege; empty if it does not."""
    return list(_widened(before, after))


def _widened(before: Content, after: Content) -> Iterator[str]:
    if set(after["shared_credentials"]) - set(before["shared_credentials"]):
        yield "shared_credentials"
    if after["common_pod_template"] != before["common_pod_template"]:
        yield "common_pod_template"
    grants = [_grant(before, platform) for platform in _platforms(before).values()]
    if not any(grant.templates for grant in grants):
        grants.append(_grant(before, {}))  # a platform that allows nothing was as good as there
    for name, platform in _platforms(after).items():
        grant = _grant(after, platform)
        if not any(earlier.covers(grant) for earlier in grants):
            yield f"platforms.{name}" if name else "platforms"


def _platforms(pool: Content) -> Content:
    """A pool without platforms has one that allows nothing."""
    return pool["platforms"] or {"": {}}


def _grant(pool: Content, platform: Content) -> _Grant:
    mounts = [*platform.get("allowed_mounts", []), *platform.get("default_mounts", [])]
    return _Grant(
        privileged=platform.get("privileged_allowed", False),
        host_network=platform.get("host_network_allowed", False),
        mounts=tuple(posixpath.normpath(mount.partition(":")[0]) for mount in mounts),
        templates=(*pool["common_pod_template"], *platform.get("override_pod_template", ())),
        selector=frozenset({**platform.get("node_selector", {}), **pool["node_selector"]}.items()),
        tolerations=(*pool["tolerations"], *platform.get("tolerations", ())),
    )


def _is_within(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(f"{root.rstrip('/')}/") for root in roots)
