"""A submission on its way: what was asked for, what passed every check, and what is answered."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser

from pools.models import Pool
from workflows.admission.admit import Admission
from workflows.manifests.group import GroupObjects
from workflows.spec import Parsed
from workflows.submission.idempotency import digest
from workflows.submission.quotas import Limit


class Mode(Enum):
    SUBMIT = auto()
    DRY_RUN = auto()
    VALIDATE = auto()
    FEASIBILITY = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """A finished workflow that is run again; the groups that ``completed`` are carried over."""

    name: str
    base_name: str
    number: int
    completed: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRequest:
    """What a caller asks for. ``labels`` and ``env_vars`` are ``key=value``, as given.

    ``former`` is set for a restart. A text that was ``rendered_before`` is not rendered again.
    ``force_infeasible`` has what can never be placed accepted all the same.
    """

    pool_name: str
    text: str
    variables: tuple[str, ...]
    string_variables: tuple[str, ...]
    user: AbstractBaseUser
    priority: str
    labels: tuple[str, ...]
    env_vars: tuple[str, ...]
    mode: Mode
    uploaded_template: str
    idempotency_key: str | None
    request_id: str
    former: Former | None = None
    rendered_before: bool = False
    force_infeasible: bool = False

    def digest(self) -> str:
        again = {"restart_of": self.former.name} if self.former else {}
        return digest(
            **again,
            pool=self.pool_name,
            text=self.text,
            variables=self.variables,
            string_variables=self.string_variables,
            priority=self.priority,
            labels=self.labels,
            env_vars=self.env_vars,
            template=self.uploaded_template,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A workflow that passed every check, not yet written."""

    request: SubmissionRequest
    pool: Pool
    parsed: Parsed
    workflow: UUID
    labels: dict[str, str]
    admission: Admission
    objects: tuple[GroupObjects, ...]
    limits: tuple[Limit, ...]
    feasibility: list[dict[str, Any]]
    warnings: list[str]


def reply_to(
    accepted: Accepted, *, name: str, logs: str | None = None, spec: str | None = None
) -> dict[str, Any]:
    return {
        "name": name,
        "logs": logs,
        "spec": spec,
        "dashboard_url": accepted.pool.backend.dashboard_url or None,
        "warnings": accepted.warnings,
        "constraints": [
            {"group": group.values.name, "constraints": [one.as_json() for one in made.constraints]}
            for group, made in zip(accepted.admission.groups, accepted.objects, strict=True)
        ],
        "feasibility": accepted.feasibility,
    }


def expected_name(accepted: Accepted) -> str:
    """The name that was frozen while checking; another submission may still take it."""
    return accepted.admission.groups[0].values.placement.workflow_name


def dry_run_reply(accepted: Accepted) -> dict[str, Any]:
    reply = reply_to(accepted, name=expected_name(accepted), spec=accepted.parsed.rendered)
    return {**reply, "objects": [one for made in accepted.objects for one in made.in_order()]}


def task_count(admission: Admission) -> int:
    return sum(len(group.values.tasks) for group in admission.groups)
