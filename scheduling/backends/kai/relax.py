"""From one stage of a pending pod group to the next, as a JSON merge patch.

A merge patch keeps what it does not name, so a field that goes is named with null; ``subGroups`` is one
atomic list to KAI's API, so all of it is given. Seen on v0.13 and v0.17: the next cycle honours it, at the
top and in subgroups. What a scheduler has bound is its caller's to look for, just before patching.
"""

from typing import Any

from scheduling.backends.base import Manifest, RenderedGang


def relaxed(before: RenderedGang, after: RenderedGang) -> Manifest:
    """The body of the merge patch; empty if nothing changes. Raises ValueError for two different gangs."""
    (old,), (new,) = before.pod_groups, after.pod_groups
    if old["metadata"]["name"] != new["metadata"]["name"] or before.pods != after.pods:
        raise ValueError("Only the constraints of one gang can be relaxed, not the gang exchanged.")
    changes: dict[str, Any] = {}
    if old["spec"].get("topologyConstraint") != new["spec"].get("topologyConstraint"):
        changes["topologyConstraint"] = _merged(
            old["spec"].get("topologyConstraint"), new["spec"].get("topologyConstraint")
        )
    if old["spec"].get("subGroups") != new["spec"].get("subGroups"):
        changes["subGroups"] = new["spec"]["subGroups"]
    return {"spec": changes} if changes else {}


def _merged(old: Manifest | None, new: Manifest | None) -> Manifest | None:
    return None if new is None else {**dict.fromkeys(old or (), None), **new}
