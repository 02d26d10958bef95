"""Numbers of workflows: ``train-7`` is given once, also after its workflow was removed.

The counter of a base name is a row that outlives its workflows.
"""

from django.db import connection

_TAKE = """
    INSERT INTO workflows_namecounter AS counter (base_name, last) VALUES (%s, 1)
        ON CONFLICT (base_name) DO UPDATE SET last = counter.last + 1
 RETURNING last
"""


def next_name(base: str) -> str:
    """The name that a workflow would get now; certain only once its number is taken."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT last FROM workflows_namecounter WHERE base_name = %s", [base])
        (last,) = cursor.fetchone() or (0,)
        return f"{base}-{last + 1}"


def take_number(base: str) -> int:
    """Take the next number of a base name; other submissions of the name wait until the commit."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [base])
        return int(cursor.fetchone()[0])
