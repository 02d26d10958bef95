"""How callers speak in a session of exec: OSMO's client in its way, ours in the channels of Kubernetes. Pure.

OSMO's client sends the size of its terminal first and bytes then; it takes binary messages alone, an empty
one for the end, and waits with everything until the first has come. It learns no exit code. Whoever offers
the subprotocol of Kubernetes gets its messages as they are: a byte that names the channel, and data.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, Protocol

from cluster.pod_channels import CLOSE, END, EXEC_PROTOCOLS, RESIZE, STDERR, STDIN, STDOUT
from cluster.storable import decode
from scheduling.sentences import one_line
from workflows.logs.text import LineCutter

Packet = tuple[int, bytes]

CHANNELS: Final = EXEC_PROTOCOLS[0]
"""The subprotocol of our command."""

RESIZE_PREFIX: Final = b"\0RESIZE:"
MOST_SIZE = 65_535
END_OF_INPUT: Packet = (CLOSE, bytes((STDIN,)))


class BadSize(Exception):
    """The first message is no terminal's size."""


class ExecCaller(Protocol):
    """One caller's way of speaking."""

    needs_size: bool
    """Whether the first message is the terminal's size."""

    def packets(self, message: bytes) -> Iterator[Packet]:
        """What a message of the caller is to the task. Raises BadSize for a first one that is none."""

    def began(self) -> bytes:
        """What to send once the command runs; empty for nothing."""

    def messages(self, channel: int, data: bytes) -> Iterator[bytes]:
        """What output of the task is to the caller."""

    def last_messages(self, sentence: str, status: dict[str, Any] | None) -> Iterator[bytes]:
        """What the caller gets at the end: a sentence, or the command's own status."""


class OsmoCaller:
    """OSMO's client; ``lines``: one of several sockets of a group, each message lines of text."""

    needs_size = True

    def __init__(self, *, lines: bool) -> None:
        self._cutter = LineCutter() if lines else None
        self._is_first = True

    def packets(self, message: bytes) -> Iterator[Packet]:
        if self._is_first:
            self._is_first = False
            yield from _resize(message)
        elif message.startswith(RESIZE_PREFIX):
            try:
                yield from _resize(message.removeprefix(RESIZE_PREFIX))
            except BadSize:
                yield STDIN, message
        elif message:
            yield STDIN, message

    def began(self) -> bytes:
        return b"" if self._cutter else b"\0"  # a terminal shows nothing for it

    def messages(self, channel: int, data: bytes) -> Iterator[bytes]:
        if channel not in {STDOUT, STDERR} or not data:
            return
        if self._cutter is None:
            yield data
        elif lines := self._cutter.lines(data):
            yield _text(lines)

    def last_messages(self, sentence: str, status: dict[str, Any] | None) -> Iterator[bytes]:
        if self._cutter is not None and (rest := self._cutter.rest()):
            yield _text(rest)
        if sentence := sentence or _failure(status):
            yield f"{sentence}\r\n".encode()


class ChannelCaller:
    """Our command: channels both ways, the end included."""

    needs_size = False

    def packets(self, message: bytes) -> Iterator[Packet]:
        if message == bytes((CLOSE, STDIN)):
            yield END_OF_INPUT
        elif message[:1] and message[0] in {STDIN, RESIZE}:
            yield message[0], message[1:]

    def began(self) -> bytes:
        return bytes((STDOUT,))

    def messages(self, channel: int, data: bytes) -> Iterator[bytes]:
        if data and channel in {STDOUT, STDERR}:
            yield bytes((channel,)) + data

    def last_messages(self, sentence: str, status: dict[str, Any] | None) -> Iterator[bytes]:
        if sentence or status is None:
            status = {"kind": "Status", "status": "Failure", "reason": "SessionEnded", "message": sentence}
        yield bytes((END,)) + json.dumps(status).encode()


def read_status(data: bytes) -> dict[str, Any]:
    """The ``Status`` with which a command ended; of what is none, a failure that says so."""
    try:
        status = decode(data)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        return {"kind": "Status", "status": "Failure", "message": "The cluster gave no reason for the end."}
    return status


def _failure(status: dict[str, Any] | None) -> str:
    if status is None or status.get("status") == "Success":
        return ""
    return one_line(str(status.get("message") or "the command failed"))


def _resize(message: bytes) -> Iterator[Packet]:
    """A size as the cluster takes it; nothing for a terminal without one. Raises BadSize."""
    try:
        size = json.loads(message)
        rows, columns = int(size["Rows"]), int(size["Cols"])
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise BadSize from error
    if 0 < rows <= MOST_SIZE and 0 < columns <= MOST_SIZE:
        yield RESIZE, json.dumps({"Width": columns, "Height": rows}).encode()


def _text(lines: list[bytes]) -> bytes:
    """Whole lines that are text, since OSMO's client decodes each message by itself."""
    return b"".join(line.rstrip(b"\r") + b"\n" for line in lines).decode(errors="replace").encode()
