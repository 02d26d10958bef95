"""What captured SQL statements do to the database."""

import re
from collections.abc import Iterable, Mapping

_READ = re.compile(r"\s*(SELECT|WITH)\b")
_WRITE = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE)\b")


def writing(queries: Iterable[Mapping[str, str]]) -> list[str]:
    """The statements that may write; a read begins with SELECT or WITH and has no word of a write."""
    statements = [query["sql"] for query in queries]
    return [sql for sql in statements if not _READ.match(sql) or _WRITE.search(sql)]
