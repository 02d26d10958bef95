"""The one way in which a pod group is edited while its pods exist.

The *form* of a pod group is all that is ever edited of it. Its annotations are marks of its form, so an edit
that a crash left out follows from them and the row. Whoever decides on a form (``relaxing``, ``resizing``)
passes it to ``bring``. That patches the whole difference at once, and only the version of the pod group that
was read live just before: no edit undoes another, and after an edit from outside in between the next
reconciliation reads again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster.interface import MERGE_PATCH, Obj
from cluster.kinds import POD, Kind
from scheduling import names
from scheduling.backends.base import RenderedGang
from scheduling.backends.registry import scheduler_backend
from workflows.lifecycle import patience
from workflows.lifecycle.patience import ConstraintRow
from workflows.reconcile.view.group_reader import pod_group_kind
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.reconcile.view.outcomes import Failed, Retry
from workflows.values.observation import (
    MEMBERS_ANNOTATION,
    ORDER_ANNOTATION,
    PINNED_SETS_ANNOTATION,
    PREFERENCE_LEVELS_ANNOTATION,
    STAGE_ANNOTATION,
)
from workflows.values.placement import Easing


@dataclass(frozen=True, slots=True)
class EditProgress:
    """``moved``: the row has changed and should be read again; ``unfinished``: the edit is not done yet.

    ``failure`` is why objects could not be created that it needs.
    """

    moved: bool = False
    unfinished: bool = False
    failure: Retry | Failed | None = None


@dataclass(frozen=True, slots=True)
class Minimums:
    """The tasks that a gang's minimums count: live ones, and those of them without a place.

    ``paused`` leaves out, for a moment, sets of which no task has a place.
    """

    live: tuple[str, ...]
    waiting: tuple[str, ...]
    paused: bool = False

    @property
    def digest(self) -> str:
        marks = [*(["rest"] if self.paused else []), *(["optional"] if self.waiting else [])]
        return names.digest(self.live, self.waiting, *marks, length=16)


@dataclass(frozen=True, slots=True)
class PodGroupForm:
    """What may be edited of a pod group: how its preferences are eased, its order, pins and minimums.

    ``order`` and ``pins`` are their marks, empty for the usual order and for no pins. ``minimums`` are None
    for those of the whole gang.
    """

    easing: Easing
    order: str
    pins: str
    minimums: Minimums | None = None

    @property
    def marks(self) -> dict[str, str | None]:
        """The annotations of a pod group of this form."""
        stage, levels = self.easing.stage, self.easing.preference_levels
        return {
            STAGE_ANNOTATION: str(stage) if stage else None,
            PREFERENCE_LEVELS_ANNOTATION: None if levels is None else str(levels),
            ORDER_ANNOTATION: self.order or None,
            PINNED_SETS_ANNOTATION: self.pins or None,
            MEMBERS_ANNOTATION: self.minimums.digest if self.minimums else None,
        }


def read(view: GroupView, cluster: LeasedCluster) -> Obj | None:
    """The one pod group of an editable gang, as it is now; None if it is gone or being deleted."""
    kind = pod_group_kind(view.placement)
    if kind is None:
        return None
    (pod_group,) = gang_of(view, view.easing).pod_groups
    live = cluster.get(kind, pod_group["metadata"]["name"], namespace=view.placement.terms.namespace)
    return None if live is None or "deletionTimestamp" in live["metadata"] else live


def bring(view: GroupView, live: Obj, form: PodGroupForm, *, cluster: LeasedCluster) -> None:
    """Patch this version of the pod group to the form. Raises WriteConflict if there is a later one."""
    annotations = _annotations(live)
    marks = {key: mark for key, mark in form.marks.items() if annotations.get(key) != mark}
    kind = pod_group_kind(view.placement)
    if not marks or kind is None:
        return
    spec = _changes(view, live, form)
    metadata = {"annotations": marks, "resourceVersion": live["metadata"]["resourceVersion"]}
    _patch(view, kind, live, {"metadata": metadata, **({"spec": spec} if spec else {})}, cluster=cluster)


def form_of(view: GroupView, live: Obj) -> PodGroupForm:
    """The form of a pod group by its marks, with the minimums of the whole gang."""
    return PodGroupForm(easing_of(view, live), order_mark(live), pins_mark(live))


def easing_of(view: GroupView, pod_group: Obj) -> Easing:
    """How far the preferences of a pod group are eased, by its marks."""
    annotations = _annotations(pod_group)
    stage = patience.stage_of(annotations)
    stage = min(stage, len(view.begins) - 1) if stage else 0
    return Easing(stage, patience.preference_levels_of(annotations, most=len(view.placement.terms.levels)))


def order_mark(pod_group: Obj) -> str:
    return _annotations(pod_group).get(ORDER_ANNOTATION, "")


def pins_mark(pod_group: Obj) -> str:
    return _annotations(pod_group).get(PINNED_SETS_ANNOTATION, "")


def relabel(view: GroupView, pod: str, labels: Mapping[str, str], *, cluster: LeasedCluster) -> None:
    """Set labels of a pod."""
    body = {"metadata": {"labels": dict(labels)}}
    cluster.patch(POD, pod, body, patch_type=MERGE_PATCH, namespace=view.placement.terms.namespace)


def is_resized(pod_group: Obj) -> bool:
    """Whether the pod group's minimums are other than those of the whole gang."""
    return MEMBERS_ANNOTATION in _annotations(pod_group)


