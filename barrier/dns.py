"""Whether names have addresses, asked of the DNS servers of a resolv.conf.

A client of its own, because the system's waits for one name at a time, looks for each below every search
domain in both families and cannot be stopped: a gang of a thousand would take minutes. Here a batch of
queries is on the way at once, and the form of the name that has an address (search domain and family) is
learned from the pod's own name.

Answers are counted, never followed, so neither a truncated nor a forged one leads anywhere.
"""

import secrets
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

A, AAAA = 1, 28
_HEADER = struct.Struct("!6H")
_RECURSE, _REPLY, _TRUNCATED, _CODE = 0x0100, 0x8000, 0x0200, 0x000F
_NAME_ERROR, _LONGEST_LABEL = 3, 63
MOST_SERVERS, MOST_DATAGRAM = 3, 65535


class DnsAnswer(Enum):
    """``SILENT``: no server gave a usable reply in time."""

    ADDRESS = "address"
    NONE = "none"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class NameForm:
    """How a name becomes a question: what is put behind it, and the family of its address."""

    suffix: str
    family: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsResolver:
    """The servers, search domains and ``ndots`` of a resolv.conf."""

    servers: tuple[str, ...]
    search: tuple[str, ...] = ()
    ndots: int = 1
    port: int = 53

    @classmethod
    def read(cls, path: Path, *, port: int = 53) -> "DnsResolver":
        """Read a resolv.conf. Raises OSError, and ValueError for one without a server."""
        servers: list[str] = []
        search: tuple[str, ...] = ()
        ndots = 1
        for line in path.read_text(errors="replace").splitlines():
            match line.split("#")[0].split():
                case ["nameserver", server, *_]:
                    servers.append(server)
                case ["search" | "domain", *domains]:
                    search = tuple(domain.strip(".") for domain in domains if domain.strip("."))
                case ["options", *options]:
                    ndots = next(
                        (int(o[6:]) for o in options if o[:6] == "ndots:" and o[6:].isdigit()), ndots
                    )
        if not servers:
            raise ValueError(f"{path} names no DNS server")
        return cls(servers=tuple(servers[:MOST_SERVERS]), search=search, ndots=ndots, port=port)

    def forms(self, name: str) -> Iterator[NameForm]:
        """The forms in which a name is looked for, in the order of the system's resolver."""
        behind = [f".{domain}" for domain in self.search]
        suffixes = ["", *behind] if name.count(".") >= self.ndots else [*behind, ""]
        for suffix in suffixes:
            yield NameForm(suffix, A)
            yield NameForm(suffix, AAAA)

    def ask(self, names: Sequence[str], form: NameForm, *, seconds: float) -> dict[str, DnsAnswer]:
        """Look all names up in one form; a server that leaves names open is followed by the next one."""
        answers = dict.fromkeys(names, DnsAnswer.SILENT)
        until = time.monotonic() + seconds
        for number, server in enumerate(self.servers):
            silent = [name for name, answer in answers.items() if answer is DnsAnswer.SILENT]
            share = (until - time.monotonic()) / (len(self.servers) - number)
            if not silent or share <= 0:
                break
            answers |= _exchange((server, self.port), silent, form, seconds=share)
        return answers


def _exchange(
    server: tuple[str, int], names: Sequence[str], form: NameForm, *, seconds: float
) -> dict[str, DnsAnswer]:
    """One datagram for each name, and the replies that come in time."""
    answers: dict[str, DnsAnswer] = {}
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            *server, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
        )[0]
        with socket.socket(family, kind, protocol) as channel:
            channel.connect(address)
            _converse(channel, names, form, answers, until=time.monotonic() + seconds)
    except OSError:
        pass  # unreachable or refused: those without an answer stay silent
    return answers


def _converse(
    channel: socket.socket,
    names: Sequence[str],
    form: NameForm,
    answers: dict[str, DnsAnswer],
    *,
    until: float,
) -> None:
    first = secrets.randbelow(1 << 16)
    waiting: dict[int, tuple[str, bytes]] = {}
    for place, name in enumerate(names):
        question = _question(name + form.suffix, form.family)
        if question is None:
            answers[name] = DnsAnswer.NONE
            continue
        number = (first + place) % (1 << 16)
        waiting[number] = name, question
        channel.send(_HEADER.pack(number, _RECURSE, 1, 0, 0, 0) + question)
    while waiting and (left := until - time.monotonic()) > 0:
        channel.settimeout(left)
        number, answer = _read(channel.recv(MOST_DATAGRAM), waiting)
        if answer is not DnsAnswer.SILENT:
            answers[waiting.pop(number)[0]] = answer


def _question(name: str, family: int) -> bytes | None:
    """The question's bytes; None for a name that DNS cannot hold."""
    labels = [label.encode("ascii", "replace") for label in name.strip(".").split(".")]
    packed = b"".join(bytes([len(label)]) + label for label in labels if len(label) <= _LONGEST_LABEL)
    if not all(0 < len(label) <= _LONGEST_LABEL for label in labels) or len(packed) > 254:
        return None
    return packed + b"\0" + struct.pack("!2H", family, 1)


def _read(reply: bytes, waiting: Mapping[int, tuple[str, bytes]]) -> tuple[int, DnsAnswer]:
    """The number of a reply and what it says; SILENT for one that is no answer to a question of ours."""
    if len(reply) < _HEADER.size:
        return 0, DnsAnswer.SILENT
    number, flags, _, count, _, _ = _HEADER.unpack_from(reply)
    pending = waiting.get(number)
    if pending is None or not flags & _REPLY:
        return number, DnsAnswer.SILENT
    question = pending[1]
    if reply[_HEADER.size : _HEADER.size + len(question)].lower() != question.lower():
        return number, DnsAnswer.SILENT
    code = flags & _CODE
    if code == 0:
        return number, DnsAnswer.ADDRESS if count or flags & _TRUNCATED else DnsAnswer.NONE
    return number, DnsAnswer.NONE if code == _NAME_ERROR else DnsAnswer.SILENT
