"""Watching a workflow over REST: server-sent events, one for each change of its state.

An EventSource asks again by itself when a stream breaks off, with the id of the last event. After the event
``end`` nothing follows. A comment now and then keeps proxies from closing a silent stream. A stream
takes a slot (``workflows.logs.slots``) and no thread.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Final
from uuid import UUID

from django.conf import settings
from django.http import StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from web.policy import Action
from web.rest.own import OwnView
from web.rest.queries import NoQuery
from web.rest.shapes import ZONED, Shape
from workflows import selectors
from workflows.api import shapes
from workflows.api.logs import FollowedText
from workflows.api.representations import MOST_NODES, placement_outcome
from workflows.api.views import READ
from workflows.logs import slots
from workflows.state_feed import GroupState, StateFeed, WorkflowState, read_states

HEARTBEAT: Final = b": no news\n\n"
_LAST_EVENT = OpenApiParameter(
    "Last-Event-ID",
    location="header",
    description="The id of the last event that the caller has; that state is not sent again.",
)


class _AnyAccept(DefaultContentNegotiation):
    """A stream is one of events, and an error JSON, whatever the caller would take."""

    def select_renderer(
        self,
        request: Request,  # noqa: ARG002 -- DRF's signature
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,  # noqa: ARG002 -- DRF's signature
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


class WatchView(OwnView):
    access = {"GET": READ}
    content_negotiation_class = _AnyAccept

    @extend_schema(
        operation_id="watch_workflow",
        parameters=[_LAST_EVENT],
        responses={(200, "text/event-stream"): shapes.WatchEventShape},
    )
    def get(self, request: Request, workflow_id: str) -> StreamingHttpResponse:
        """Watch a workflow: an event with its status, placement and waiting reasons whenever one changes."""
        NoQuery.of(request)
        workflow = selectors.workflow_known_as(workflow_id, user=request.user, action=Action.WORKFLOW_READ)
        slot = slots.WATCHING.take(request.user.get_username())
        events = _events(workflow.pk, after=request.headers.get("Last-Event-ID", ""))
        answer = StreamingHttpResponse(FollowedText(events, slot), content_type="text/event-stream")
        answer["X-Accel-Buffering"] = "no"  # nginx keeps an answer back otherwise
        return answer


async def _events(workflow: UUID, *, after: str) -> AsyncIterator[bytes]:
    states = _feed.states(workflow, after=after, seconds=settings.ENV.log_follow_seconds)
    async for state in states:
        yield state.text if state else HEARTBEAT


def events_of(state: WorkflowState | None, version: str) -> bytes:
    """The event of a state, and the last one where nothing follows; None: the workflow was removed."""
    text = "" if state is None else _event("state", _workflow(state), id=version)
    if state is None or state.is_over:
        text += _event("end", shapes.WatchEndShape(removed=state is None))
    return text.encode()


def _event(name: str, data: Shape, **fields: str) -> str:
    lines = {"event": name, **fields, "data": data.model_dump_json(context=ZONED)}
    return "".join(f"{field}: {value}\n" for field, value in lines.items()) + "\n"


def _workflow(state: WorkflowState) -> shapes.WorkflowStateShape:
    return shapes.WorkflowStateShape(
        name=state.name,
        status=state.status,
        groups=[_group(group) for group in state.groups],
        more_entries=state.more_groups,
    )


def _group(group: GroupState) -> shapes.GroupStateShape:
    return shapes.GroupStateShape(
        name=group.name,
        status=group.status,
        attempt=group.attempt,
        waiting_reason=group.waiting_reason or None,
        waiting_since=group.waiting_since,
        got=placement_outcome(group.placement_result),
        released_at=group.released_at,
        task_counts=group.task_counts,
        node_count=len(group.nodes),
        nodes=list(group.nodes[:MOST_NODES]),
    )


_feed = StateFeed(read=read_states, render=events_of)
