"""A JSON merge patch from one stage of a pending pod group to a later one.

A merge patch keeps every field that it does not name, so a removed field is set to null; ``subGroups`` is one
atomic list in KAI's API, so the patch contains all of it. KAI v0.13 and v0.17 apply such an edit in the next
cycle, to the pod group and to subgroups. The caller checks just before patching that no pod is bound.
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
