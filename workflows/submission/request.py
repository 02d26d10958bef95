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
    """A caller's request."""

    pool_name: str
    """Empty: one of ``pools`` is chosen, or the document decides."""

    text: str
    variables: tuple[str, ...]
    string_variables: tuple[str, ...]
    user: AbstractBaseUser
    priority: str

    labels: tuple[str, ...]
    """``key=value`` texts, not yet checked, as ``env_vars`` are."""

    env_vars: tuple[str, ...]
    mode: Mode
    uploaded_template: str
    idempotency_key: str | None
    request_id: str

    former: FormerWorkflow | None = None
    """Set for a restart."""

    rendered_before: bool = False
    """Whether the text is rendered already."""

    expanded: bool = False
    """Whether a dry run answers with the plain document."""

    force_infeasible: bool = False
    """Whether a workflow that can never be placed is accepted, too."""

    pools: tuple[str, ...] = ()

    @property
    def carried(self) -> frozenset[str]:
        """The groups that completed in the workflow that is restarted, and do not run again."""
        return self.former.completed if self.former else frozenset()

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
