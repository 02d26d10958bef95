"""The versions of KAI that the stand-in plays, and what tells them apart: one row for each.

Sources: KAI at the tags that are named, files as in the comments. A version between two rows behaves as the
row before it. Where the cluster's schema cannot tell two rows apart (``schema``), a product has to assume the
worse one.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One row.

    ``inner_first``: inner groups are placed before sibling leaves (allocate.go).
    ``anchors_everywhere``: a required level holds a new pod to the domain of its subgroup's running pods in
    every leaf below; otherwise only in leaves with pods to place (actions/common/allocate.go).
    ``optional_leaves``: a leaf may have a minimum of 0 (subgroup_info/factory.go).
    ``skips_podgrouper``: the podgrouper passes over pods with the annotation (podgrouper/pod_controller.go).
    ``reports_dropped``: a pod of a subgroup that does not exist gets a condition and an event.
    ``forgets_finished``: finished pods are filtered at the watch, so one that succeeded makes its gang stale.
    ``own_grace``: ``stalenessGracePeriod`` of the pod group counts.
    ``clears_conditions``: a pod group's conditions are removed once nothing of it is pending.
    ``own_claim_texts``: claims in use are worded by KAI and no longer by Kubernetes (dynamicresources.go).
    ``marks_evictions``: an evicted group is annotated with the time, except for staleness.
    ``gives_up_ending``: a pod long past its deletion is StuckInReleasing and no longer waited for.
    """

    schema: str
    inner_first: bool
    anchors_everywhere: bool
    optional_leaves: bool
    skips_podgrouper: bool
    reports_dropped: bool
    forgets_finished: bool
    own_grace: bool
    clears_conditions: bool
    own_claim_texts: bool
    marks_evictions: bool
    gives_up_ending: bool


def _rules(
    schema: str, *, texts: bool = True, since_15: bool, finished: bool = False, since_17: bool
) -> Rules:
    return Rules(
        schema=schema,
        inner_first=not since_15,
        anchors_everywhere=not since_15,
        optional_leaves=since_15,
        skips_podgrouper=since_15,
        reports_dropped=since_15,
        forgets_finished=finished,
        own_grace=since_17,
        clears_conditions=since_17,
        own_claim_texts=texts,
        marks_evictions=since_17,
        gives_up_ending=since_15,
    )


VERSIONS: Mapping[str, Rules] = {
    "0.13": _rules("0.13", texts=False, since_15=False, since_17=False),
    "0.13.2": _rules("0.13", since_15=False, since_17=False),
    "0.14": _rules("0.13", since_15=False, since_17=False),
    "0.15": _rules("0.15", since_15=True, since_17=False),
    "0.16.2": _rules("0.15", since_15=True, finished=True, since_17=False),
    "0.17.0": _rules("0.17", since_15=True, finished=True, since_17=True),
    "0.17": _rules("0.17", since_15=True, since_17=True),
}
"""By version, oldest first. "0.13" is v0.13.0 and the build of March 2026, "0.17" a build after v0.17.0."""
