"""Logs of workflows over REST: plain text, a line at a time.

OSMO's client reads the stream to its end, so a workflow that has not ended is followed unless the caller
says ``follow=False`` or asks for the last lines. What is read of running tasks takes a place
(``workflows.logs.streams``); what is in the store takes none.
"""

import select
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
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
from workflows.logs import streams
from workflows.logs.follow import FollowRequest, follow_logs
from workflows.logs.read import LogRequest, is_over, read_logs
from workflows.models import Task, Workflow


class LogsView(APIView):
    access = {"GET": READ}

    @extend_schema(operation_id="workflow_logs", parameters=[queries.LogsQuery], responses=LINES)
    def get(self, request: Request, workflow_id: str) -> StreamingHttpResponse:
        """Stream the logs of its tasks: from their pods while they run, from the store afterwards."""
        query = queries.LogsQuery.of(request)
        workflow, tries = _asked(request, workflow_id, query)
        lines = _most(query, workflow_limits().max_log_lines)
        if not _follows(query, workflow):
            return _answered(request, workflow, tries(), LogRequest(lines=lines))
        wanted = FollowRequest(
            lines=lines, prefixed=len(tries()) > 1, seconds=settings.ENV.log_follow_seconds
        )
        cluster = cluster_for(workflow.backend)
        text = follow_logs(tries, cluster=cluster, wanted=wanted, is_heard=_listener(request._request))  # noqa: SLF001 -- DRF wraps it
        return _streamed(request, text)


class ErrorLogsView(APIView):
    access = {"GET": READ}

    @extend_schema(operation_id="workflow_error_logs", parameters=[queries.LinesQuery], responses=LINES)
    def get(self, request: Request, workflow_id: str) -> StreamingHttpResponse:
        """Give what the tasks that failed said last, with their exit codes; never followed."""
        query = queries.LinesQuery.of(request)
        workflow, tries = _asked(request, workflow_id, query)
        wanted = LogRequest(lines=_most(query, workflow_limits().max_error_log_lines), failed_only=True)
        return _answered(request, workflow, tries(), wanted)


def _asked(
    request: Request, said: str, query: dict[str, Any]
) -> tuple[Workflow, Callable[[], Sequence[Task]]]:
    """The workflow, and what reads the tries that were asked for."""
    workflow = selectors.workflow_known_as(said, user=request.user, action=Action.WORKFLOW_READ)
    task, retry = query["task_name"], query["retry_id"]
    selectors.check_task(workflow, task=task, retry_id=retry)
    return workflow, lambda: list(selectors.tries_of(workflow, task=task, retry_id=retry))


def _most(query: dict[str, Any], most: int) -> int:
    return min(query["last_n_lines"] or most, most)


def _follows(query: dict[str, Any], workflow: Workflow) -> bool:
    if workflow.status in WORKFLOW_TERMINAL:
        return False
    asked: bool | None = query["follow"]
    return query["last_n_lines"] is None if asked is None else asked


def _answered(
    request: Request, workflow: Workflow, tries: Sequence[Task], wanted: LogRequest
) -> StreamingHttpResponse:
    text = read_logs(tries, cluster=cluster_for(workflow.backend), wanted=wanted)
    if all(map(is_over, tries)):
        return StreamingHttpResponse(text, content_type=TEXT)
    return _streamed(request, text)


def _streamed(request: Request, text: Iterator[bytes]) -> StreamingHttpResponse:
    """Answer from a place, which is given back at the end. Raises Busy."""
    return StreamingHttpResponse(_Placed(text, streams.take(request.user.get_username())), content_type=TEXT)


class _Placed:
    """A text that is read in a place; the server closes it, also when the caller has gone."""

    def __init__(self, text: Iterator[bytes], place: streams.Place) -> None:
        self._text, self._place = text, place

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._text
        finally:
            self._place.leave()

    def close(self) -> None:
        try:
            if close := getattr(self._text, "close", None):
                close()
        finally:
            self._place.leave()


def _listener(request: HttpRequest) -> Callable[[], bool]:
    """Tell whether the caller is still connected, as far as the server shows its socket."""
    connection = request.META.get("gunicorn.socket")
    if not isinstance(connection, socket.socket):
        return lambda: True

    def is_heard() -> bool:
        try:
            readable, _, _ = select.select([connection], [], [], 0)
            return not readable or bool(connection.recv(1, socket.MSG_PEEK))
        except (OSError, ValueError):
            return False

    return is_heard
