"""The desk: every pool and backend at a glance, problems first, each with advice."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from pools import selectors
from pools.conditions.advice import advice_of, concerns
from pools.interfaces import usage
from pools.models import Backend, Pool
from scheduling.backends.registry import product_of

MOST = 200
"""Pools, and backends, on the desk; the most severe first. The lists have all of them."""

admin.site.index_template = "pools/admin/desk.html"


def badges(obj: Backend | Pool) -> SafeString:
    """The conditions of a pool or backend as badges; one badge for all that are good."""
    advice = advice_of(obj)
    return render_to_string("pools/admin/badges.html", {"concerns": concerns(advice), "all": advice})


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the desk to the context of the admin's first page. Always four queries."""
    del request
    backends = [_backend(row) for row in selectors.living_backends().order_by("name")]
    living = usage().living_by_pool()
    rows = Pool.objects.select_related("backend").prefetch_related("topology_keys").order_by("name")
    pools = [_pool(row, living=living.get(row.name, 0)) for row in rows]
    todo = [
        {"advice": advice, "entry": entry} for entry in (*backends, *pools) for advice in entry["concerns"]
    ]
    return context | {
        "desk_backends": _gravest(backends),
        "desk_pools": _gravest(pools),
        "desk_more": max(len(backends), len(pools)) > MOST,
        "desk_todo": todo[:MOST],
    }


def _gravest(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(entries, key=lambda entry: (-len(entry["concerns"]), entry["name"]))[:MOST]


def _backend(row: Backend) -> dict[str, Any]:
    findings = row.card.get("findings", [])
    missing = [finding["name"] for finding in findings if finding["found"] is not True and finding["purpose"]]
    advice = advice_of(row)
    return {
        "kind": "backend",
        "name": row.name,
        "address": reverse("admin:pools_backend_change", args=[row.pk]),
        "row": row,
        "scheduler": product_of(row.scheduler_type),
        "advice": advice,
        "concerns": concerns(advice),
        "present": sum(finding["found"] is True for finding in findings),
        "features": len(findings),
        "missing": missing,
    }


def _pool(row: Pool, *, living: int) -> dict[str, Any]:
    advice = advice_of(row)
    return {
        "kind": "pool",
        "page": reverse("pages:pool", args=[row.name]),
        "map": reverse("pages:map", args=[row.name]),
        "name": row.name,
        "address": reverse("admin:pools_pool_change", args=[row.pk]),
        "row": row,
        "advice": advice,
        "concerns": concerns(advice),
        "keys": [key.key for key in row.topology_keys.all()],
        "living": living,
    }
