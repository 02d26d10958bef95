"""Values that are read otherwise than they may be meant: accepted as OSMO does, with a notice.

YAML 1.1 reads ``no`` as False, ``3.10`` as 3.1, ``0755`` as 493 and ``12:30:45`` as 45045, and the grammar
makes text of them again. An amount without a unit is one of bytes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pools.documents.yaml_text import LocatedText, ParsedDocument, Respelling
from scheduling.errors import Fault, Notice, Path, format_path
from scheduling.sentences import count_of
from workflows.spec.grammar import FLAGS, NUMBERS, ResourceModel
from workflows.spec.syntax import quoted, tiny_amount

MOST = 20
"""Notices of one kind; a longer list is read by nobody."""

_FREE = frozenset({"environment", "labels", "credentials", "default-values"})
"""Mappings whose keys are the user's, so that a key is no name of a field."""


def doubts(
    respellings: Iterable[Respelling], resources: Iterable[ResourceModel], places: LocatedText
) -> Iterator[Notice]:
    """The notices of a document, each with its line."""
    respellings = [each for each in respellings if _is_doubtful(each)]
    for each in respellings[:MOST]:
        more = f" and {count_of(each.count - 1, 'other place')}" if each.count > 1 else ""
        yield _notice(places, each.path, f"{format_path(each.path)}{more} {_both_readings(each)}")
    if (others := len(respellings) - MOST) > 0:
        message = f"YAML 1.1 reads {count_of(others, 'other value')} otherwise than written."
        yield Notice("doubt", message)
    for resource in resources:
        for kind in ("memory", "storage"):
            path = (*resource.path, kind)
            if predicate := tiny_amount(getattr(resource, kind)):
                yield _notice(places, path, f"{format_path(path)} {predicate}")


def with_readings(faults: Iterable[Fault], document: ParsedDocument) -> list[Fault]:
    """Faults, those of a value that is read otherwise than written with both readings."""
    by_path = {each.path: each for each in document.respellings if _is_doubtful(each)}
    return [
        replace(fault, message=f"{fault.message} It {_both_readings(each)}")
        if (each := by_path.get(fault.path))
        else fault
        for fault in faults
    ]


def _notice(places: LocatedText, path: Path, message: str) -> Notice:
    ((line, _),) = places.locate_all([path])
    return Notice("doubt", f"Line {line}: {message}", path)


def _both_readings(each: Respelling) -> str:
    written = quoted(each.written)
    return (
        f"is written {each.written[:63]}, which YAML 1.1 reads as {str(each.value)[:63]}. "
        f"Write {written}, with quotes, to keep what is written."
    )


def _is_doubtful(each: Respelling) -> bool:
    """Whether the field gets another value than is written: no flag does, and few numbers."""
    name = each.path[-1] if each.path and not _FREE.intersection(each.path[-3:-1]) else ""
    of_template = each.path[:1] == ("default-values",)
    if isinstance(each.value, bool):
        return each.written not in {"true", "false"} if of_template else name not in FLAGS
    if name not in NUMBERS and not of_template:
        return True
    try:
        return int(each.written, base=0) != each.value
    except ValueError:
        return True
