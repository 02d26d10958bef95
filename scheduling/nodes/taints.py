"""Taints that keep pods off a node, and how long they last. Pure.

A taint that bars pods is *lasting* once it has stood for LASTING_AFTER, or if an administrator knows it: some
pool of the cluster tolerates its key. Until then it is *passing*: network agents, autoscalers and controllers
of health set taints while a node is made ready or repaired, and remove them. Taints that Kubernetes sets by a
node's condition pass however long they stand.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

LASTING_AFTER = timedelta(hours=1)
MOST_TAINTS = 3
"""Taints that a sentence names."""

BARRING = frozenset({"NoSchedule", "NoExecute"})
"""The effects for which a scheduler gives a node no pod."""

_BY_CONDITION = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that Kubernetes sets by a node's condition (cordoned, not ready, disk pressure), and removes."""

Taint = Mapping[str, str]
Toleration = Mapping[str, object]


def barring(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> list[Taint]:
    """The taints that keep a pod with these tolerations off a node."""
    return [
        taint
        for taint in taints
        if taint.get("effect") in BARRING and not any(_covers(each, taint) for each in tolerations)
    ]


def _covers(toleration: Toleration, taint: Taint) -> bool:
    """Kubernetes' rule: an empty key tolerates everything with Exists, an empty effect every effect."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key", "")
    if toleration.get("operator") == "Exists":
        return key in ("", taint.get("key"))
    return key == taint.get("key") and toleration.get("value", "") == taint.get("value", "")


def taint_name(taint: Taint) -> str:
    """The taint as ``key:effect``."""
    return f"{taint.get('key', '')}:{taint.get('effect', '')}"


def passes_by_condition(key: str) -> bool:
    return key.startswith(_BY_CONDITION)


def passes(key: str, *, since: datetime | None, listed: AbstractSet[str], now: datetime) -> bool:
    """Whether a taint may pass; ``since`` is when it was first observed, None if that is not known.

    ``listed`` has the keys that an administrator knows.
    """
    if passes_by_condition(key):
        return True
    return key not in listed and (since is None or now - since < LASTING_AFTER)
