"""``python -m barrier``: wait for the addresses of a task's peers, then let its command start.

``--peers`` is a file with a line for each task of the gang, its host name and the name that its user gave it;
``--ended`` one with the host names of tasks that have ended, read anew each time, because whoever ends
leaves DNS for good. A peer counts from the first time that its name has an address.

Each process looks at few missing names at a time, begins behind its own in the list, and waits longer while
nothing changes, so a large gang whose last pod is late asks little of the cluster's DNS.
"""

import argparse
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from barrier import MISCONFIGURED, NO_ADDRESS
from barrier.dns import DnsAnswer, DnsResolver, NameForm

BATCH, PEEK = 64, 8
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 4.0
REPLY_SECONDS, REPORT_SECONDS = 3.0, 30.0
MOST_NAMED = 10


@dataclass(slots=True, kw_only=True)
class Barrier:
    """The wait of one task. ``missing`` are peers without an address yet: host names to users' names."""

    resolver: DnsResolver
    host: str
    domain: str
    ended: Path
    missing: dict[str, str]
    total: int = 0
    form: NameForm | None = None
    silent: bool = False
    _pause: float = field(default=FIRST_PAUSE)

    def wait(self, *, until: float) -> bool:
        """Wait until no peer is missing; False if the time is over before."""
        self.total = len(self.missing)
        report_at = time.monotonic() + REPORT_SECONDS
        while True:
            all_there = self._examine(BATCH if self._pause == FIRST_PAUSE else PEEK)
            if not self.missing:
                return True
            now = time.monotonic()
            if now >= until:
                self._examine(len(self.missing))  # so that those who are named are all who are missing
                return not self.missing
            if now >= report_at:
                print(f"{self.total - len(self.missing)} of {self.total} peers have an address.", flush=True)
                report_at = now + REPORT_SECONDS
            if all_there:
                self._pause = FIRST_PAUSE
                continue
            time.sleep(min(self._pause * random.uniform(0.7, 1.3), until - now))  # noqa: S311 -- sets peers apart
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _examine(self, most: int) -> bool:
        """Look this many names up; returns whether all of them have an address."""
        for host in _words(self.ended):
            self.missing.pop(host, None)
        if self.form is None:
            self.form = self._own_form()
        if self.form is None:
            return False
        hosts = list(self.missing)[:most]
        answers: dict[str, DnsAnswer] = {}
        for first in range(0, len(hosts), BATCH):
            names = [self._name(host) for host in hosts[first : first + BATCH]]
            answers |= self.resolver.ask(names, self.form, seconds=REPLY_SECONDS)
        self.silent = bool(answers) and all(answer is DnsAnswer.SILENT for answer in answers.values())
        for host in hosts:
            if answers[self._name(host)] is DnsAnswer.ADDRESS:
                del self.missing[host]
        return all(answer is DnsAnswer.ADDRESS for answer in answers.values())

    def _own_form(self) -> NameForm | None:
        """The form in which this pod's own name has an address."""
        name = self._name(self.host)
        answers: list[DnsAnswer] = []
        for form in self.resolver.forms(name):
            answers.append(self.resolver.ask([name], form, seconds=REPLY_SECONDS)[name])
            if answers[-1] is DnsAnswer.ADDRESS:
                return form
            if answers == [DnsAnswer.SILENT]:
                break  # a server that is away would take as long for each form
        self.silent = all(answer is DnsAnswer.SILENT for answer in answers)
        return None

    def _name(self, host: str) -> str:
        return f"{host}.{self.domain}"

    def sentence(self) -> str:
        """The peers that are missing, with the cause where DNS itself is one."""
        names = list(self.missing.values())
        listed = ", ".join(names[:MOST_NAMED])
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        peers = f"{len(names)} of {self.total} peers had no address: {listed}{more}."
        if self.silent:
            return f"{peers} No DNS server answers ({', '.join(self.resolver.servers)})."
        if self.form is None:
            return f"{peers} Nor has this task's own name, {self._name(self.host)}."
        return peers


def read_peers(path: Path, *, host: str) -> dict[str, str]:
    """The peers in the file, those behind ``host`` first. Raises OSError, and ValueError without its line."""
    peers = dict(line.split(maxsplit=1) for line in path.read_text().splitlines() if line.strip())
    hosts = list(peers)
    if host not in peers:
        raise ValueError(f"{path} has no line for {host}")
    own = hosts.index(host)
    return {peer: peers[peer] for peer in (*hosts[own + 1 :], *hosts[:own])}


def _words(path: Path) -> Sequence[str]:
    """The words of a file that may not be there."""
    with suppress(OSError):
        return path.read_text().split()
    return ()


def duration(seconds: float) -> str:
    """Seconds in words, in whole minutes where that is exact."""
    return f"{seconds / 60:g} min" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g} s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        peers: Mapping[str, str] = read_peers(options.peers, host=options.host)
        resolver = DnsResolver.read(options.resolv_conf, port=options.dns_port)
    except (OSError, ValueError) as error:
        return _end(MISCONFIGURED, f"The start barrier cannot begin: {error}.", options.message)
    barrier = Barrier(
        resolver=resolver,
        host=options.host,
        domain=options.domain.strip("."),
        ended=options.ended,
        missing=dict(peers),
    )
    if barrier.wait(until=time.monotonic() + options.limit):
        print(f"Every peer has had an address ({barrier.total}).", flush=True)
        return 0
    return _end(NO_ADDRESS, f"After {duration(options.limit)} {barrier.sentence()}", options.message)


def _end(code: int, message: str, path: Path) -> int:
    print(message, flush=True)
    with suppress(OSError):
        path.write_text(message)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="barrier", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", type=Path, required=True, help="file with host and name of every task")
    parser.add_argument("--ended", type=Path, required=True, help="file with hosts of tasks that have ended")
    parser.add_argument("--host", required=True, help="host name of this task")
    parser.add_argument(
        "--domain", required=True, help="what stands behind host names: SERVICE.NAMESPACE.svc"
    )
    parser.add_argument("--limit", type=float, required=True, help="seconds after which it fails")
    parser.add_argument(
        "--message", type=Path, default=Path("/dev/termination-log"), help="the cause of failure"
    )
    parser.add_argument("--resolv-conf", type=Path, default=Path("/etc/resolv.conf"))
    parser.add_argument("--dns-port", type=int, default=53)
    return parser


if __name__ == "__main__":
    # the first process of a container ignores signals that it does not handle
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
