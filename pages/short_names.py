"""The part of a name by which people tell it from its siblings: ``node-13`` of a long host name. Pure.

Names of machines and places share most of their letters with those beside them. The words that all share at
either end are left out, in whole: a word ends at one of ``. - _ / :``. No two names become the same.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

_ENDS = ".-_/:"


class ShortName(NamedTuple):
    """A name in three: its distinct part, and what stands before and after that."""

    before: str
    part: str
    after: str = ""

    def __str__(self) -> str:
        return "".join(self)


def short_names(names: Sequence[str], *, within: str = "") -> list[ShortName]:
    """Each name by its distinct part; that of a single one is what the name of its place does not say.

    A number or a letter keeps the word before it, since alone it names nothing.
    """
    distinct = {*names}
    if len(distinct) < 2:
        return [_alone(name, within=within) for name in names]
    start = _shared(distinct)
    end = _shared([name[start:][::-1] for name in distinct])
    if any(len(part := name[start : len(name) - end]) == 1 or part.isdigit() for name in distinct):
        start = _after_word(names[0][: max(0, start - 1)])
    return [ShortName(name[:start], name[start : len(name) - end], name[len(name) - end :]) for name in names]


def _alone(name: str, *, within: str) -> ShortName:
    start = _shared([name, f"{within}{name[len(within) :][:1]}\0"])
    return ShortName(name[:start], name[start:])


def domain_names(paths: Sequence[Sequence[str]]) -> list[ShortName]:
    """As each alone, or by their paths where two would be alike."""
    names = [domain_name(path) for path in paths]
    if len({name.part for name in names}) < len({*map(tuple, paths)}):
        return [ShortName("", str(name)) for name in names]
    return names


def domain_name(path: Sequence[str]) -> ShortName:
    """A domain by what its own value adds to that of the place around it. An empty path is the pool's."""
    *around, value = path or ("the whole pool",)
    own = _alone(value, within=around[-1] if around else "")
    return own._replace(before="".join(f"{place}/" for place in around) + own.before)


def _shared(names: Collection[str]) -> int:
    """How many letters at the beginning all share, in whole words, so that something is left of each."""
    first, last = min(names), max(names)
    differs = (at for at, (low, high) in enumerate(zip(first, last, strict=False)) if low != high)
    shared = first[: next(differs, len(first))]
    end = _after_word(shared)
    return _after_word(shared[: end - 1]) if end and end == min(map(len, names)) else end


def _after_word(text: str) -> int:
    """Where the last word of a text that has an end ends."""
    return 1 + max(map(text.rfind, _ENDS))
