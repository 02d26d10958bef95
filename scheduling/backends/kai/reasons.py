"""Why a gang waits, read from KAI's conditions and events.

KAI writes conditions on a pod group, one for each node pool, the newest with the highest ``transitionID``.
KAI v0.13 keeps them after the group is placed, so they count only while pods lack nodes. They name generated
subgroups, node labels and Topology objects, which no user knows, so they are translated. An unknown text is
passed on unchanged, never dropped. The patterns are texts of running KAI v0.13 and v0.17; ``texts`` has those
about pods and nodes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from scheduling.backends.base import UNRECOGNISED, BindFailure, Waiting, WaitingReason
from scheduling.backends.kai import texts
from scheduling.sentences import count_of

_Match = re.Match[str]
_MAX_RAW = 1000

CLOCKS = timedelta(seconds=2)
"""The difference that the clocks of two components may have, with times in whole seconds."""

DOMAIN = "DomainTooSmall"
ELSEWHERE = "OtherDomainTooSmall"
"""The same of a domain that no task of this pool may use; never leaves this module."""

_OF_PODS = {"WrongSubgroup"}
"""Reasons that KAI writes on a pod alone, whatever it says of the pod group."""


def read(waiting: Waiting) -> tuple[WaitingReason, ...]:
    """All reasons, each sentence once, those of the newest condition first.

    Reasons about all domains come before reasons about one: KAI reports each domain and adds its summary
    last. The newest report counts: a binder that fails later does so on nodes that KAI has chosen since.
    """
    if waiting.placed:
        return ()
    last = read_since(last_report(waiting.pod_groups))
    failures = [f for f in waiting.bind_failures if _is_newer(f, last, by=-CLOCKS)]
    if any(read_since(f.since) and _is_newer(f, last, by=CLOCKS) for f in failures):
        return _once([*_missing(waiting), *(_not_bound(failure.message) for failure in failures)])
    reasons = list(_missing(waiting))
    for messages in _conditions(waiting):
        translated = [reason for message in messages for reason in _translate(message, waiting)]
        reasons += sorted(translated, key=_of_one_domain)
    for event in waiting.events:
        if event.get("reason") == "NotReady" and not _is_complete(waiting):
            reasons += _translate(str(event.get("message", "")), waiting)
    of_pods = [reason for message in waiting.pod_messages for reason in _translate(message, waiting)]
    reasons += [reason for reason in of_pods if reason.code in _OF_PODS] if reasons else of_pods
    reasons += [_not_bound(failure.message) for failure in failures]
    return _once(reasons)


def last_report(pod_groups: Iterable[Mapping[str, Any]]) -> str:
    """When KAI last reported on these pod groups, as Kubernetes writes times; empty if never."""
    conditions = [entry for group in pod_groups for entry in _scheduling_conditions(group)]
    return max((str(entry.get("lastTransitionTime") or "") for entry in conditions), default="")


def _is_newer(failure: BindFailure, last: datetime | None, *, by: timedelta) -> bool:
    """Whether a binder failed after KAI's last report on the group, by more than so much.

    A binder's failure stays on the pod. Once KAI has reported on the group again, it has looked for another
    place, and its report says what the group waits for. The two times are of two clocks and in whole seconds:
    within ``CLOCKS`` neither is known to be the newer one, and both are shown.
    """
    since = read_since(failure.since)
    return since is None or last is None or since - last > by


def read_since(text: str) -> datetime | None:
    """A time as Kubernetes writes it; None for none, or for what is no time."""
    try:
        time = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return time if time is None or time.tzinfo else time.replace(tzinfo=UTC)


def _not_bound(message: str) -> WaitingReason:
    sentence = f"KAI chose a node, but its binder could not bind the pod: {message[:_MAX_RAW]}"
    return WaitingReason("BindFailed", sentence, message[:_MAX_RAW])


def _is_complete(waiting: Waiting) -> bool:
    """Whether all pods exist: then KAI's texts from the time when some were missing no longer hold."""
    return waiting.pods >= waiting.pods_expected


