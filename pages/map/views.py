"""The page of a pool's map, and its picture alone."""

import re
from functools import cache, partial
from importlib.resources import files
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import mark_safe
from rest_framework import serializers
from rest_framework.request import Request

from pages.base import PageView, unless_known, unless_unchanged
from pages.map.captions import about_place
from pages.map.content import MapContent, map_content
from pages.map.svg import Caption, Link, draw
from pages.map.table import rows
from pages.map.tree import PlacePath
from pages.pool_rows import map_rows
from pages.short_names import domain_name
from pools.selectors import pool_visible_to
from web.access.permissions import Needs, caller
from web.access.rights import grants_of
from web.policy import Action
from web.rest.queries import Query
from workflows.selectors import workflow_known_as

LIVE_UP_TO = 250
"""Nodes of a pool whose page keeps itself fresh; reading more every few seconds would cost too much."""

SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"


class MapQuery(Query):
    """``open`` is a place's path, its names joined by slashes, broadest first."""

    open = serializers.CharField(default="", allow_blank=True, trim_whitespace=False, max_length=1200)
    workflow = serializers.CharField(default="", allow_blank=True, max_length=80)
    group = serializers.CharField(default="", allow_blank=True, max_length=80)


class MapPage(PageView):
    access = {"GET": Needs(Action.POOL_LIST, on=None)}

    def get(self, request: Request, name: str) -> HttpResponse:
        """Show where a pool's nodes stand, what is free, and how a workflow fits in."""
        if request.query_params.get("workflow"):
            return unless_known(self, "pages/map.html", self._context(request, name))
        return unless_unchanged(
            self,
            "pages/map.html",
            rows=partial(map_rows, name),
            make=lambda: self._context(request, name),
        )

    def _context(self, request: Request, name: str) -> dict[str, Any]:
        view, query = _requested_map(request, name)
        link = _link(view, query)
        picture = draw(view.picture, title=_title(view), description=about_place(view.place), link=link)
        return {
            "title": f"Map of pool {view.pool.name}",
            "view": view,
            "query": query,
            "picture": mark_safe(picture),  # noqa: S308 -- every text in it was escaped by the drawing
            "crumbs": [(place, link(place)) for place in view.trail[:-1]],
            "rows": [(row, link(row.place) if row.place else "") for row in rows(view.picture.box)],
            "room": [(key, domain_name(key.domain)) for key in view.fragments.keys],
            "is_live": view.nodes <= LIVE_UP_TO,
            "svg": _address("map.svg", view, query, path=view.place.path),
            "may_ask": grants_of(caller(request)).allows(Action.CONFIG_READ, f"pool/{view.pool.name}"),
        }


class MapPicture(PageView):
    access = {"GET": Needs(Action.POOL_LIST, on=None)}

    def get(self, request: Request, name: str) -> HttpResponse:
        """The picture alone, with its style, legend and sets inside: for a ticket."""
        view, _query = _requested_map(request, name)
        text = draw(
            view.picture,
            title=_title(view),
            description=about_place(view.place),
            style=style(),
            captions=_captions(view),
        )
        answer = HttpResponse(text, content_type="image/svg+xml; charset=utf-8")
        answer["Content-Security-Policy"] = SVG_POLICY
        answer["Content-Disposition"] = f'inline; filename="map-{view.pool.name}.svg"'
        answer["Cache-Control"] = "private, no-cache"
        return answer


def _requested_map(request: Request, name: str) -> tuple[MapContent, dict[str, Any]]:
    query = MapQuery.of(request)
    user = caller(request)
    pool = pool_visible_to(user, name, action=Action.POOL_LIST)
    workflow = None
    if query["workflow"]:
        workflow = workflow_known_as(query["workflow"], user=user, action=Action.WORKFLOW_READ)
    path = tuple(query["open"].split("/")) if "open" in request.query_params else ()
    return map_content(pool, user=user, path=path, workflow=workflow, group=query["group"]), query


def _link(view: MapContent, query: dict[str, Any]) -> Link:
    return lambda place: _address("map", view, query, path=place.path)


def _address(page: str, view: MapContent, query: dict[str, Any], *, path: PlacePath) -> str:
    parameters = {key: query[key] for key in ("workflow", "group") if query[key]}
    parameters = {**({"open": "/".join(path)} if path else {}), **parameters}
    address = reverse(f"pages:{page}", args=[view.pool.name])
    return f"{address}?{urlencode(parameters)}" if parameters else address


def _title(view: MapContent) -> str:
    where = "/".join(place.name for place in view.trail[1:])
    return f"Map of pool {view.pool.name}" + (f", {where}" if where else "")


def _captions(view: MapContent) -> list[Caption]:
    """The time of the picture, and the meaning of its letters."""
    captions = [Caption(f"{_title(view)}. {view.fragments.freshness.dated}")]
    if view.chosen is None:
        return captions
    for group in view.chosen.groups:
        stands = group.sentence or group.reason or group.status.lower()
        captions.append(Caption(f"{view.chosen.name}, group {group.name}: {stands}"))
        if group.drawn:
            captions.append(Caption(f"Each domain shows for how many tasks of {group.drawn} it has room."))
        for placed in group.placed:
            places = ", ".join(f"{count} in {where}" for where, count in placed.domains)
            captions.append(
                Caption(" · ".join(filter(None, (placed.words, places, placed.outcome))), placed.mark)
            )
    return captions


@cache
def style() -> str:
    """The frame's colours and the map's style, for a picture in a file."""
    folder = files("pages") / "static" / "pages"
    frame = (folder / "frame.css").read_text()
    colours = re.findall(
        r"^:root \{[^}]*\}|^@media \(prefers-color-scheme: dark\) \{\s*:root \{[^}]*\}\s*\}",
        frame,
        re.MULTILINE,
    )
    return "\n".join([*colours, (folder / "map.css").read_text()])