def has_minimums(pod_group: Obj, minimums: Minimums) -> bool:
    return _annotations(pod_group).get(MEMBERS_ANNOTATION) == minimums.digest


def resized_spec(view: GroupView, easing: Easing, minimums: Minimums) -> Obj:
    """The fields of the pod group's spec with these minimums."""
    edits = scheduler_backend(view.placement.terms.scheduler_type).edits
    if edits is None:
        return {}
    gang = gang_of(view, easing)
    return dict(edits.resized(gang, living=minimums.live, waiting=minimums.waiting, rest=minimums.paused))


def gang_of(view: GroupView, easing: Easing) -> RenderedGang:
    """The gang with its preferences eased so far."""
    (gang,) = view.gangs_eased(easing).values()
    return gang


def constraint_rows(view: GroupView, easing: Easing) -> list[ConstraintRow]:
    """The gang's constraints with its preferences eased so far, as its row keeps them."""
    return [constraint.as_json() for constraint in gang_of(view, easing).constraints]


def _changes(view: GroupView, live: Obj, form: PodGroupForm) -> Obj:
    """The fields of the spec in which the pod group differs from the form."""
    before = easing_of(view, live)
    spec: dict[str, Any] = {}
    if before != form.easing:
        edits = scheduler_backend(view.placement.terms.scheduler_type).edits
        body = edits.relaxed(gang_of(view, before), gang_of(view, form.easing)) if edits else None
        if body is None:
            raise ValueError(
                f'Scheduler "{view.placement.terms.scheduler_type}" cannot relax a pending pod group.'
            )
        spec |= body.get("spec") or {}
    if pins_mark(live) != form.pins:
        pinned = gang_of(view, form.easing).pod_groups[0]["spec"]
        spec |= {"topologyConstraint": pinned.get("topologyConstraint")}
        spec |= {field: pinned[field] for field in ("subGroups",) if field in pinned}
    if form.minimums is not None:
        spec |= resized_spec(view, form.easing, form.minimums)
    elif is_resized(live) or order_mark(live) != form.order:
        complete = gang_of(view, form.easing).pod_groups[0]["spec"]
        spec |= {field: complete[field] for field in ("subGroups", "minMember") if field in complete}
    return spec


def _annotations(pod_group: Obj) -> Mapping[str, str]:
    return pod_group["metadata"].get("annotations") or {}


def _patch(view: GroupView, kind: Kind, live: Obj, body: Obj, *, cluster: LeasedCluster) -> None:
    name, namespace = live["metadata"]["name"], view.placement.terms.namespace
    cluster.patch(kind, name, body, patch_type=MERGE_PATCH, namespace=namespace)
