"""The text of a log: whole lines out of chunks, and what is kept of one that is too long.

Pure. Of a long log its beginning and its end are kept, a quarter and three quarters, and a line between them
says how much is missing; memory never holds more than what is kept and one chunk.
"""

import gzip
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST_LINE = 64 * 1024
MOST_UNPACKED = 64 * 2**20  # no setting keeps more; a larger log was not written by us

_STEERING = re.compile(
    rb"(?!\x1b\[[0-9;]*m)[\x00-\x08\x0a-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2(?:\x80[\xa8-\xae]|\x81[\xa6-\xa9])"
)
"""Controls but tab and the beginning of a colour; of Unicode what ends a line or turns its direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedText:
    """What is kept of a log; ``left_out`` counts the bytes that are not, ``lines`` all that were read."""

    text: bytes
    left_out: int
    lines: int


def bounded_text(chunks: Iterable[bytes], *, most: int) -> BoundedText:
    """Keep the beginning and the end of a log, at most ``most`` bytes in whole lines where there are any."""
    head, tail = bytearray(), deque[bytes]()
    head_most, tail_size, total, lines = most // 4, 0, 0, 0
    last = b"\n"
    for chunk in chunks:
        if not chunk:
            continue
        total += len(chunk)
        lines += chunk.count(b"\n")
        last = chunk[-1:]
        if (room := head_most - len(head)) > 0:
            head += chunk[:room]
        if end := chunk[max(room, 0) :]:
            tail.append(end)
            tail_size += len(end)
        while tail and tail_size - len(tail[0]) >= most - head_most:
            tail_size -= len(tail.popleft())
    lines += last != b"\n"
    if total <= most:
        return BoundedText(text=bytes(head) + b"".join(tail), left_out=0, lines=lines)
    begin = bytes(head[: head.rfind(b"\n") + 1]) or bytes(head)
    end = b"".join(tail)[-(most - head_most) :]
    end = end[end.find(b"\n") + 1 :] if b"\n" in end[:-1] else end
    return BoundedText(text=_joined(begin, end, total), left_out=total - len(begin) - len(end), lines=lines)


def _joined(begin: bytes, end: bytes, total: int) -> bytes:
    missing = total - len(begin) - len(end)
    gap = b"" if begin.endswith(b"\n") else b"\n"
    return begin + gap + f"(osmo-topology: {missing} bytes are left out here)\n".encode() + end


def pack(text: bytes) -> bytes:
    """Compress; the same text gives the same bytes."""
    return gzip.compress(text, compresslevel=6, mtime=0)


def unpack(content: bytes) -> bytes:
    """Raises OSError, EOFError or zlib.error for what is not a whole packed text."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        return file.read(MOST_UNPACKED)


def kept_in_place(line: bytes) -> bytes:
    """A line that cannot leave what stands before it: controls and ends of lines escaped, colours as is."""
    return _STEERING.sub(_escaped, line.removesuffix(b"\r"))


def _escaped(control: re.Match[bytes]) -> bytes:
    return control[0].decode().encode("unicode_escape")


class LineCutter:
    """Lines out of chunks, without their ends; one that never ends is cut."""

    def __init__(self) -> None:
        self._unfinished = b""

    def lines(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        *lines, unfinished = (self._unfinished + chunk).split(b"\n")
        while len(unfinished) > LONGEST_LINE:
            lines.append(unfinished[:LONGEST_LINE])
            unfinished = unfinished[LONGEST_LINE:]
        self._unfinished = unfinished
        return lines

    def rest(self) -> list[bytes]:
        """The last line, if it has no end."""
        return [self._unfinished] if self._unfinished else []


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a whole log."""
    cutter = LineCutter()
    for chunk in chunks:
        yield from cutter.lines(chunk)
    yield from cutter.rest()
