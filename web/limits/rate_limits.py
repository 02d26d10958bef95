"""Rate limits, counted in Postgres (``models.RateBucket``).

A *bucket* is one row: the moment at which it will be empty again. Each use moves that moment on by one
interval. A use that would move it more than a minute ahead is refused, with the time to wait. One statement
decides, on the database's clock, so all web processes count together (the generic cell rate algorithm).
Rejected: Redis. The limited actions need Postgres anyway, so there is no question of failing open or closed,
a flushed Redis forgets no limit, and no request waits for a second server's timeout.
"""

import math

from django.db import connection

_PERIOD = 60.0
_STALE_AT_ONCE = 200

_TAKE = """
INSERT INTO web_ratebucket AS bucket (key, clear_at)
VALUES (%(key)s, statement_timestamp() + %(step)s * interval '1 second')
ON CONFLICT (key) DO UPDATE
SET clear_at = greatest(bucket.clear_at, statement_timestamp()) + %(step)s * interval '1 second'
WHERE greatest(bucket.clear_at, statement_timestamp()) + %(step)s * interval '1 second'
      <= statement_timestamp() + %(period)s * interval '1 second'
RETURNING xmax = 0  -- whether the row is new
"""

_WAIT = """
SELECT extract(epoch FROM clear_at - statement_timestamp()) + %(step)s - %(period)s
FROM web_ratebucket WHERE key = %(key)s
"""

_SWEEP = """
DELETE FROM web_ratebucket WHERE key IN (
    SELECT key FROM web_ratebucket WHERE clear_at < statement_timestamp()
    ORDER BY clear_at LIMIT %(most)s FOR UPDATE SKIP LOCKED
)
"""


_GIVE_BACK = """
UPDATE web_ratebucket
SET clear_at = clear_at - %(step)s * interval '1 second'
WHERE key = %(key)s AND clear_at > statement_timestamp()
"""


def take(key: str, *, per_minute: int) -> int | None:
    """Use a bucket once. None if that was within the limit, else the seconds until it may be tried again.

    A ``per_minute`` of 0 is no limit. A minute's worth may be used at once. One query, two if refused or
    if the bucket is new: a new row also deletes rows that are empty again, so there are never many more
    than callers of the last minute.
    """
    if per_minute == 0:
        return None
    return _take(_values(key, per_minute))


def take_amount(key: str, *, amount: int, most: int, seconds: int) -> int | None:
    """Use an amount of a bucket that holds ``most`` and fills again in so many seconds; as ``take``.

    An amount that is larger than the bucket is never given. A ``most`` of 0 is no limit.
    """
    if most == 0:
        return None
    if amount > most:
        return seconds
    return _take({"key": key[:255], "step": amount * seconds / most, "period": seconds})


def _take(values: dict[str, str | float]) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, values)
        if bucket := cursor.fetchone():
            if bucket[0]:
                cursor.execute(_SWEEP, {"most": _STALE_AT_ONCE})
            return None
        cursor.execute(_WAIT, values)
        row = cursor.fetchone()
    return max(1, math.ceil(row[0])) if row else 1


def give_back(key: str, *, per_minute: int) -> None:
    """Undo one ``take``: a request counted while its outcome was unknown is not to count."""
    if per_minute:
        with connection.cursor() as cursor:
            cursor.execute(_GIVE_BACK, _values(key, per_minute))


def _values(key: str, per_minute: int) -> dict[str, str | float]:
    return {"key": key[:255], "step": _PERIOD / per_minute, "period": _PERIOD}
