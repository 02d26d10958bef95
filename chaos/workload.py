"""What is submitted: small workflows of every shape, by seed, and a log of what was asked and answered.

The log has a line for each time that a request was sent, with the status of its answer, 0 for none. A request
without an answer is repeated with its Idempotency-Key, as a careful client does, if need be once more after
everything was healed.
"""

import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import urllib3

from chaos.site import Site
from localcluster.rest import Refused
from localcluster.stack import ADMIN

POOLS = ("nvlink", "nvlink", "zones", "spines", "native", "split", "queued", "owned")
NARROW = {
    "nvlink": "clique",
    "zones": "clique",
    "spines": "rack",
    "split": "rack",
    "native": "clique",
    "queued": "clique",
    "owned": "clique",
}
BROAD = {
    "nvlink": "zone",
    "zones": "zone",
    "spines": "spine",
    "split": "spine",
    "native": "zone",
    "queued": "zone",
    "owned": "zone",
}
WIDE_POOL = "native"  # the stand-in for KAI takes minutes for a cycle over thousands
CANCELLED = 0.12
TRIES = 6
PAUSE = 0.5
MORE_SLOWLY = 2.0
PATIENT = 8  # one workflow in so many waits for a place that cannot be had, and two others with two sets
PATIENT_AMONG = 160  # of the first so many: they share one pool, which ends four of them a minute
ORDERED = "ordered"  # the name of the first of these two
PINNED = "pinned"  # the other one: its second set requires a spine for good
RETURNS = "chaos-returns"  # a label of the pods of gangs that come back
RETURNING = 0.75
NESTED = 0.2  # of the gangs are two sets in one domain
SOON = "backoff: {first: 1s, limit: 4s}"
RESTART_CODE = "75"  # a rank that ends with it has its whole gang tried again
RESTART = f'RESTART_GROUP: "{RESTART_CODE}"'
SETS = ("left", "right")  # in their usual order


@dataclass(slots=True)
class Submission:
    """One workflow; ``answer`` is its name, or the status of a refusal, or empty while unknown."""

    key: str
    pool: str
    groups: int
    text: str = field(repr=False)
    cancel_after: float | None = None
    force: bool = False
    priority: str = "NORMAL"
    name: str = ""
    replies: set[str] = field(default_factory=set)  # every name that an answer had
    refused: int = 0
    attempts: int = 0
    answered_at: float = 0.0


def submissions(generator: random.Random, *, groups: int) -> list[Submission]:
    """Workflows that have ``groups`` task groups together."""
    chosen: list[Submission] = []
    more = endless(generator, prefix="chaos")
    while (left := groups - sum(submission.groups for submission in chosen)) > 0:
        submission = next(more)
        if submission.groups <= left:
            chosen.append(submission)
    return chosen


def wide(*, groups: int) -> list[Submission]:
    """Two workflows whose groups wait for the first: of one all run then, and one is cancelled before."""
    return [
        Submission(
            key=f"wide-{seconds}",
            pool=WIDE_POOL,
            groups=groups,
            text=_wide(groups, seconds),
            cancel_after=after,
        )
        for seconds, after in ((1, None), (30, 2.5))
    ]


def _wide(groups: int, seconds: int) -> str:
    lines = ["workflow:", "  name: wide", f"  labels: {{sim.osmo.local/run-for: {seconds}s}}", "  groups:"]
    for number in range(groups):
        after = ", inputs: [{task: t0}]" if number else ""
        task = f"{{name: t{number}, image: busybox, command: [train], resource: one{after}}}"
        lines.append(f"  - {{name: g{number}, nvlink: false, tasks: [{task}]}}")
    return "\n".join([*lines, "  resources:", "    one: {cpu: 1}"])


def endless(generator: random.Random, *, prefix: str) -> Iterator[Submission]:
    """Workflows for ever."""
    for number in itertools.count(1):
        may_wait = number <= PATIENT_AMONG
        patient = {2: _patient, 4: _pinned, 6: _ordered}.get(number % PATIENT) if may_wait else None
        pool = "split" if patient else generator.choice(POOLS)
        count = 1 if patient else generator.choices((1, 2), (5, 1))[0]
        cancel = generator.uniform(0.0, 2.5) if generator.random() < CANCELLED else None
        returns = not patient and generator.random() < RETURNING
        yield Submission(
            key=f"{prefix}-{number}-{generator.randrange(10**9)}",
            pool=pool,
            groups=count,
            text=patient(generator)
            if patient
            else _text(generator, pool=pool, groups=count, returns=returns),
            cancel_after=cancel,
            force=generator.random() < 0.3,
            priority="LOW" if returns else "NORMAL",
        )


