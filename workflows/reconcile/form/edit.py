"""The one way in which a pod group is edited while its pods exist.

The *form* of a pod group is all that is ever edited of it. Its annotations are marks of its form, so an edit
that a crash left out follows from them and the row. Whoever edits it (``bringing``, ``resizing``) names marks
to ``bring``. That patches the whole difference at once, and only the version of the pod group that was read
live just before: no edit undoes another, and after an edit from outside in between the next reconciliation
reads again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cluster.interface import Obj
from cluster.kinds import POD
from scheduling import names
from scheduling.backends.base import RenderedGang
from scheduling.backends.registry import scheduler_backend
from scheduling.gang.gang_form import GangForm
from workflows.lifecycle.patience import ConstraintRow
from workflows.reconcile.view.group_reader import pod_group_kind
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.values.form_marks import FormMarks
from workflows.values.observation import MEMBERS_ANNOTATION


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


def read(view: GroupView, cluster: LeasedCluster) -> Obj | None:
    """The one pod group of an editable gang, as it is now; None if it is gone or being deleted."""
    kind = pod_group_kind(view.placement)
    if kind is None:
        return None
    (pod_group,) = gang_of(view, view.form).pod_groups
    live = cluster.get(kind, pod_group["metadata"]["name"], namespace=view.placement.terms.namespace)
    return None if live is None or "deletionTimestamp" in live["metadata"] else live


def bring(
    view: GroupView,
    live: Obj | None,
    *,
    cluster: LeasedCluster,
    minimums: Minimums | None = None,
    **marks: Any,
) -> bool:
    """Patch this version of the pod group to these of its marks; whether it had others.

    A later version raises WriteConflict. ``minimums`` are None for those of the whole gang, which it gets
    with other marks.
    """
    kind = pod_group_kind(view.placement)
    if live is None or kind is None:
        return False
    before, present = marks_of(view, live), _annotations(live)
    after = replace(before, **marks)
    annotations = after.annotations | {MEMBERS_ANNOTATION: minimums.digest if minimums else None}
    other = {key: mark for key, mark in annotations.items() if present.get(key) != mark}
    if not other or (minimums is None and before == after):
        return False
    metadata = {"annotations": other, "resourceVersion": live["metadata"]["resourceVersion"]}
    spec = _changes(view, live, before, after, minimums)
    body = {"metadata": metadata, **({"spec": spec} if spec else {})}
    name, namespace = live["metadata"]["name"], view.placement.terms.namespace
    cluster.patch(kind, name, body, namespace=namespace)
    return True


def marks_of(view: GroupView, pod_group: Obj) -> FormMarks:
    """The marks of a pod group."""
    stages, levels = len(view.begins), len(view.placement.terms.levels)
    return FormMarks.read(_annotations(pod_group), stages=stages, levels=levels)


def eased(view: GroupView, pod_group: Obj) -> GangForm:
    """The row's form, its preferences eased as far as those of a pod group."""
    return marks_of(view, pod_group).easing(view.form)


def relabel(view: GroupView, pod: str, labels: Mapping[str, str], *, cluster: LeasedCluster) -> None:
    """Set labels of a pod."""
    body = {"metadata": {"labels": dict(labels)}}
    cluster.patch(POD, pod, body, namespace=view.placement.terms.namespace)


def is_resized(pod_group: Obj) -> bool:
    """Whether the pod group's minimums are other than those of the whole gang."""
    return MEMBERS_ANNOTATION in _annotations(pod_group)


def has_minimums(pod_group: Obj, minimums: Minimums) -> bool:
    return _annotations(pod_group).get(MEMBERS_ANNOTATION) == minimums.digest


def resized_spec(view: GroupView, form: GangForm, minimums: Minimums) -> Obj:
    """The fields of the pod group's spec with these minimums."""
    edits = scheduler_backend(view.placement.terms.scheduler_type).edits
    if edits is None:
        return {}
    gang = gang_of(view, form)
    return dict(edits.resized(gang, living=minimums.live, waiting=minimums.waiting, rest=minimums.paused))


def gang_of(view: GroupView, form: GangForm) -> RenderedGang:
    """The gang in this form."""
    (gang,) = view.gangs_of(form).values()
    return gang


def constraint_rows(view: GroupView, form: GangForm) -> list[ConstraintRow]:
    """The constraints of the gang in this form, as its row keeps them."""
    return [constraint.as_json() for constraint in gang_of(view, form).constraints]


def _changes(
    view: GroupView, live: Obj, before: FormMarks, after: FormMarks, minimums: Minimums | None
) -> Obj:
    """The fields of the spec in which the pod group differs from the form."""
    eased_before, form = before.easing(view.form), after.easing(view.form)
    spec: dict[str, Any] = {}
    if eased_before != form:
        edits = scheduler_backend(view.placement.terms.scheduler_type).edits
        body = edits.relaxed(gang_of(view, eased_before), gang_of(view, form)) if edits else None
        if body is None:
            raise ValueError(
                f'Scheduler "{view.placement.terms.scheduler_type}" cannot relax a pending pod group.'
            )
        spec |= body.get("spec") or {}
    if before.pins != after.pins:
        pinned = gang_of(view, form).pod_groups[0]["spec"]
        spec |= {"topologyConstraint": pinned.get("topologyConstraint")}
        spec |= {field: pinned[field] for field in ("subGroups",) if field in pinned}
    if minimums is not None:
        spec |= resized_spec(view, form, minimums)
    elif is_resized(live) or before.order != after.order:
        complete = gang_of(view, form).pod_groups[0]["spec"]
        spec |= {field: complete[field] for field in ("subGroups", "minMember") if field in complete}
    return spec


def _annotations(pod_group: Obj) -> Mapping[str, str]:
    return pod_group["metadata"].get("annotations") or {}
