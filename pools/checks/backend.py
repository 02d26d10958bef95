"""The rules that a backend must satisfy before it is saved, alone and together with its pools. Pure.

Paths are relative to the backend; the caller prefixes them.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pools.checks.names import MAX_NAME
from pools.checks.pool import joins_no_queues, owns_no_topologies
from pools.documents.backend import BackendDocument
from pools.documents.reading import suggestion
from pools.values.durations import ACCEPTED, parse_duration
from pools.values.images import image_fault
from pools.values.recovery_words import RecoveryWords, check_responses
from scheduling.backends.facets import SchedulerBackend
from scheduling.capabilities import (
    QUEUE_CAPABILITIES,
    Capabilities,
    check_pool_levels,
    check_share,
)
from scheduling.errors import Fault, Path, in_order
from scheduling.kubernetes_syntax import is_dns_label, is_label_key, is_label_value, is_object_name
from scheduling.nodes.node_health import STATUSES, rule_fault
from scheduling.topology.levels import Levels

_SCHEDULER_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_QUOTA = re.compile(r"nodes|unlimited|[0-9]{1,7}")
_OF_QUEUES: Mapping[str, tuple[str, ...]] = {
    "parent": (),
    "parent_quota": ("nodes", "unlimited"),
    "label": (),
    "node_pool_label": (),
    "node_pool": (),
}
"""Settings of a scheduler with queues and shards, and those of their values that others have by default."""
MAX_PREFIX = 20
LEAST_LIMIT = 10.0
_URL = re.compile(r"https?://\S+")
_ROUTER = re.compile(r"wss?://[A-Za-z0-9.:\[\]-]+(/[^\s@]*)?")


def check_backend(document: BackendDocument, *, kinds: Mapping[str, SchedulerBackend]) -> list[Fault]:
    """Find the faults of a backend that can be seen from it and the scheduler backends, by name, alone."""
    faults: list[Fault] = []
    settings = document.scheduler_settings
    kind = kinds.get(settings.scheduler_type)
    if kind is None:
        hint = suggestion(settings.scheduler_type, sorted(kinds))
        message = f'There is no scheduler backend "{settings.scheduler_type[:MAX_NAME]}"{hint}'
        where = ("scheduler_settings", "scheduler_type")
        faults.append(Fault(where, "unknown_scheduler", message, allowed=tuple(sorted(kinds))))
    if settings.scheduler_name and not _SCHEDULER_NAME.fullmatch(settings.scheduler_name):
        message = "A schedulerName is lower-case letters, digits, '-' and '.', at most 253 characters."
        faults.append(Fault(("scheduler_settings", "scheduler_name"), "invalid_scheduler_name", message))
    if not is_dns_label(document.k8s_namespace):
        message = "A namespace is lower-case letters, digits and '-', at most 63 characters."
        faults.append(Fault(("k8s_namespace",), "invalid_namespace", message))
    faults += _queues(document, shares_queues=kind is not None and bool(kind.shard_label))
    faults += _own_queues(document, [name for name, each in kinds.items() if each.joined_queues])
    if document.composite_pod_groups and not (kind and kind.hidden_gate):
        gated = sorted(name for name, each in kinds.items() if each.hidden_gate)
        message = (
            f'Scheduler "{settings.scheduler_type}" makes no composite pod groups, so there is nothing to '
            f"vouch for: leave it out. It is for {', '.join(gated)}."
        )
        faults.append(Fault(("composite_pod_groups",), "no_composites", message, allowed=("false",)))
    if document.follow_others and not (kind and kind.foreign):
        followed = sorted(name for name, each in kinds.items() if each.foreign)
        message = (
            f'Gangs that others submitted to scheduler "{settings.scheduler_type}" cannot be read: leave it '
            f"out. It is for {', '.join(followed)}."
        )
        faults.append(Fault(("follow_others",), "no_gangs_of_others", message, allowed=("false",)))
    faults += _durations(document)
    faults += _node_conditions(document)
    faults += _start_barrier(document)
    faults += _kubeconfig(document)
    for field in ("dashboard_url", "grafana_url"):
        url = getattr(document, field)
        if url and not _URL.fullmatch(url):
            faults.append(Fault((field,), "invalid_url", "A link begins with http:// or https://."))
    if document.router_address and not _ROUTER.fullmatch(document.router_address):
        message = "Callers send their logins there: an address of WebSockets, ws://host or wss://host."
        faults.append(Fault(("router_address",), "invalid_url", message))
    return in_order(faults)


def check_scheduler_holds_pools(
    pools: Mapping[str, Levels], *, capabilities: Capabilities, path: Path
) -> list[Fault]:
    """Find the pools of a backend whose topology keys its new scheduler could not hold."""
    faults = []
    for name, levels in sorted(pools.items()):
        for fault in check_pool_levels(levels, capabilities=capabilities, path=path):
            message = f'Pool "{name}" of this backend has topology keys. {fault.message}'
            faults.append(replace(fault, path=path, message=message))
    return faults


def check_scheduler_shares_pools(
    shares: Mapping[str, Mapping[str, float]], *, capabilities: Capabilities, path: Path
) -> list[Fault]:
    """Find the pools of a backend whose share of GPUs its new scheduler would ignore."""
    faults = []
    for name, share in sorted(shares.items()):
        for fault in check_share(share, {}, capabilities=capabilities, path=path):
            message = f'Pool "{name}" of this backend has a share of GPUs. {fault.message}'
            faults.append(replace(fault, path=path, message=message))
    return faults


def check_scheduler_recovers_pools(
    words_by_pool: Mapping[str, RecoveryWords], *, capabilities: Capabilities, path: Path
) -> list[Fault]:
    """Find the pools of a backend whose recovery its new scheduler could not carry out."""
    faults = []
    for name, words in sorted(words_by_pool.items()):
        for fault in check_responses([words], capabilities=capabilities):
            message = f'Pool "{name}" of this backend has recovery by `task`. {fault.message}'
            faults.append(replace(fault, path=path, message=message))
    return faults


def check_backend_serves_pools(
    lacks: Mapping[str, Mapping[str, Sequence[str]]],
    *,
    external: Mapping[str, str],
    backend: str,
    scheduler: str,
    owns_topologies: bool,
    queues: Mapping[str, str],
    path: Path,
) -> list[Fault]:
    """Find the pools of a backend that it could no longer serve after a change.

    ``lacks``: by pool, what its new cluster does not serve, by the pool's field that needs it. ``external``:
    by pool, the external Topology object that it names. ``queues``: by pool, the LocalQueue that it
    names and that the new scheduler does not join.
    """
    faults = []
    for pool, fields in sorted(lacks.items()):
        for field, explanations in fields.items():
            message = (
                f'Pool "{pool}" of this backend has {field}, and what that needs is not served there: '
                f"{'; '.join(explanations)}."
            )
            faults.append(Fault(path, "not_served", message))
    for pool, name in sorted(external.items()) if not owns_topologies else ():
        message = (
            f'Pool "{pool}" of this backend names Topology "{name}". '
            f"{owns_no_topologies(scheduler, backend)}: move the pool first, or give it topology_source: "
            "managed."
        )
        faults.append(Fault(path, "no_topology_objects", message))
    for pool, name in sorted(queues.items()):
        message = (
            f'Pool "{pool}" of this backend names LocalQueue "{name}". '
            f"{joins_no_queues(scheduler, backend)}: move the pool first, or empty its local_queue."
        )
        faults.append(Fault(path, "no_local_queues", message))
    return faults


def _queues(document: BackendDocument, *, shares_queues: bool) -> Iterator[Fault]:
    settings = document.queue_settings
    kind = document.scheduler_settings.scheduler_type
    for field, idle in _OF_QUEUES.items() if not shares_queues else ():
        if getattr(settings, field) not in ("", *idle):
            message = f'Scheduler "{kind}" has no queues and no shards: leave it out.'
            yield Fault(("queue_settings", field), "no_queues", message, allowed=idle or ("",))
    if settings.prefix and not (is_dns_label(settings.prefix) and len(settings.prefix) <= MAX_PREFIX):
        message = f"A prefix is lower-case letters, digits and '-', at most {MAX_PREFIX} characters."
        yield Fault(
            ("queue_settings", "prefix"), "invalid_prefix", message, allowed=("osmo-topology", "osmo")
        )
    if settings.parent and not _SCHEDULER_NAME.fullmatch(settings.parent):
        message = "A queue's name is lower-case letters, digits, '-' and '.', at most 253 characters."
        yield Fault(("queue_settings", "parent"), "invalid_queue", message)
    if settings.parent_quota and not _QUOTA.fullmatch(settings.parent_quota):
        message = "A quota is a number of GPUs, nodes (as many as the pools' nodes have) or unlimited."
        yield Fault(
            ("queue_settings", "parent_quota"), "invalid_quota", message, allowed=("nodes", "unlimited", "64")
        )
    for field in ("label", "node_pool_label"):
        if (label := getattr(settings, field)) and not is_label_key(label):
            message = f"{label[:MAX_NAME]!r} is no Kubernetes label key."
            yield Fault(("queue_settings", field), "invalid_label", message, allowed=("kai.scheduler/queue",))
    if settings.node_pool and not is_label_value(settings.node_pool):
        message = f"{settings.node_pool[:MAX_NAME]!r} is no value of a Kubernetes label."
        yield Fault(("queue_settings", "node_pool"), "invalid_label_value", message)
    if settings.node_pool_label and not settings.node_pool:
        message = "It says nothing without node_pool, the value of that label on the shard's nodes."
        yield Fault(("queue_settings", "node_pool_label"), "label_without_value", message)


def _own_queues(document: BackendDocument, schedulers: Collection[str]) -> Iterator[Fault]:
    kind = document.scheduler_settings.scheduler_type
    listed = document.queue_settings.local_queues
    for place, name in enumerate(listed):
        path: Path = ("queue_settings", "local_queues", place)
        if name in listed[:place]:
            yield Fault(path, "twice", f'LocalQueue "{name}" is listed above already.')
        elif not is_object_name(name):
            message = "A LocalQueue is named with lower-case letters, digits, '-' and '.'."
            yield Fault(path, "invalid_queue", message)
    if listed and kind not in schedulers:
        message = (
            f'Scheduler "{kind}" has no LocalQueue that a pool could name: leave it out. It is for '
            f"{', '.join(sorted(schedulers))}."
        )
        yield Fault(("queue_settings", "local_queues"), "no_local_queues", message, allowed=("[]",))
    if document.queue_settings.own_queues and kind not in schedulers:
        message = (
            f'Scheduler "{kind}" joins no queues of others, so there is nothing to choose: leave it out. It '
            f"is for {', '.join(sorted(schedulers))}."
        )
        yield Fault(("queue_settings", "own_queues"), "no_own_queues", message, allowed=("false",))


def _durations(document: BackendDocument) -> Iterator[Fault]:
    for field in QUEUE_CAPABILITIES:
        if text := getattr(document.queue_settings, field):
            try:
                parse_duration(text)
            except ValueError as error:
                yield Fault(("queue_settings", field), "invalid_duration", str(error), allowed=ACCEPTED)


def _node_conditions(document: BackendDocument) -> Iterator[Fault]:
    for pattern, statuses in document.node_conditions.rules.items():
        if fault := rule_fault(pattern, statuses):
            yield Fault(("node_conditions", "rules", pattern), "invalid_rule", fault, allowed=STATUSES)


def _start_barrier(document: BackendDocument) -> Iterator[Fault]:
    settings = document.start_barrier
    if settings.image and (message := image_fault(settings.image)):
        yield Fault(("start_barrier", "image"), "image", message)
    if settings.command and not settings.command[0]:
        message = "A command begins with the name of a program."
        yield Fault(("start_barrier", "command", 0), "invalid_command", message)
    if settings.limit:
        try:
            seconds = parse_duration(settings.limit)
        except ValueError as error:
            yield Fault(("start_barrier", "limit"), "invalid_duration", str(error), allowed=ACCEPTED)
        else:
            if seconds < LEAST_LIMIT:
                message = (
                    f"Pods need some time to start: write at least {LEAST_LIMIT:g} s, or enabled: false."
                )
                yield Fault(("start_barrier", "limit"), "limit_too_short", message, allowed=ACCEPTED)


def check_shard(
    selections: Mapping[str, Mapping[str, str]], *, label: str, shard: Mapping[str, str], path: Path
) -> list[Fault]:
    """Find the pools or platforms whose nodes the backend's shard never sees.

    ``selections``: by what a message calls it, the node labels that it selects. A pod group without the label
    belongs to the shard of the nodes without it.
    """
    faults = []
    for subject, selection in sorted(selections.items()):
        for key in sorted({label, *shard} - {""}):
            selected, own = selection.get(key), shard.get(key)
            if selected is None or selected == own:
                continue
            serves = f"{key}={own}" if own else f"nodes without label {key}"
            message = (
                f"{subject} selects nodes with {key}={selected}, and the backend's shard of the scheduler "
                f"sees only {serves}: no gang there is ever scheduled. Set the backend's "
                "queue_settings.node_pool, or correct the node_selector."
            )
            faults.append(Fault(path, "another_shard", message, allowed=(own,) if own else ()))
    return faults


def _kubeconfig(document: BackendDocument) -> Iterator[Fault]:
    path = document.kubeconfig
    names = path.split("/")[1:]
    is_plain = path.startswith("/") and all(name not in {"", "."} and name[:2] != ".." for name in names)
    if path and not (is_plain and path.isprintable()):
        message = (
            "The absolute path of a file that workers and the observer can read, in its shortest form and "
            "without names that begin with two dots; its contents are never kept here. Empty: the service "
            "account of the pod they run in."
        )
        yield Fault(("kubeconfig",), "invalid_path", message, allowed=("/etc/osmo/kubeconfig", ""))
    if document.context and not path:
        message = "A context is one of a kubeconfig: give the file, or leave the context empty."
        yield Fault(("context",), "context_without_kubeconfig", message, allowed=("",))