def _of_one_domain(reason: WaitingReason) -> tuple[bool, int]:
    """Sorts domains after everything else, the one with most room for the group first."""
    fit = re.search(r"\d+ of ", reason.message)
    return reason.code in (DOMAIN, ELSEWHERE), -int(fit[0][:-4]) if fit and reason.code == DOMAIN else 0


def _once(reasons: list[WaitingReason]) -> tuple[WaitingReason, ...]:
    """Each sentence once; a domain of another pool counts only if there is no other reason."""
    own = [reason for reason in reasons if reason.code != ELSEWHERE]
    if not own:
        own = [replace(reason, code=DOMAIN) for reason in reasons]
    return tuple({reason.message: reason for reason in reversed(own)}.values())[::-1]


def _missing(waiting: Waiting) -> Iterator[WaitingReason]:
    names = {group.get("metadata", {}).get("name") for group in waiting.pod_groups}
    if not names.issuperset(waiting.expected):
        yield WaitingReason("PodGroupMissing", "The group's pod group is not in the cluster yet.")
    if waiting.pods < waiting.pods_expected:
        yield WaitingReason(
            "PodsMissing",
            f"{waiting.pods} of {waiting.pods_expected} pods exist; the gang waits for the rest.",
        )


def _conditions(waiting: Waiting) -> Iterator[list[str]]:
    """What each condition says, the newest condition first."""
    for group in waiting.pod_groups:
        for condition in sorted(_scheduling_conditions(group), key=_age, reverse=True):
            texts = [_text(reason) for reason in condition.get("reasons") or [] if reason.get("message")]
            yield texts or [str(condition.get("message", ""))]


