"""Lists, counts and plurals in sentences, for every text that people read.

A list names a few things and counts the rest, so that a message stays short however many there are.
"""

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def listing(words: Iterable[str], *, limit: int = 5) -> str:
    """Quote words in a sentence: ``"a", "b" and 3 more``."""
    return plain_listing([f'"{word}"' for word in words], limit=limit)


def plain_listing(words: Iterable[str], *, limit: int = 5, total: int | None = None) -> str:
    """Name words without quotes: ``a, b and 3 more``. ``total`` counts also those that ``words`` lacks."""
    words = list(words)
    named, others = words[:limit], (len(words) if total is None else total) - min(len(words), limit)
    if others > 0:
        return f"{', '.join(named)} and {others} more"
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


def first(items: Sequence[T], limit: int) -> tuple[Sequence[T], str]:
    """The first items, and ``and 3 more`` for the others; empty if there are none."""
    others = len(items) - limit
    return items[:limit], f"and {others} more" if others > 0 else ""


def count_of(number: int, noun: str) -> str:
    """``1 task``, ``3 tasks``."""
    return f"{number:,} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """``task`` for one, ``tasks`` for any other number."""
    return noun if number == 1 else f"{noun}s"


def in_seconds(seconds: float) -> str:
    """``1 second``, ``0.5 seconds``, ``2592000 seconds``: as in a setting, never in powers of ten."""
    return f"{seconds:.10g} {'second' if seconds == 1 else 'seconds'}"


def agree(number: int, singular: str, several: str) -> str:
    """The form of a verb or pronoun that goes with a number: ``waits`` or ``wait``."""
    return singular if number == 1 else several


def as_sentence(text: str) -> str:
    """The text as a sentence; a scheduler's words come without a full stop."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def did_you_mean(word: str, words: Sequence[str]) -> str:
    """`` Did you mean "rack"?``: the word that is most like it, in whatever case; empty if none is."""
    by_letters = {each.casefold(): each for each in words}
    near = difflib.get_close_matches(word[:63].casefold(), by_letters, n=1)
    return f' Did you mean "{by_letters[near[0]]}"?' if near else ""


def character(sign: str) -> str:
    """``a no-break space (U+00A0)``, for a character that cannot be shown as itself."""
    name = "tab" if sign == "\t" else unicodedata.name(sign, "character").lower()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name} (U+{ord(sign):04X})"


def printable(text: str) -> str:
    """A text with the escapes of what a terminal would obey or hide."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """The same in one line, so that it forges no further one."""
    return printable(" ".join(text.split()))
