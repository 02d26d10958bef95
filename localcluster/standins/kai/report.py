"""What KAI tells about a group that still waits: conditions and events.

A condition is written only for a group that is ready, has pending pods and no pod on a node. v0.13 never
takes it back ("Conditions that stay"); v0.17 clears it once nothing is pending. A group that is not ready
gets an event only, a dropped pod nothing at all before v0.15 and a condition and an event from there on.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from localcluster.standins.kai import messages
from localcluster.standins.kai.jobs import Job
from localcluster.standins.kai.messages import FitError
from localcluster.standins.kai.tree import DEFAULT
from localcluster.standins.kai.values import NODE_POOL, Event, GroupCondition, Pod, PodUnschedulable, Version
from localcluster.standins.kai.versions import VERSIONS


class Report:
    """Collects what is to be written; nothing that already stands in the cluster is repeated."""

    def __init__(self, *, version: Version, detailed: bool, now: float) -> None:
        self.version, self.detailed, self.now = version, detailed, now
        self.conditions: list[GroupCondition] = []
        self.pods: list[PodUnschedulable] = []
        self.events: list[Event] = []

    def add(self, job: Job, *, errors: Sequence[FitError], pod_errors: Mapping[str, str]) -> None:
        """Report one group after placement was tried."""
        if VERSIONS[self.version].reports_dropped:
            for pod in job.dropped:
                if pod.state == "pending":
                    self._dropped(job, pod)
        pods = job.all_pods()
        pending = [pod for leaf in job.tree.leaves() for pod in job.pending(leaf)]
        if not pending and not any(pod.state == "gated" for pod in pods):
            self._clear(job)
            return
        if unready := job.unready():
            self._not_ready(job, unready)
            return
        text = messages.job_message(errors, detailed=self.detailed)
        for pod in pending:
            self._pending(job, pod, pod_errors.get(pod.uid) or self._pod_text(errors, text))
        self._group(job, text, errors)

    def pipelined(self, pods: Sequence[tuple[Pod, str]]) -> None:
        """Report pods whose place is still being released."""
        for pod, node in pods:
            name = f"{pod.namespace}/{pod.name}"
            text = f"Pod {name} was assigned to node {node}, waiting for resources to be released"
            self.events.append(_about(pod, "Normal", "Pipelined", text))

    def _pod_text(self, errors: Sequence[FitError], text: str) -> str:
        return text if errors else messages.POD_GENERIC

    def _pending(self, job: Job, pod: Pod, text: str) -> None:
        self.events.append(_about(pod, "Warning", "Unschedulable", text))
        if job.group.mark_unschedulable:
            self._unschedulable(pod, text)

    def _dropped(self, job: Job, pod: Pod) -> None:
        group = job.group
        text = (
            f'Pod references subgroup "{pod.subgroup or DEFAULT}", which does not exist in PodGroup '
            f"{group.namespace}/{group.name}"
        )
        self.events.append(_about(pod, "Warning", "Unschedulable", text))
        self._unschedulable(pod, text)

    def _unschedulable(self, pod: Pod, text: str) -> None:
        if pod.unschedulable_message != text:
            self.pods.append(PodUnschedulable(pod, text))

    def _not_ready(self, job: Job, unready: Sequence[tuple[Any, int, int]]) -> None:
        text = "Job is not ready for scheduling."
        for leaf, alive, gated in unready:
            if leaf.name == DEFAULT:
                text += f" Waiting for {leaf.min_member} pods, currently {alive} exist, {gated} are gated"
            else:
                text += (
                    f" Waiting for {leaf.min_member} pods for SubGroup {leaf.name}, "
                    f"currently {alive} exist, {gated} are gated."
                )
        self._group_event(job, "NotReady", text)

    def _group(self, job: Job, text: str, errors: Sequence[FitError]) -> None:
        self._group_event(job, "Unschedulable", text)
        if job.any_active() or not job.group.real:
            return
        conditions = [
            condition for condition in job.group.conditions if condition.get("nodePool") != NODE_POOL
        ]
        last = job.group.conditions[-1] if job.group.conditions else {}
        condition: dict[str, Any] = {
            "type": "UnschedulableOnNodePool",
            "nodePool": NODE_POOL,
            "reason": "Unschedulable",
            "message": text,
            "status": "True",
        }
        if last and all(last.get(key) == value for key, value in condition.items()):
            return
        condition["transitionID"] = str(_counter(last) + 1)
        condition["lastTransitionTime"] = timestamp(self.now)
        condition["reasons"] = [error.explanation() for error in errors]
        self.conditions.append(GroupCondition(job.group, (*conditions, condition)))

    def _clear(self, job: Job) -> None:
        """v0.17 removes the conditions once all pods are bound, not while bindings are on their way."""
        if VERSIONS[self.version].clears_conditions and job.group.conditions and not job.placed:
            self.conditions.append(GroupCondition(job.group, ()))

    def _group_event(self, job: Job, reason: str, text: str) -> None:
        if job.group.real:
            group = job.group
            self.events.append(
                Event("PodGroup", group.namespace, group.name, group.uid, "Normal", reason, text)
            )


def _counter(condition: Mapping[str, Any]) -> int:
    text = str(condition.get("transitionID", "0"))
    return int(text) if text.isdecimal() else 0


def _about(pod: Pod, kind: str, reason: str, text: str) -> Event:
    return Event("Pod", pod.namespace, pod.name, pod.uid, kind, reason, text)


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as Kubernetes writes a time."""
    return dt.datetime.fromtimestamp(int(seconds), tz=dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