def _text(generator: random.Random, *, pool: str, groups: int, returns: bool) -> str:
    seconds = generator.choice((3, 5, 8) if returns else (1, 1, 2, 4))
    labels = f"sim.osmo.local/run-for: {seconds}s"
    if returns:
        labels += f', {RETURNS}: "yes"'
    if generator.random() < 0.1:
        labels += ', sim.osmo.local/exit-code: "3"'
    lines = ["workflow:", "  name: chaos", f"  labels: {{{labels}}}", _recovery(generator, returns=returns)]
    lines.append("  groups:")
    nested = generator.random() < NESTED
    counts = (2, 4) if nested else (2, 2, 3, 4) if returns else (1, 2, 2, 3, 4)
    for number in range(groups):
        lines += [f"  - name: g{number}", "    tasks:"]
        for task in range(generator.choice(counts)):
            more = ", inputs: [{task: g0t0}]" if number and not task else ""
            own = SETS[task % 2] if nested else "one"
            lines.append(
                f"    - {{name: g{number}t{task}, lead: {str(not task).lower()}, image: busybox, "
                f'command: [train], resource: {own}, exitActions: {{RESCHEDULE: "137", {RESTART}}}{more}}}'
            )
    gpus = _gpus(generator)
    lines.append("  resources:")
    if nested:
        lines += [f"    {own}: {{gpu: {gpus}, topology: {_nested(pool, own)}}}" for own in SETS]
    else:
        lines.append(f"    one: {{gpu: {gpus}{_topology(generator, pool)}}}")
    return "\n".join(lines)


def _nested(pool: str, own: str) -> str:
    """Each set in one narrow domain, all of them in one broad one."""
    return f"[{{key: {BROAD[pool]}}}, {{key: {NARROW[pool]}, group: {own}}}]"


def _recovery(generator: random.Random, *, returns: bool) -> str:
    """What follows when a group loses a task: it comes back as a whole, or it ends."""
    if not returns:
        return "  recovery: {preempted: fail, node_lost: fail}"
    failed = generator.choice(("fail", "requeue"))
    return f"  recovery: {{preempted: requeue, node_lost: requeue, failed: {failed}, {SOON}}}"


def _patient(generator: random.Random) -> str:
    """More tasks than a spine has nodes, which prefer one spine for a second and then do without."""
    lines = [
        "workflow:",
        "  name: patient",
        f"  recovery: {{{SOON}}}",
        _patient_labels(generator),
        "  groups:",
        "  - name: g0",
        "    tasks:",
    ]
    for task in range(5):
        lead = str(not task).lower()
        lines.append(
            f"    - {{name: t{task}, lead: {lead}, image: busybox, command: [train], resource: one, "
            f"exitActions: {{{RESTART}}}}}"
        )
    wish = "{key: spine, requirementType: preferred, waitSeconds: 1}"
    return "\n".join([*lines, "  resources:", f"    one: {{gpu: 4, topology: [{wish}]}}"])


def _ordered(generator: random.Random) -> str:
    """Two sets, one larger than a spine, which are named in another order while they wait for it."""
    wish = "requirementType: preferred, waitSeconds: 6"
    return _two_sets(generator, name=ORDERED, second=wish)


def _pinned(generator: random.Random) -> str:
    """The same, but the second set is pinned to the spine that it requires."""
    return _two_sets(generator, name=PINNED, second="requirementType: required")


def _two_sets(generator: random.Random, *, name: str, second: str) -> str:
    """The first set waits six seconds for the spine that cannot be had; ``second`` is what the other asks."""
    lines = [
        "workflow:",
        f"  name: {name}",
        f"  recovery: {{{SOON}}}",
        _patient_labels(generator),
        "  groups:",
        "  - name: g0",
        "    tasks:",
    ]
    for task in range(7):
        lead, own = str(not task).lower(), SETS[task >= 5]
        lines.append(
            f"    - {{name: t{task}, lead: {lead}, image: busybox, command: [train], resource: {own}, "
            f"exitActions: {{{RESTART}}}}}"
        )
    lines.append("  resources:")
    for own, asks in zip(SETS, ("requirementType: preferred, waitSeconds: 6", second), strict=True):
        lines.append(f"    {own}: {{gpu: 4, topology: [{{key: spine, group: {own}, {asks}}}]}}")
    return "\n".join(lines)


