"""Answers that are made piece by piece: their length does not show in the memory of the process.

A piece is made in the caller's turn, when the client has taken those before it. So no more than a piece is in
memory, a slow client keeps neither a thread nor a database connection, and a user who reads much at once
takes no more of a process than with one request. Each piece reads the database anew: its rows are of one
moment, those of the next piece of a later one. An answer that cannot be finished, for example since its
workflow was removed meanwhile, is cut off, which every client takes for an error.

Rejected: one transaction for the whole answer, whose connection a client would keep for as long as it likes.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from django.db import close_old_connections, connection
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from web.limits.turns import turn

PIECE_CHARACTERS: Final = 128 * 1024
JSON = "application/json"


class PiecewiseResponse(StreamingHttpResponse):
    """An answer whose pieces are made in turns of ``turn_user``, by ``web.server``."""

    def __init__(self, pieces: Iterable[bytes], *, turn_user: str, content_type: str) -> None:
        super().__init__(pieces, content_type=content_type)
        self.turn_user = turn_user


def json_answer(texts: Iterable[str], *, is_long: bool, user: str) -> HttpResponseBase:
    """An answer of JSON in parts: whole, or piece by piece where it is long. Raises Busy or Parked."""
    pieces = _pieces(texts)
    if not is_long:
        return HttpResponse(b"".join(pieces), content_type=JSON)
    with turn(user):
        first = next(pieces)
    return PiecewiseResponse(chain([first], pieces), turn_user=user, content_type=JSON)


def _pieces(texts: Iterable[str]) -> Iterator[bytes]:
    """The texts in pieces of some size, each made by any thread, whose connection may have aged."""
    parts: list[str] = []
    size = 0
    for text in texts:
        parts.append(text)
        size += len(text)
        if size >= PIECE_CHARACTERS:
            yield _encoded(parts)
            if not connection.in_atomic_block:  # else its caller's transaction keeps it
                close_old_connections()
            parts, size = [], 0
    if parts:
        yield _encoded(parts)


def _encoded(parts: Iterable[str]) -> bytes:
    return "".join(parts).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode()  # as DRF does