def _scheduling_conditions(group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return group.get("status", {}).get("schedulingConditions") or []


def _text(reason: Mapping[str, Any]) -> str:
    """A reason's message, after its name where the name says more than the message."""
    name = str(reason.get("reason", ""))
    message = str(reason["message"])
    return f"{name}: {message}" if name in {"OverLimit", "NonPreemptibleOverQuota"} else message


def _age(condition: Mapping[str, Any]) -> int:
    number = str(condition.get("transitionID", ""))
    return int(number) if number.isdigit() else 0


def _translate(text: str, waiting: Waiting) -> Iterator[WaitingReason]:
    """The reasons in one message; text that is not recognised is passed on as KAI wrote it.

    Where no node of the pool is closed, those that KAI counts are of other pools.
    """
    if waiting.any_closed is not False:
        return _read_message(text, waiting)
    read = _read_message(texts.closed_as_others(text), waiting)
    return (replace(reason, raw=text[:_MAX_RAW]) for reason in read)


def _read_message(text: str, waiting: Waiting) -> Iterator[WaitingReason]:
    recognised, is_of_room = False, texts.of_room(text)
    for pattern, code, sentence in _PATTERNS:
        matches = list(pattern.finditer(text))
        if code == "NotEnoughRoom" and not is_of_room:
            continue
        recognised = recognised or bool(matches)
        if code == DOMAIN:
            yield from _of_domains(matches, text, waiting)
            continue
        is_of_domains = sentence is _gang_short and _required_of_all(waiting)
        kind = "TopologyNotSatisfied" if is_of_domains else code
        for match in matches:
            yield WaitingReason(kind, sentence(match, waiting), text[:_MAX_RAW], _facts(match))
    causes = list(texts.read(text))
    speaks_of_own_nodes = (recognised and is_of_room) or any(code != "NodeSelector" for code, *_ in causes)
    key = _required_of_all(waiting)
    for code, words, match in causes:
        if code == "NodeSelector" and speaks_of_own_nodes:  # nodes of other pools never match
            continue
        if code == "NodeSelector" and key and texts.only_nodes_of_others(text):
            no_room = _no_key_for_all(key, waiting.pods_expected)
            yield WaitingReason("TopologyNotSatisfied", no_room, text[:_MAX_RAW])
            continue
        yield WaitingReason(code, words, text[:_MAX_RAW], _facts(match))
    if text.strip() and not causes and not (recognised and is_of_room):
        yield _unknown(text)


def _facts(match: _Match) -> tuple[tuple[str, str], ...]:
    """The numbers and names in what was recognised."""
    return tuple((name, text) for name, text in match.groupdict().items() if text)


def _unknown(text: str) -> WaitingReason:
    if re.fullmatch(r"Unable to schedule (podgroup|pod)\.?:?\s*", text.strip()):
        message = (
            "The scheduler cannot place the group and gives no reason; its queue, its topology levels or a "
            "lack of room may be the cause."
        )
        return WaitingReason("Unschedulable", message, text)
    cause = texts.cause_of(text)[:_MAX_RAW]
    return WaitingReason(UNRECOGNISED, f"The scheduler says: {cause}", text[:_MAX_RAW])


def _key(label: str, waiting: Waiting) -> str:
    return next((level.key for level in waiting.levels if level.label == label), label)


def _set(name: str | None, waiting: Waiting) -> str:
    return waiting.sets.get(name or "", "the whole task group" if not name else f'subgroup "{name}"')


def _no_domain(match: _Match, waiting: Waiting) -> str:
    if not match["level"]:
        return (
            f"Too few nodes that carry all labels of {_set(match['subgroup'], waiting)} have room; a "
            "preferred key sees no other nodes."
        )
    key = _key(match["level"], waiting)
    return f"No {key} has room for {_set(match['subgroup'], waiting)} at the moment; one {key} is required."


def _of_domains(matches: list[_Match], text: str, waiting: Waiting) -> Iterator[WaitingReason]:
    """The pool's own domains; one of another pool's if none is.

    KAI counts all nodes with the labels, those that no task of this pool may use included.
    """
    domains = waiting.domains
    own = matches if domains is None else [match for match in matches if match["domain"] in domains]
    for match in own:
        yield WaitingReason(DOMAIN, _domain_short(match, waiting), text[:_MAX_RAW], _facts(match))
    for match in matches[:1] if not own else ():
        yield WaitingReason(ELSEWHERE, _no_own_domain(match, waiting), text[:_MAX_RAW])


def _domain_short(match: _Match, waiting: Waiting) -> str:
    if words := (waiting.domains or {}).get(match["domain"]):
        return f"Only {match['fit']} of {match['need']} tasks fit in {words} at the moment."
    return f"Domain {match['domain']} has room for {match['fit']} of {match['need']} tasks."


def _no_own_domain(match: _Match, waiting: Waiting) -> str:
    is_of_all = int(match["need"]) == waiting.pods_expected
    if is_of_all and (key := _required_of_all(waiting)):
        return _no_key_for_all(key, int(match["need"]))
    return f"No domain of the pool has room for all {match['need']} tasks at the moment."


def _no_topology(match: _Match, waiting: Waiting) -> str:
    del waiting
    return f"Topology object {match['topology']} is missing from the cluster; the service creates it again."


def _not_ready(match: _Match, waiting: Waiting) -> str:
    words = _set(match["subgroup"], waiting)
    return f"{match['exist']} of {match['need']} pods of {words} exist; the gang waits for the rest."


def _gang_short(match: _Match, waiting: Waiting) -> str:
    """KAI reports on the domain it tried last, another pool's perhaps, so its count says little there."""
    if key := _required_of_all(waiting):
        return _no_key_for_all(key, int(match["need"]))
    if match["fit"] == "0":
        return f"There is no room for the {match['need']} tasks, which must start together."
    fitting = count_of(int(match["fit"]), "task")
    return f"There is room for {fitting}, but {match['need']} must start together."


def _no_key_for_all(key: str, tasks: int) -> str:
    of_all = "the task" if tasks == 1 else f"all {tasks} tasks"
    return f"No {key} has room for {of_all} at the moment; one {key} is required."


def _required_of_all(waiting: Waiting) -> str:
    """The key that the whole gang must share, empty for none."""
    for group in waiting.pod_groups:
        constraint = group.get("spec", {}).get("topologyConstraint") or {}
        if label := constraint.get("requiredTopologyLevel"):
            return _key(str(label), waiting)
    return ""


def _set_short(match: _Match, waiting: Waiting) -> str:
    return f"There is not enough room for the {match['need']} tasks of {_set(match['subgroup'], waiting)}."


def _no_queue(match: _Match, waiting: Waiting) -> str:
    del waiting
    return f"Queue {match['queue']} does not exist in the cluster yet."


def _limit(match: _Match, waiting: Waiting) -> str:
    del waiting
    if not match["limit"]:
        return "The pool has reached its limit."
    most = f"the pool may use at most {match['limit']}"
    if match["asked"] and float(match["asked"]) > float(match["limit"]):
        amount = f"{match['asked']} {match['unit']}"
        return f"The group asks for {amount}, but {most}; it waits until that is raised."
    most = f"T{most[1:]} {match['unit']}"
    if match["asked"]:
        return f"{most}; {match['used']} are in use, and the group asks for {match['asked']}."
    return f"{most}, and {match['used']} are in use."


def _fixed(text: str) -> Callable[[_Match, Waiting], str]:
    def sentence(match: _Match, waiting: Waiting) -> str:
        del match, waiting
        return text

    return sentence


_PATTERNS: tuple[tuple[re.Pattern[str], str, Callable[[_Match, Waiting], str]], ...] = (
    (
        re.compile(r"Requested topology (?P<topology>\S+) does not exist"),
        "TopologyMissing",
        _no_topology,
    ),
    (
        re.compile(
            r"topology (?P<topology>\S+), requirement (?P<level>\S*) ?couldn't be satisfied for job "
            r"<[^>]*>(?:, subgroup (?P<subgroup>[a-z0-9-]+))?"
        ),
        "TopologyNotSatisfied",
        _no_domain,
    ),
    (
        re.compile(
            r"node-group (?P<domain>\S+) can allocate only (?P<fit>\d+) of (?P<need>\d+) required pods"
        ),
        DOMAIN,
        _domain_short,
    ),
    (
        re.compile(
            r"Waiting for (?P<need>\d+) pods(?: for SubGroup (?P<subgroup>[a-z0-9-]+))?, "
            r"currently (?P<exist>\d+) exist"
        ),
        "PodsMissing",
        _not_ready,
    ),
    (
        re.compile(
            r"Resources were found for (?P<fit>\d+) pods from all sub-groups while sub-group "
            r"(?P<subgroup>[a-z0-9-]+) requires (?P<need>\d+)"
        ),
        "NotEnoughRoom",
        _set_short,
    ),
    (
        re.compile(r"Resources were found for (?P<fit>\d+) pods while (?P<need>\d+) are required"),
        "NotEnoughRoom",
        _gang_short,
    ),
    (re.compile(r"Queue '?(?P<queue>[^'\s]+)'? does not exist"), "QueueMissing", _no_queue),
    (
        re.compile(r"NonPreemptibleOverQuota|Non-preemptible workload is over quota"),
        "OverQuota",
        _fixed("The pool's guaranteed GPUs are all in use, and this priority may not go beyond them."),
    ),
    (
        re.compile(
            r"(?:OverLimit: )?\S+ quota has reached the allowable limit of [^.]+\. "
            r"Limit is (?P<limit>[\d.]+) (?P<unit>\w+), currently (?P<used>[\d.]+) \w+ allocated"
            r"(?: and workload requested (?P<asked>[\d.]+))?"
            r"|OverLimit|quota has reached the allowable limit"
        ),
        "OverQuota",
        _limit,
    ),
)
