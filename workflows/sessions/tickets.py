"""What a key of a session stands for: one user, one try of one task, one pod, one thing to do there.

The key is issued with the answer to a POST and used with the socket that follows, by the same user.
"""

import json
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self
from uuid import uuid4

from web.limits.redis_server import give_key, put_key, use_key

EXEC: Final = "EXEC"
PORTFORWARD: Final = "PORTFORWARD-CONTROL"
CONNECTION: Final = "PORTFORWARD"
"""One connection through a forwarded port; OSMO's client makes its keys, and they begin so."""

_CONNECTION_KEY = re.compile(f"{CONNECTION}-[0-9a-f]{{32}}")


def is_connection_key(key: str) -> bool:
    return _CONNECTION_KEY.fullmatch(key) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTarget:
    """A running try of a task, and the pod that it has."""

    workflow: str
    workflow_name: str
    submitted_by: str
    pool: str
    backend: int
    group: str
    task: str
    retry: int
    namespace: str
    pod: str
    uid: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """``command`` and the flags are those of exec, ``port`` is that of port-forward."""

    kind: str
    user: int
    username: str
    address: str
    target: PodTarget
    command: tuple[str, ...] = ()
    tty: bool = True
    stdin: bool = True
    lines: bool = False
    """Whether the caller is to get lines of text."""

    port: int = 0
    session: str = field(default_factory=lambda: uuid4().hex)
    """What is opened by this; the connections of a forward are parts of the forward's session."""

    @property
    def counted_as(self) -> str:
        """The session as which it counts: a user's forwards of one pod are one, whatever their ports."""
        return self.session if self.kind == EXEC else f"{self.user}-{self.target.uid}"

    def issue(self) -> str:
        """A key that stands for this, once. Raises Unavailable without Redis."""
        return give_key(self.kind, json.dumps(asdict(self)))

    def connection(self) -> Self:
        """What each key stands for that is announced on the control socket of this forward."""
        return replace(self, kind=CONNECTION)

    def announce(self, key: str) -> None:
        """Let a key of the caller's making stand for this, once. Raises Unavailable without Redis."""
        put_key(key, json.dumps(asdict(self)))

    @classmethod
    def redeem(cls, key: str, *, kind: str, user: int, workflow: str) -> Self | None:
        """What a key stands for, if it is this user's for this workflow; it is used up in any case.

        ``workflow`` is its name or uuid. Raises Unavailable without Redis.
        """
        content = use_key(key) if key.startswith(f"{kind}-") else None
        return None if content is None else cls.read(content, user=user, workflow=workflow)

    @classmethod
    def read(cls, content: str, *, user: int, workflow: str) -> Self | None:
        """What a key stood for, if it was this user's for this workflow."""
        values: dict[str, Any] = json.loads(content)
        target = PodTarget(**values.pop("target"))
        ticket = cls(target=target, **(values | {"command": tuple(values["command"])}))
        own_names = {target.workflow_name, target.workflow, target.workflow.replace("-", "")}
        is_right = ticket.user == user and (workflow in own_names or workflow.lower() in own_names)
        return ticket if is_right else None
