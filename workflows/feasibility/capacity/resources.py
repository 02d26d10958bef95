"""Nodes as OSMO's clients list them: capacity, usage, and the pools of each. Pure.

``resource_type`` is RESERVED for a node of one pool and SHARED for one of several. Beside OSMO's fields
``topology`` has, for each pool, the node's domain of each of its keys.
"""

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from pools.models import Platform
from scheduling.topology.levels import Levels
from workflows.feasibility.capacity.usage import PoolNode
from workflows.values.amounts import Amounts

GIB = 2**30
Json = dict[str, Any]


def entry(
    node: PoolNode,
    *,
    backend: str,
    used: Amounts,
    platforms: Mapping[tuple[str, str], Platform],
    levels: Mapping[str, Levels],
) -> Json:
    """One node. ``platforms`` are by pool and name, ``levels`` by pool."""
    return {
        "hostname": node.name,
        "exposed_fields": {
            "node": node.name,
            "pool/platform": [f"{membership.pool}/{membership.platform}" for membership in node.memberships],
            **{key: str(value) for key, value in _gib(node.allocatable).items()},
        },
        "taints": [dict(taint) for taint in node.taints],
        "usage_fields": _written(used),
        "non_workflow_usage_fields": {} if node.others is None else _written(node.others),
        "allocatable_fields": _written(node.allocatable),
        "platform_allocatable_fields": _by_membership(node, lambda pool: node.offered([pool])),
        "platform_available_fields": _by_membership(node, lambda pool: node.free(used, [pool])),
        "platform_workflow_allocatable_fields": _by_membership(node, lambda pool: node.free(used, [pool])),
        "config_fields": _config(node, platforms),
        "backend": backend,
        "label_fields": None,
        "pool_platform_labels": {
            pool: [membership.platform for membership in node.memberships if membership.pool == pool]
            for pool in node.pools
        },
        "resource_type": "RESERVED" if len(node.pools) == 1 else "SHARED",
        "conditions": _conditions(node),
        "topology": {
            pool: {level.key: node.labels.get(level.label) for level in levels[pool]} for pool in node.pools
        },
    }


def _conditions(node: PoolNode) -> list[str] | None:
    """Why the node takes no new pods, as kubectl names it; null if it takes them."""
    reasons = [*([] if node.ready else ["NotReady"]), *(["SchedulingDisabled"] if node.unschedulable else [])]
    return reasons or None


def _gib(amounts: Amounts) -> dict[str, int]:
    """Whole numbers for a table: GiB, cores, GPUs."""
    return {
        "storage": amounts.storage // GIB,
        "cpu": int(amounts.cpu),
        "memory": amounts.memory // GIB,
        "gpu": amounts.gpu,
    }


def _written(amounts: Amounts) -> dict[str, str]:
    """As Kubernetes writes them."""
    return {
        "storage": f"{amounts.storage // 1024}Ki",
        "cpu": _number(amounts.cpu),
        "memory": f"{amounts.memory // 1024}Ki",
        "gpu": str(amounts.gpu),
    }


def _plain(amounts: Amounts) -> Json:
    """Storage in bytes, memory in Ki, as OSMO mixes them."""
    cores = amounts.cpu.quantize(Decimal("0.001"), rounding=ROUND_HALF_UP)
    return {
        "storage": amounts.storage,
        "cpu": int(cores) if cores == int(cores) else float(cores),
        "memory": f"{amounts.memory // 1024}Ki",
        "gpu": amounts.gpu,
    }


def _number(value: Decimal) -> str:
    return str(int(value)) if value == int(value) else f"{value.normalize():f}"


def _by_membership(node: PoolNode, amounts: Callable[[str], Amounts]) -> dict[str, dict[str, Json]]:
    by_pool: dict[str, dict[str, Json]] = {}
    for membership in node.memberships:
        by_pool.setdefault(membership.pool, {})[membership.platform] = _plain(amounts(membership.pool))
    return by_pool


def _config(node: PoolNode, platforms: Mapping[tuple[str, str], Platform]) -> dict[str, dict[str, Json]]:
    by_pool: dict[str, dict[str, Json]] = {}
    for membership in node.memberships:
        row = platforms.get((membership.pool, membership.platform))
        by_pool.setdefault(membership.pool, {})[membership.platform] = {
            "host_network": row.host_network_allowed if row else False,
            "privileged": row.privileged_allowed if row else False,
            "default_mounts": row.default_mounts if row else [],
            "allowed_mounts": row.allowed_mounts if row else [],
        }
    return by_pool
