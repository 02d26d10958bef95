"""What if: nodes or a domain chosen on a map, and what would become of the groups that wait. Writes nothing.

The page asks the question that REST asks (``POST /api/pool/{pool}/what-if``), with the same rights and the
same limit. Its address holds the whole question, so it can be sent to somebody else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import mark_safe
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from pages.base import PageView
from pages.map.captions import about_place
from pages.map.content import MapContent, drawn_levels, map_content
from pages.map.svg import draw
from pages.map.tree import MapPlace
from pages.workflows.labels import Badge
from pools.models import Pool
from pools.selectors import Caller, pool_levels, pool_visible_to
from scheduling.errors import TopologyError
from web.access.permissions import Needs, caller
from web.access.rights import grants_of
from web.limits.throttles import SubmitThrottle
from web.policy import Action
from web.rest import errors
from web.rest.queries import Query, texts
from whatif.api import notes_of
from whatif.comparison import Effect, GroupComparison, WhatIf, what_if
from whatif.scenario import MOST_ADDED, NewNodes, Scenario

MOST_CHANGED = 200
"""Rows of groups that change; the others are counted."""

_SIGNS = {
    Effect.FITS: ("✓", "good"),
    Effect.POSSIBLE: ("✓", "good"),
    Effect.WAITS: ("◷", "warn"),
    Effect.IMPOSSIBLE: ("✕", "bad"),
    Effect.SAME: ("", ""),
}


class WhatIfQuery(Query):
    """``open`` is the path of the place that is shown; ``drain`` says that all of it is gone."""

    open = serializers.CharField(default="", allow_blank=True, trim_whitespace=False, max_length=1200)
    drain = serializers.BooleanField(default=False)
    node = texts("Nodes that are gone.")
    add = serializers.IntegerField(min_value=0, max_value=MOST_ADDED, default=0)
    like = serializers.CharField(default="", allow_blank=True, max_length=253)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedGroups:
    """The groups that change, each with its badge, and how many are left out of the rows or stay."""

    result: WhatIf
    changes: Sequence[tuple[Badge, GroupComparison]]
    more: int
    same: int
    notes: Sequence[str]


class WhatIfPage(PageView):
    access = {"GET": Needs(Action.CONFIG_READ, on=None)}

    def get_throttles(self) -> list[BaseThrottle]:
        """The limit of REST on such questions; to look at the map does not count."""
        asks = {"drain", "node", "add"} & set(self.request.query_params)
        return [SubmitThrottle()] if asks else []

    def get(self, request: Request, name: str) -> HttpResponse:
        """Show the form beside the map, and what would change once something was chosen."""
        query = WhatIfQuery.of(request)
        user = caller(request)
        pool = pool_visible_to(user, name, action=Action.CONFIG_READ)
        path = tuple(query["open"].split("/")) if query["open"] else ()
        view = map_content(pool, user=user, path=path, workflow=None, group="")
        scenario = _scenario(pool, view.place, query)
        answer, error = None, None
        if scenario != Scenario() and not (view.lost and query["drain"]):
            try:
                answer = _answer(pool, scenario, user=user)
            except TopologyError as refused:
                error = refused
        context = {
            "title": f"What if: pool {pool.name}",
            "view": view,
            "query": query,
            "picture": _picture(view),
            "crumbs": [(place, _address(view, place)) for place in view.trail[:-1]],
            "most_added": MOST_ADDED,
            "may_drain": bool(_domain(pool, view.place)),
            "answer": answer,
            "error": error,
        }
        return self.page("pages/what_if.html", context, status=errors.status_of(error) if error else 200)


def _scenario(pool: Pool, place: MapPlace, query: dict[str, Any]) -> Scenario:
    domain = _domain(pool, place) if query["drain"] else {}
    like = query["like"] or next((node.name for node in place.nodes), "")
    return Scenario(
        drain=(domain,) if domain else (),
        drain_nodes=tuple(query["node"]),
        add_nodes=(NewNodes(count=query["add"], like=like, labels={}, allocatable={}),)
        if query["add"]
        else (),
    )


def _domain(pool: Pool, place: MapPlace) -> dict[str, str]:
    """The place as a domain, by key; empty for what is none: the pool, a run, or nodes without a label."""
    if place.outside or place.run:
        return {}
    keys = [level.key for level in drawn_levels(pool_levels(pool))]
    return dict(zip(keys, place.path, strict=False))


def _answer(pool: Pool, scenario: Scenario, *, user: Caller) -> ChangedGroups:
    names = grants_of(user).allows(Action.WORKFLOW_LIST, f"pool/{pool.name}")
    result = what_if(pool, scenario, user=user, names=names)
    changes = [
        (Badge(group.effect.value, group.effect.words.capitalize(), *_SIGNS[group.effect]), group)
        for group in result.groups
        if group.effect is not Effect.SAME
    ]
    return ChangedGroups(
        result=result,
        changes=changes[:MOST_CHANGED],
        more=max(0, len(changes) - MOST_CHANGED),
        same=len(result.groups) - len(changes),
        notes=notes_of(result),
    )


def _picture(view: MapContent) -> str:
    drawn = draw(
        view.picture,
        title=f"Map of pool {view.pool.name}",
        description=about_place(view.place),
        link=lambda place: _address(view, place),
    )
    return mark_safe(drawn)  # noqa: S308 -- every text in it was escaped by the drawing


def _address(view: MapContent, place: MapPlace) -> str:
    address = reverse("pages:what-if", args=[view.pool.name])
    return f"{address}?{urlencode({'open': '/'.join(place.path)})}" if place.path else address
