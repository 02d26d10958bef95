"""Logs of workflows over REST: plain text, a line at a time.

OSMO's client reads the stream to its end, so a workflow that has not ended is followed unless the caller
says ``follow=False`` or asks for the last lines. Reading from running tasks takes a slot
(``workflows.logs.slots``); reading from the store takes none. Following is a coroutine, all else a thread's.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from pools.clusters.connect import cluster_for
from pools.selectors import workflow_limits
from web.policy import Action
from workflows import selectors
from workflows.api import queries
from workflows.api.views import LINES, READ, TEXT
from workflows.lifecycle.statuses import WORKFLOW_TERMINAL
from workflows.logs import slots
from workflows.logs.follow import FollowRequest, follow_logs
from workflows.logs.read import LogRequest, ReadTries, is_over, read_logs
from workflows.models import Task, Workflow


class LogsView(APIView):
    access = {"GET": READ}

    @extend_schema(operation_id="get_workflow_logs", parameters=[queries.LogsQuery], responses=LINES)
    def get(self, request: Request, workflow_id: str) -> StreamingHttpResponse:
        """Stream the logs of its tasks: from their pods while they run, from the store afterwards."""
        query = queries.LogsQuery.of(request)
        workflow, tries = _tries(request, workflow_id, query)
        lines = _most(query, workflow_limits().max_log_lines)
        if not _follows(query, workflow):
            return _answered(request, workflow, tries, LogRequest(lines=lines))
        log_request = FollowRequest(
            user=request.user.get_username(),
            lines=lines,
            prefixed=tries[1:].exists(),
            seconds=settings.ENV.log_follow_seconds,
        )
        cluster = cluster_for(workflow.backend)
        text = follow_logs(
            lambda: list(tries.all()), cluster=cluster, request=log_request, followers=slots.FOLLOWING.used
        )
        return _followed(request, text)


class ErrorLogsView(APIView):
    access = {"GET": READ}

    @extend_schema(operation_id="get_workflow_error_logs", parameters=[queries.LinesQuery], responses=LINES)
    def get(self, request: Request, workflow_id: str) -> StreamingHttpResponse:
        """Give the last lines of failed tasks with their exit codes; never followed."""
        query = queries.LinesQuery.of(request)
        workflow, tries = _tries(request, workflow_id, query)
        log_request = LogRequest(lines=_most(query, workflow_limits().max_error_log_lines), failed_only=True)
        return _answered(request, workflow, tries, log_request)


def _tries(request: Request, name: str, query: dict[str, Any]) -> tuple[Workflow, QuerySet[Task]]:
    """The workflow, and its requested tries."""
    workflow = selectors.workflow_known_as(name, user=request.user, action=Action.WORKFLOW_READ)
    retry = query["retry_id"]
    tasks = selectors.named_tasks(workflow, task=query["task_name"], retry_id=retry)
    return workflow, selectors.tries_of(workflow, tasks=tasks, retry_id=retry)


def _most(query: dict[str, Any], most: int) -> int:
    return min(query["last_n_lines"] or most, most)


def _follows(query: dict[str, Any], workflow: Workflow) -> bool:
    if workflow.status in WORKFLOW_TERMINAL:
        return False
    follow: bool | None = query["follow"]
    return query["last_n_lines"] is None if follow is None else follow


def _answered(
    request: Request, workflow: Workflow, tries: QuerySet[Task], log_request: LogRequest
) -> StreamingHttpResponse:
    read = ReadTries.of(tries, failed_only=log_request.failed_only)
    text = read_logs(read, cluster=cluster_for(workflow.backend), request=log_request)
    if all(map(is_over, read.tries)):
        return StreamingHttpResponse(text, content_type=TEXT)
    return _streamed(request, text)


def _streamed(request: Request, text: Iterator[bytes]) -> StreamingHttpResponse:
    """Answer from a slot, which is given back at the end. Raises Busy."""
    slot = slots.READING.take(request.user.get_username())
    return StreamingHttpResponse(_SlottedText(text, slot), content_type=TEXT)


def _followed(request: Request, text: AsyncIterator[bytes]) -> StreamingHttpResponse:
    """The same for a text that the event loop reads. Raises Busy."""
    slot = slots.FOLLOWING.take(request.user.get_username())
    return StreamingHttpResponse(FollowedText(text, slot), content_type=TEXT)


class _SlottedText:
    """A text that is read in a slot; the server closes it, also when the caller has gone."""

    def __init__(self, text: Iterator[bytes], slot: slots.StreamSlot) -> None:
        self._text, self._slot = text, slot

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._text
        finally:
            self._slot.release()

    def close(self) -> None:
        try:
            if close := getattr(self._text, "close", None):
                close()
        finally:
            self._slot.release()


class FollowedText:
    """A text that coroutines read in a slot; they end when the server cancels the request."""

    def __init__(self, text: AsyncIterator[bytes], slot: slots.StreamSlot) -> None:
        self._text, self._slot = text, slot

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._text:
                yield piece
        finally:
            self._slot.release()

    def close(self) -> None:
        """Give the slot back; called from a thread, also for a text that was never begun."""
        self._slot.release()
