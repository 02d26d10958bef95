"""The pages of pools."""

from functools import partial
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request

from pages.base import PageView, unless_unchanged
from pages.pool_rows import outcomes_since, pool_rows
from pages.pools.content import pool_content, pool_lines
from pools.selectors import followed_backends, pool_visible_to, pools_allowed_to
from web.access.permissions import Needs, caller
from web.policy import Action

LIVE_UP_TO = 1000
"""Nodes on a page that keeps itself fresh: a reading of 5,000 takes 0.3 s of a processor, for each viewer."""

LIST = Needs(Action.POOL_LIST, on=None)


class HomePage(PageView):
    access = {"GET": LIST}

    def get(self, request: Request) -> HttpResponse:
        """List the pools the caller may use."""
        user = caller(request)
        rows = pools_allowed_to(user, Action.POOL_LIST).order_by("name")
        lines = pool_lines(list(rows.prefetch_related("topology_keys", "platforms")), user=user)
        is_live = sum(line.room.nodes for line in lines) <= LIVE_UP_TO
        clusters = followed_backends(user).order_by("name").values_list("name", flat=True)
        context = {"title": "Pools", "lines": lines, "is_live": is_live, "clusters": list(clusters)}
        return self.page("pages/pools.html", context)


class PoolsPage(PageView):
    """The address above those of the pools, which people shorten or guess."""

    access = {"GET": LIST}

    def get(self, request: Request) -> HttpResponse:
        """Lead to the list of pools."""
        del request
        return HttpResponseRedirect(reverse("pages:home"))


class PoolPage(PageView):
    access = {"GET": LIST}

    def get(self, request: Request, name: str) -> HttpResponse:
        """Show a pool: its keys, its room, a workflow to copy, what waits."""
        return unless_unchanged(
            self,
            "pages/pool.html",
            rows=partial(pool_rows, name),
            make=lambda: self._context(request, name),
        )

    def _context(self, request: Request, name: str) -> dict[str, Any]:
        user = caller(request)
        pool = pool_visible_to(user, name, action=Action.POOL_LIST)
        view = pool_content(pool, user=user, outcomes_since=outcomes_since(timezone.now()))
        return {"title": f"Pool {view.name}", "view": view, "is_live": view.room.nodes <= LIVE_UP_TO}
