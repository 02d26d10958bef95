"""What a caller asks for when submitting a workflow."""

from dataclasses import dataclass
from enum import Enum, auto

from django.contrib.auth.models import AbstractBaseUser

from workflows.submission.idempotency import digest


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
