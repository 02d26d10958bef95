"""The state of watched workflows, whenever it changes.

Watchers wait in the event loop of their web process, and one coroutine of it has the rows read: those of a
workflow once, however many watch it, and those of many workflows together. So a process has a thousand
watchers with one thread and one connection. What was read is compared by its digest and made into text only
where it differs, and all watchers of a workflow send the same text. A client that reads slowly misses states.

Rows are read once a second, those of a wide workflow less often: all watched workflows have the same share of
the rows that a process reads. A watch ends when its workflow has ended and nothing of it is left in the
cluster, or when it was removed: from then on nothing changes.

Rejected: LISTEN, which needs a session that PgBouncer does not give, and messages through Redis, which may be
lost, so that rows would be read beside them.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from django.contrib.postgres.aggregates import ArrayAgg
from django.db import Error as DatabaseFailed
from django.db.models import Count, Exists, OuterRef, Q, Value

from web.database.row_threads import run_in
from workflows.lifecycle.statuses import WORKFLOW_TERMINAL
from workflows.models import Task, TaskGroup, Workflow

READ_SECONDS = 1.0
ROWS_PER_SECOND = 20_000  # groups and tasks, of all watched workflows of a process
MOST_REST_SECONDS = 60.0  # between two reads of one workflow, however wide it is
AGAIN_SECONDS = 3.0  # after PostgreSQL failed
HEARTBEAT_SECONDS = 15.0
WORKFLOWS_AT_ONCE = 200
MOST_GROUPS = 200
"""Groups of a workflow that are watched: the first ones."""

_COLUMNS = (
    "name",
    "status",
    "attempt_number",
    "waiting_reason",
    "waiting_since",
    "placement_result",
    "released_at",
)

log = structlog.get_logger(__name__)

_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="watch")


class GroupState(NamedTuple):
    """A group; ``task_counts`` are of the latest tries by status, ``nodes`` those they have or had."""

    name: str
    status: str
    attempt: int
    waiting_reason: str
    waiting_since: datetime | None
    placement_result: dict[str, Any] | None
    released_at: datetime | None
    task_counts: dict[str, int]
    nodes: tuple[str, ...]


class WorkflowState(NamedTuple):
    """A workflow with its first groups, in order; ``is_over``: nothing of it changes any more."""

    name: str
    status: str
    groups: tuple[GroupState, ...]
    more_groups: bool
    is_over: bool

    @property
    def version(self) -> str:
        return blake2b(repr(self).encode(), digest_size=8).hexdigest()

    @property
    def rows(self) -> int:
        """How many rows were read for it."""
        return len(self.groups) + sum(sum(group.task_counts.values()) for group in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateText:
    """A state as its watchers get it."""

    version: str
    text: bytes
    is_over: bool


ReadStates = Callable[[Sequence[UUID]], Mapping[UUID, WorkflowState]]
Render = Callable[[WorkflowState | None, str], bytes]
"""The text of a state and its version; None: the workflow was removed."""


@dataclass(slots=True, eq=False)
class _Watch:
    """One workflow and those who watch it."""

    workflow: UUID
    watchers: int = 0
    due_at: float = 0.0
    state: StateText | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    is_lost: bool = False

    def put(self, state: StateText) -> None:
        self.state = state
        self.wake()

    def wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class StateFeed:
    """The watched workflows of one process."""

    def __init__(self, *, read: ReadStates, render: Render) -> None:
        self._read, self._render = read, render
        self._watches: dict[UUID, _Watch] = {}
        self._reader: asyncio.Task[None] | None = None
        self._joined = asyncio.Event()

    async def states(
        self, workflow: UUID, *, after: str = "", seconds: float
    ) -> AsyncIterator[StateText | None]:
        """Each state of a workflow, beginning with the present one unless its version is ``after``.

        None stands for a while without any. It ends with the state that is over, after ``seconds``, or where
        the rows are not read any more.
        """
        until = time.monotonic() + seconds
        watch = self._join(workflow)
        try:
            while True:
                state, changed = watch.state, watch.changed
                if state is not None and (state.version != after or state.is_over):
                    after = state.version
                    yield state
                    if state.is_over:
                        return
                    continue
                left = until - time.monotonic()
                if watch.is_lost or left <= 0:
                    return
                try:
                    async with asyncio.timeout(min(HEARTBEAT_SECONDS, left)):
                        await changed.wait()
                except TimeoutError:
                    if time.monotonic() < until:
                        yield None
        finally:
            self._leave(watch)

    def _join(self, workflow: UUID) -> _Watch:
        watch = self._watches.setdefault(workflow, _Watch(workflow))
        watch.watchers += 1
        if self._reader is None:
            self._joined = asyncio.Event()
            self._reader = asyncio.create_task(self._keep_reading(), name="watch")
        self._joined.set()
        return watch

    def _leave(self, watch: _Watch) -> None:
        watch.watchers -= 1
        if not watch.watchers and self._watches.get(watch.workflow) is watch:
            del self._watches[watch.workflow]
            self._joined.set()  # the reader ends with the last

    async def _keep_reading(self) -> None:
        """Read what is due, as long as anything is watched; whoever is left when it fails watches in vain."""
        try:
            while self._watches:
                self._joined.clear()
                await self._read_due()
                next_at = min((watch.due_at for watch in self._watches.values()), default=0.0)
                try:
                    async with asyncio.timeout(max(next_at - time.monotonic(), 0.0)):
                        await self._joined.wait()
                except TimeoutError:
                    pass
        finally:
            self._reader = None
            watches = [*self._watches.values()]
            self._watches.clear()
            for watch in watches:
                watch.is_lost = True
                watch.wake()

    async def _read_due(self) -> None:
        now = time.monotonic()
        due = [watch for watch in self._watches.values() if watch.due_at <= now]
        for begin in range(0, len(due), WORKFLOWS_AT_ONCE):
            await self._read_together(due[begin : begin + WORKFLOWS_AT_ONCE])

    async def _read_together(self, watches: Sequence[_Watch]) -> None:
        versions = {watch.workflow: watch.state.version if watch.state else "" for watch in watches}
        try:
            news = await run_in(_thread, partial(self._news, versions))
        except DatabaseFailed as error:
            log.warning("watched_rows_not_read", error=str(error))
            news = dict.fromkeys(versions, _News(None, rest_seconds=AGAIN_SECONDS))
        for watch in watches:
            state, rest = news[watch.workflow]
            watch.due_at = time.monotonic() + rest
            if state is not None:
                watch.put(state)

    def _news(self, versions: Mapping[UUID, str]) -> dict[UUID, "_News"]:
        """What differs from these versions; in a thread."""
        states, watched = self._read([*versions]), len(self._watches)
        return {
            workflow: self._news_of(workflow, states.get(workflow), version, watched=watched)
            for workflow, version in versions.items()
        }

    def _news_of(self, workflow: UUID, state: WorkflowState | None, version: str, *, watched: int) -> "_News":
        try:
            text = self._text(state, version)
        except (KeyError, TypeError, ValueError) as error:  # of a newer release; the others go on
            log.warning("state_not_read", workflow=str(workflow), error=str(error))
            return _News(None, rest_seconds=MOST_REST_SECONDS)
        return _News(text, rest_seconds(state.rows if state else 0, watched))

    def _text(self, state: WorkflowState | None, before: str) -> StateText | None:
        version = state.version if state else "removed"
        if version == before:
            return None
        is_over = state is None or state.is_over
        return StateText(version=version, text=self._render(state, version), is_over=is_over)


class _News(NamedTuple):
    state: StateText | None
    rest_seconds: float


def rest_seconds(rows: int, watched: int) -> float:
    """Seconds between two reads of a workflow of so many rows, among so many watched ones."""
    return max(READ_SECONDS, min(MOST_REST_SECONDS, rows * watched / ROWS_PER_SECOND))


def read_states(workflows: Sequence[UUID]) -> dict[UUID, WorkflowState]:
    """The present state of those of these workflows that exist. Three queries.

    Whether one is over is read first, so that what follows is its last state.
    """
    unreleased = TaskGroup.objects.filter(workflow=OuterRef("pk"), released_at=None)
    further = TaskGroup.objects.filter(workflow=OuterRef("pk"), position__gte=MOST_GROUPS)
    heads = list(
        Workflow.objects.filter(pk__in=workflows)
        .order_by()
        .values_list("pk", "name", "status", Exists(further), Exists(unreleased))
    )
    groups = _groups(workflows)
    return {
        pk: WorkflowState(
            name=name,
            status=status,
            groups=tuple(groups[pk]),
            more_groups=has_more,
            is_over=status in WORKFLOW_TERMINAL and not is_live,
        )
        for pk, name, status, has_more, is_live in heads
    }


def _groups(workflows: Sequence[UUID]) -> Mapping[UUID, list[GroupState]]:
    rows = TaskGroup.objects.filter(workflow__in=workflows, position__lt=MOST_GROUPS).order_by("position")
    few_columns = list(rows.only("workflow_id", *_COLUMNS))
    tasks = _tasks([group.pk for group in few_columns])
    groups: dict[UUID, list[GroupState]] = defaultdict(list)
    for group in few_columns:
        nodes = {node for _, _, names in tasks[group.pk] for node in names}
        state = GroupState(
            name=group.name,
            status=group.status,
            attempt=group.attempt_number,
            waiting_reason=group.waiting_reason,
            waiting_since=group.waiting_since,
            placement_result=group.placement_result,
            released_at=group.released_at,
            task_counts={status: number for status, number, _ in tasks[group.pk]},
            nodes=tuple(sorted(nodes)),
        )
        groups[group.workflow_id].append(state)
    return groups


def _tasks(groups: Sequence[UUID]) -> Mapping[UUID, list[tuple[str, int, list[str]]]]:
    """The latest tries of these groups: of each status their number and nodes."""
    names = ArrayAgg("node_name", distinct=True, filter=~Q(node_name=""), default=Value([]))
    rows = Task.objects.filter(group__in=groups, latest=True).order_by("status")
    counted = rows.values_list("group_id", "status").annotate(number=Count("pk"), names=names)
    tasks: dict[UUID, list[tuple[str, int, list[str]]]] = defaultdict(list)
    for group, status, number, nodes in counted:
        tasks[group].append((status, number, nodes))
    return tasks
