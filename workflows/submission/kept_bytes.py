"""Bounds on what is kept of the documents that users send.

A document is kept as it was rendered and, for ``GET .../spec?use_template``, as it was sent; its tasks are
kept as they become pods. A text of comments costs nothing to run, so neither the number of submissions nor
that of tasks bounds its bytes: each text has a bound of its own, and each user one for a day. The day's bytes
come back steadily, so a user who has none left waits for as many as the document needs, not for midnight.
"""

from collections.abc import Sequence

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser

from scheduling.errors import Busy, Fault, InvalidSpec
from web.limits.rate_limits import take_amount

DAY_SECONDS = 86_400
LOWEST = 1024
"""Bytes that every submission counts at least: its rows, and the counter of its name, which stays."""


def check_document(*texts: str) -> None:
    """Raise InvalidSpec for a text that is longer than is kept."""
    most = settings.ENV.document_bytes
    for text in texts:
        size = len(text.encode(errors="surrogatepass"))
        if size > most:
            message = (
                f"The document has {size} bytes; at most {most} are kept of one (OSMO_DOCUMENT_BYTES). Put "
                "large files into a volume or the image."
            )
            raise InvalidSpec(message, [Fault((), "too_large", message)])


def take_bytes(user: AbstractBaseUser, *, texts: Sequence[str], objects: int) -> None:
    """Count what will be kept of a user's workflow. Raises Busy where it is more than the day has left."""
    most = settings.ENV.user_bytes_per_day
    size = max(LOWEST, objects + sum(len(text.encode(errors="surrogatepass")) for text in texts))
    wait = take_amount(f"kept-bytes:user:{user.pk}", amount=size, most=most, seconds=DAY_SECONDS)
    if wait is not None:
        raise Busy(
            f"This workflow would add {size} bytes to what is kept of yours; {most} are kept in a day "
            "(OSMO_USER_BYTES_PER_DAY). Nothing was accepted: submit again later.",
            retry_after=wait,
        )
