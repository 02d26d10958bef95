"""A submission that passed every check, and what is answered."""

from dataclasses import dataclass
from typing import Any

from pools.models import Pool
from pools.values.recovery_words import document_of
from workflows.feasibility.verdict.report import FeasibilityReport
from workflows.manifests.group import GroupObjects
from workflows.spec import WorkflowSpec, defaults_of, expanded
from workflows.submission.quotas import Limit
from workflows.submission.request import SubmissionRequest
from workflows.values.placement import GroupPlacement, GroupValues


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedSubmission:
    """All that is written of a workflow."""

    request: SubmissionRequest
    pool: Pool
    spec: WorkflowSpec

    groups: tuple[GroupValues, ...]
    """In the order of the spec's groups, as ``objects`` are."""

    objects: tuple[GroupObjects, ...]
    object_bytes: int
    limits: tuple[Limit, ...]
    feasibility: list[FeasibilityReport]
    warnings: list[str]

    choice: tuple[dict[str, Any], ...] = ()
    """The verdicts of the pools that it was chosen from, as JSON, the chosen one first."""

    @property
    def placement(self) -> GroupPlacement:
        """What is frozen alike in every group: uuid, timeouts, and the name unless another takes it."""
        return self.groups[0].placement

    @property
    def template(self) -> str:
        """The text before templating; empty if there was none."""
        return self.request.uploaded_template or self.spec.template or ""

    @property
    def texts(self) -> tuple[str, str]:
        """What is kept of the document."""
        return self.spec.rendered, self.template

    @property
    def task_count(self) -> int:
        return sum(len(group.tasks) for group in self.groups)

    def reply(self, *, name: str, logs: str | None = None, spec: str | None = None) -> dict[str, Any]:
        chosen = {"pool": self.pool.name, "pools": list(self.choice)} if self.choice else {}
        return {
            "name": name,
            **chosen,
            "logs": logs,
            "spec": spec,
            "dashboard_url": self.pool.backend.dashboard_url or None,
            "warnings": self.warnings,
            "constraints": [
                {
                    "group": group.name,
                    "constraints": [constraint.as_json() for constraint in objects.constraints],
                }
                for group, objects in zip(self.groups, self.objects, strict=True)
            ],
            "feasibility": [report.as_json() for report in self.feasibility],
        }

    def dry_run_reply(self) -> dict[str, Any]:
        """The reply with the rendered spec and every object that would be created."""
        text = self.spec.rendered
        if self.request.expanded:
            defaults = {group.name: group.placement.default_topology for group in self.groups}
            text = expanded(text, defaults_of(defaults))
        reply = self.reply(name=self.placement.workflow_name, spec=text)
        reply["recovery"] = [
            {"group": group.name, **document_of(group.placement.recovery)} for group in self.groups
        ]
        return {**reply, "objects": [manifest for objects in self.objects for manifest in objects.in_order()]}
