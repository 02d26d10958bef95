"""A topology assignment as Kueue's v1beta2 writes it: by level, with what all values share written once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from localcluster.standins.kueue.values import Assignment

Json = Mapping[str, Any]


def encode(assignment: Assignment) -> dict[str, Any]:
    """One slice with all domains, in order."""
    counts = [pods for _, pods in assignment.domains]
    columns = zip(*(values for values, _ in assignment.domains), strict=True)
    same = len(set(counts)) == 1
    return {
        "levels": list(assignment.levels),
        "slices": [
            {
                "domainCount": len(counts),
                "podCounts": {"universal": counts[0]} if same else {"individual": counts},
                "valuesPerLevel": [_values(column) for column in columns],
            }
        ],
    }


def decode(body: Json) -> Assignment:
    """The domains of all slices, in order."""
    domains = [domain for each in body["slices"] for domain in _domains(each)]
    return Assignment(tuple(body["levels"]), tuple(domains))


def _values(column: Sequence[str]) -> dict[str, Any]:
    if len(set(column)) == 1:
        return {"universal": column[0]}
    prefix = _shared(column)
    rests = [value[len(prefix) :] for value in column]
    suffix = _shared([rest[::-1] for rest in rests])[::-1]
    roots = [rest[: len(rest) - len(suffix)] for rest in rests]
    shared = {name: text for name, text in (("prefix", prefix), ("suffix", suffix)) if text}
    return {"individual": {**shared, "roots": roots}}


def _shared(words: Sequence[str]) -> str:
    """The longest common beginning."""
    first, last = min(words), max(words)
    differs = (number for number, letter in enumerate(first) if letter != last[number])
    return first[: next(differs, len(first))]


def _domains(body: Json) -> Iterator[tuple[tuple[str, ...], int]]:
    number = body["domainCount"]
    counts = body["podCounts"].get("individual") or [body["podCounts"]["universal"]] * number
    columns = [_column(each, number) for each in body["valuesPerLevel"]]
    yield from zip(zip(*columns, strict=True), counts, strict=True)


def _column(body: Json, number: int) -> list[str]:
    if "universal" in body:
        return [body["universal"]] * number
    shared = body["individual"]
    return [f"{shared.get('prefix', '')}{root}{shared.get('suffix', '')}" for root in shared["roots"]]