def _patient_labels(generator: random.Random) -> str:
    return f'  labels: {{sim.osmo.local/run-for: {generator.choice((1, 2))}s, {RETURNS}: "yes"}}'


def _gpus(generator: random.Random) -> int:
    return generator.choice((1, 2, 4, 4))


def _topology(generator: random.Random, pool: str) -> str:
    shape = generator.choice(("", "narrow", "preferred"))
    if shape == "narrow":
        return f", topology: [{{key: {NARROW[pool]}}}]"
    if shape == "preferred" and pool != "native":
        return f", topology: [{{key: {BROAD[pool]}, requirementType: preferred}}]"
    return ""


class Submitter:
    """Submits in threads of its own until it is told to stop."""

    def __init__(
        self, site: Site, work: list[Submission], *, more: Iterator[Submission], log: Path, seconds: float
    ) -> None:
        self.site = site
        self.work = work
        self.counts: Counter[str] = Counter()
        self._log = log.open("a", buffering=1)
        self._lock = threading.Lock()
        self._number = 0
        self._planned = len(work)
        self._extras: list[Submission] = []
        self._more = more
        self._began = time.monotonic()
        self._every = seconds / max(len(work), 1)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(4)]

    def start(self) -> None:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Submit nothing new, and wait for what is on its way."""
        self._stop.set()
        for thread in self._threads:
            thread.join(120)

    def everything(self) -> list[Submission]:
        """All that was planned or sent."""
        return [*self.work, *self._extras]

    def settle(self) -> None:
        """Ask again for every answer that is still unknown, now that nothing fails."""
        for submission in self.everything():
            if submission.attempts and not submission.name and not submission.refused:
                self._send(submission)

    def one_more(self, pool: str, text: str, priority: str = "NORMAL") -> None:
        """Submit one more at once, from the caller's thread."""
        key = f"extra-{pool}-{time.monotonic_ns()}"
        submission = Submission(key=key, pool=pool, groups=1, text=text, priority=priority)
        with self._lock:
            self._extras.append(submission)
        self._send(submission)

    def _run(self) -> None:
        while not self._stop.is_set():
            number, submission, more = self._next()
            at = number * self._every + more * MORE_SLOWLY * self._every
            self._stop.wait(max(0.0, self._began + at - time.monotonic()))
            if self._stop.is_set():
                return
            self._send(submission)
            if submission.name and submission.cancel_after is not None:
                self._stop.wait(submission.cancel_after)
                self._cancel(submission)

    def _next(self) -> tuple[int, Submission, int]:
        """What comes next; once all is submitted, more of the kind, so that faults find something to hit."""
        with self._lock:
            number, self._number = self._number, self._number + 1
            if number == len(self.work):
                self.work.append(next(self._more))
            return number, self.work[number], max(0, number - self._planned)

    def _send(self, submission: Submission) -> None:
        for _ in range(TRIES):
            submission.attempts += 1
            status = self._ask(submission)
            self._note(submission, status)
            if 0 < status < 500 and status != 429:
                return
            if self._stop.wait(PAUSE):
                return

    def _ask(self, submission: Submission) -> int:
        """Send it once; the status of the answer, 0 for none."""
        client = self.site.rest()
        client.headers["Idempotency-Key"] = submission.key
        try:
            reply = client.submit(submission.pool, submission.text, priority=submission.priority)
            submission.name = str(reply["name"])
            submission.replies.add(submission.name)
            submission.answered_at = time.monotonic()
        except Refused as refusal:
            self.counts[f"answered {refusal.status}"] += 1
            if refusal.status < 500 and refusal.status != 429:
                submission.refused = refusal.status
            return refusal.status
        except (urllib3.exceptions.HTTPError, OSError):
            self.counts["no answer"] += 1
            return 0
        self.counts["accepted"] += 1
        return 200

    def _cancel(self, submission: Submission) -> None:
        try:
            self.site.rest().cancel(submission.name, force=str(submission.force).lower())
            self.counts["cancelled"] += 1
        except (Refused, urllib3.exceptions.HTTPError, OSError):
            self.counts["cancel not answered"] += 1

    def _note(self, submission: Submission, status: int) -> None:
        line = {
            "key": submission.key,
            "user": ADMIN,
            "pool": submission.pool,
            "status": status,
            "workflow": submission.name or None,
            "file": submission.text,
        }
        self._log.write(json.dumps(line) + "\n")
