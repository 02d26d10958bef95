"""Parts of workflows' names, found by an index.

An ordinary index has no substrings, so a search for a name that few workflows have would read all of them.
The index has, for each name, the three characters that begin at each of its places; a name contains a text
only if it has all parts of that text. PostgreSQL's own functions make the parts, so no extension is needed:
``pg_trgm`` would do the same, and not every PostgreSQL has it.
"""

import re

from django.contrib.postgres.search import SearchVectorField
from django.db.models import BooleanField, F, Func, Q, Value
from django.db.models.functions import Lower

PART = 3
_READABLE = re.compile(r"[a-z0-9_-]+", re.ASCII)
_FROM = r"regexp_replace(substr(lower(%(expressions)s), {}), '(...)', '\1 ', 'g')"


NAME_PARTS = Func(
    F("name"),
    template="array_to_tsvector(array_remove(string_to_array("
    + " || ' ' || ".join(_FROM.format(place) for place in range(1, PART + 1))
    + ", ' '), ''))",
    output_field=SearchVectorField(),
)
"""The parts of a name as a tsvector; shorter ones are its last characters."""


class _HasParts(Func):
    template = "%(expressions)s::tsquery"
    arg_joiner = " @@ "
    output_field = BooleanField()
    conditional = True


class _IsContained(Func):
    """LIKE would say the same, and PostgreSQL would guess that few names match it beside their parts."""

    template = "strpos(%(expressions)s) > 0"
    output_field = BooleanField()
    conditional = True


def name_contains(text: str) -> Q:
    """Workflows whose name contains a text, in whatever case."""
    needle = text.lower()
    if not _READABLE.fullmatch(needle):
        return Q(pk__in=())  # no name has such a character
    parts = {needle[place : place + PART] for place in range(len(needle) - PART + 1)}
    query = " & ".join(f"'{part}'" for part in sorted(parts)) or f"'{needle}':*"
    return Q(_HasParts(NAME_PARTS, Value(query))) & Q(_IsContained(Lower("name"), Value(needle)))
