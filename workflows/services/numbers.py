"""Numbers of workflows: ``train-7`` is given once, also after its workflow was removed.

The counter of a base name is a row that outlives its workflows. Until a name has its row, and while a release
without counters still runs beside this one, the highest number among its workflows counts as well.
"""

from collections.abc import Iterable

from django.db import connection

LOCK = 0x6F73_6D6F
"""First key of the advisory locks on base names; the second is the hash of the name."""

_LAST = """
    SELECT greatest((SELECT last FROM workflows_namecounter WHERE base_name = %(base)s),
                    (SELECT max(number) FROM workflows_workflow WHERE base_name = %(base)s), 0)
"""
_TAKE = f"""
    INSERT INTO workflows_namecounter AS counter (base_name, last) VALUES (%(base)s, ({_LAST}) + 1)
        ON CONFLICT (base_name) DO UPDATE SET last = greatest(counter.last + 1, excluded.last)
 RETURNING last
"""  # noqa: S608 -- constants
_KEEP = """
    INSERT INTO workflows_namecounter AS counter (base_name, last)
    SELECT base_name, max(number) FROM workflows_workflow WHERE base_name = ANY(%(bases)s)
     GROUP BY base_name ORDER BY base_name
        ON CONFLICT (base_name) DO UPDATE SET last = excluded.last WHERE counter.last < excluded.last
"""


def next_name(base: str) -> str:
    """The name that a workflow would get now; certain only once its number is taken."""
    with connection.cursor() as cursor:
        cursor.execute(_LAST, {"base": base})
        return f"{base}-{cursor.fetchone()[0] + 1}"


def take_number(base: str) -> int:
    """Take the next number of a base name; other submissions of the name wait until the commit."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [LOCK, base])
        cursor.execute(_TAKE, {"base": base})
        return int(cursor.fetchone()[0])


def keep_numbers(bases: Iterable[str]) -> None:
    """Write the counters of these base names before workflows of theirs are removed. Commit it first.

    In the transaction of the removal it could meet a submission that holds the counter and waits for an
    idempotency key of a removed workflow.
    """
    names = sorted(set(bases))
    if names:
        with connection.cursor() as cursor:
            cursor.execute(_KEEP, {"bases": names})
