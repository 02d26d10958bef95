"""What a caller asks for when submitting a workflow."""

from dataclasses import dataclass
from enum import Enum, auto

from django.contrib.auth.models import AbstractBaseUser

from workflows.submission.idempotency import digest

ANY = "any"
"""Stands for every pool to which the caller may submit."""


class Mode(Enum):
    SUBMIT = auto()
    DRY_RUN = auto()
    VALIDATE = auto()
    FEASIBILITY = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerWorkflow:
    """A finished workflow that is restarted; its groups that ``completed`` are carried over."""

    name: str
    base_name: str
    number: int
    completed: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRequest:
    """A caller's request. ``pool_name`` is empty where one of ``pools`` is chosen, or the document decides.

    ``labels`` and ``env_vars`` are ``key=value`` texts, not yet checked.

    ``former`` is set for a restart. A text that was ``rendered_before`` is not rendered again. With
    ``force_infeasible`` a workflow that can never be placed is accepted, too.
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
    former: FormerWorkflow | None = None
    rendered_before: bool = False
    force_infeasible: bool = False
    pools: tuple[str, ...] = ()

    def digest(self) -> str:
        restart = {"restart_of": self.former.name} if self.former else {}
        choice = {} if self.pool_name else {"pools": self.pools}
        return digest(
            **restart,
            **choice,
            pool=self.pool_name,
            text=self.text,
            variables=self.variables,
            string_variables=self.string_variables,
            priority=self.priority,
            labels=self.labels,
            env_vars=self.env_vars,
            template=self.uploaded_template,
        )
