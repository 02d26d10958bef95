"""Which requirements a group's placing met, as a page shows it. Pure: reads JSON of ``feasibility.placed``.

Sets that got what they asked for are counted; those that did not are told one by one, the worst first.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pages.workflows.words import Look, set_words
from scheduling.sentences import count_of, plain_listing
from web.times import read_instant

MOST_MISSED = 20
MOST_DOMAINS = 5

_LOOKS = {
    "match": Look("match", "As asked", "✓", "good"),
    "degraded": Look("degraded", "A preference was missed", "▲", "warn"),
    "violation": Look("violation", "A requirement does not hold", "✕", "bad"),
}
_WORST = ("violation", "degraded", "match")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGot:
    """A set, or several that got what they asked for; ``where`` are the domains with the tasks in each."""

    asked: str
    look: Look
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGot:
    group: str
    look: Look
    at: datetime | None
    sets: tuple[SetGot, ...]
    more: int


def group_got(group: str, kept: Mapping[str, Any] | None) -> GroupGot | None:
    """None for a group that was not placed yet, or asked for nothing."""
    if not kept:
        return None
    sets: Sequence[Mapping[str, Any]] = kept["sets"]
    missed = [one for one in sets if one["outcome"] != "match"]
    missed.sort(key=lambda one: _WORST.index(one["outcome"]))
    had = _had([one for one in sets if one["outcome"] == "match"])
    told = tuple(map(_missed, missed[:MOST_MISSED]))
    return GroupGot(
        group=group,
        look=_LOOKS[kept["outcome"]],
        at=read_instant(kept.get("at")),
        sets=(*told, *had),
        more=max(0, len(missed) - MOST_MISSED),
    )


def _had(sets: Sequence[Mapping[str, Any]]) -> list[SetGot]:
    """Sets that stand together as asked, those of one key in one line."""
    by_key = Counter((one["key"], one["required"]) for one in sets)
    found = []
    for (key, required), number in by_key.items():
        domains = [one["domains"] for one in sets if (one["key"], one["required"]) == (key, required)]
        where = Counter("/".join(each["path"]) for listed in domains for each in listed)
        asked = f"One {key} {_kind(required)}" + (f", for each of {number} sets" if number > 1 else "")
        found.append(SetGot(asked=asked, look=_LOOKS["match"], where=_where(list(where), len(where))))
    return found


def _missed(one: Mapping[str, Any]) -> SetGot:
    domains = [f"{'/'.join(each['path'])} ({count_of(each['tasks'], 'task')})" for each in one["domains"]]
    where = _where(domains, one["domain_count"])
    if one["outside"]:
        where += f"; {count_of(one['outside'], 'task')} on nodes without the label"
    return SetGot(
        asked=f"One {one['key']} {_kind(one['required'])}, for set {set_words(one['path'])}",
        look=_LOOKS[one["outcome"]],
        where=where,
    )


def _kind(required: object) -> str:
    return "required" if required else "preferred"


def _where(domains: Sequence[str], number: int) -> str:
    return plain_listing(domains, limit=MOST_DOMAINS, total=number)
