"""The pages of the groups that others submitted to a cluster, with its map."""

from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import mark_safe
from rest_framework import serializers
from rest_framework.request import Request

from pages.base import PageView, unless_known
from pages.clusters.content import (
    ClusterMap,
    cluster_map,
    group_content,
    others_content,
    selected_of,
)
from pages.map.captions import about_place
from pages.map.svg import Link, draw
from pages.map.table import rows
from pages.map.views import LIVE_UP_TO
from pages.workflows.explanations import drawn_once
from pages.workflows.verdicts import NAMELESS
from pools.selectors import backend_explained_to
from web.access.permissions import Needs, caller
from web.policy import Action
from web.rest.queries import Query
from workflows.feasibility.others.judged import one_of_others, waiting

PER_PAGE = 20
"""Groups of one page; a verdict on each takes a while."""


class ClusterQuery(Query):
    """``open`` is a place of the map; ``group``, NAMESPACE/NAME, is compared with its domains."""

    open = serializers.CharField(default="", allow_blank=True, trim_whitespace=False, max_length=1200)
    group = serializers.CharField(default="", allow_blank=True, max_length=320)
    offset = serializers.IntegerField(min_value=0, max_value=1_000_000, default=0)


class PlaceQuery(Query):
    open = serializers.CharField(default="", allow_blank=True, trim_whitespace=False, max_length=1200)


class OthersPage(PageView):
    access = {"GET": Needs(Action.POOL_LIST, on=None, instead=Action.CLUSTER_EXPLAIN)}

    def get(self, request: Request, name: str) -> HttpResponse:
        """List the groups of others that wait, beside the map of the cluster's nodes."""
        query, user = ClusterQuery.of(request), caller(request)
        backend, offset = backend_explained_to(user, name), query["offset"]
        page = drawn_once(
            f"others:{backend.pk}:{offset}",
            lambda: waiting(backend, user, limit=PER_PAGE, offset=offset),
            user=user,
        )
        context: dict[str, Any] = {
            "title": f"Cluster {backend.name}",
            "view": others_content(page, offset=offset, limit=PER_PAGE),
            "query": query,
        }
        if page.names_shown:
            selected = selected_of(page.gangs, query["group"])
            drawn = cluster_map(backend, selected, user=user, path=_path(request, query))
            same = {key: query[key] for key in ("group", "offset") if query[key]}
            address = reverse("pages:cluster", args=[backend.name])
            context |= _map_context(drawn, title=f"Map of cluster {backend.name}", address=address, same=same)
        return unless_known(self, "pages/clusters/others.html", context)


class OthersGroupPage(PageView):
    access = {"GET": Needs(Action.CLUSTER_EXPLAIN, on="backend/{backend}")}

    def get(self, request: Request, backend: str, namespace: str, name: str) -> HttpResponse:
        """Explain why one of them waits."""
        query, user = PlaceQuery.of(request), caller(request)
        row = backend_explained_to(user, backend)
        judged = drawn_once(
            f"others:{row.pk}:{namespace}/{name}",
            lambda: one_of_others(row, user, namespace=namespace, name=name),
            user=user,
        )
        address = reverse("pages:others-group", args=[row.name, namespace, name])
        drawn = cluster_map(row, judged, user=user, path=_path(request, query))
        view = group_content(row, judged)
        context = {
            "title": f"{view.line.path} on {row.name}",
            "view": view,
            "nameless": NAMELESS,
            "freshness": judged.report.freshness,
            **_map_context(drawn, title=f"Map of cluster {row.name}", address=address, same={}),
        }
        return unless_known(self, "pages/clusters/group.html", context)


def _path(request: Request, query: dict[str, Any]) -> tuple[str, ...]:
    return tuple(query["open"].split("/")) if "open" in request.query_params else ()


def _map_context(drawn: ClusterMap, *, title: str, address: str, same: dict[str, Any]) -> dict[str, Any]:
    """The map with its table, each place a link to ``address`` with the parameters that stay the ``same``."""
    view = drawn.view

    def link(place: Any) -> str:
        parameters = {**({"open": "/".join(place.path)} if place.path else {}), **same}
        return f"{address}?{urlencode(parameters)}" if parameters else address

    of_place: Link = link
    picture = draw(view.picture, title=title, description=about_place(view.place), link=of_place)
    return {
        "map": drawn,
        "picture": mark_safe(picture),  # noqa: S308 -- every text in it was escaped by the drawing
        "places": [(place, link(place)) for place in view.trail[:-1]],
        "rows": [(row, link(row.place) if row.place else "") for row in rows(view.picture.box)],
        "is_live": view.nodes <= LIVE_UP_TO,
    }
