"""The rules that a pool must satisfy before it is saved, as pure functions from values to faults.

Every door (REST, admin, import) passes the same checks, because they sit below the services. Facts of other
rows (which backend, what its scheduler can hold) come in as values, read by the service under its locks.
Paths are relative to the pool; the caller prefixes them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from pools.checks.default_requirements import check_default_capabilities, check_default_forms
from pools.checks.limits import over_maximum
from pools.checks.names import MAX_NAME, check_name
from pools.documents.pool import PlatformDocument, PoolDocument, TolerationDocument
from pools.documents.reading import suggestion
from pools.pod_templates.rules import default_faults
from pools.values.durations import ACCEPTED, parse_duration
from pools.values.exit_codes import exit_codes
from pools.values.recovery_words import RecoveryWords, check_amounts, check_responses, read_words
from pools.values.selection import label_faults, toleration_faults
from scheduling import names
from scheduling.capabilities import Capabilities, Capability, check_pool_levels, check_share
from scheduling.errors import Fault, Path, in_order
from scheduling.kubernetes_syntax import MAX_OBJECT_NAME, is_object_name
from scheduling.topology.levels import check_levels

EXIT_ACTIONS = ("COMPLETE", "FAIL", "RESCHEDULE", "RESTART_GROUP")

_MOUNT = re.compile(r"/[^:]*(:/[^:]*)?")


def check_pool(document: PoolDocument) -> list[Fault]:
    """Find the faults of a pool that can be seen from the pool alone."""
    faults = [*check_levels(document.levels, path=("topology_keys",))]
    faults += label_faults(document.node_selector, path=("node_selector",))
    faults += toleration_faults(_plain(document.tolerations), path=("tolerations",))
    faults += default_faults(document.common_default_variables, path=("common_default_variables",))
    for name, platform in document.platforms.items():
        faults += _platform(name, platform, document)
    if document.default_platform and document.default_platform not in document.platforms:
        message = f'There is no platform "{document.default_platform[:MAX_NAME]}" in this pool.'
        allowed = tuple(sorted(document.platforms))
        faults.append(Fault(("default_platform",), "unknown_platform", message, allowed=allowed))
    faults += _topology_source(document)
    faults += _local_queue(document.local_queue)
    faults += _shared_credentials(document.shared_credentials)
    faults += _timeouts(document)
    faults += _exit_actions(document.default_exit_actions, path=("default_exit_actions",))
    faults += _gpus(document)
    faults += check_default_forms(document)
    words, unreadable = recovery_words(document)
    faults += [*unreadable, *check_amounts([words], most=document.max_recoveries)]
    return in_order(faults)


def check_placement(
    document: PoolDocument,
    *,
    backend: str,
    enabled: bool,
    moved: bool,
    capabilities: Capabilities,
    schedulers: Sequence[str],
    usable: Sequence[str],
    owns_topologies: bool,
    joins_queues: bool,
    owned_capabilities: AbstractSet[Capability],
    lacks: Mapping[str, Sequence[str]],
    share_before: Mapping[str, float],
) -> list[Fault]:
    """Find what a pool's backend cannot do for it; ``moved``: the pool was not on this backend before.

    ``schedulers``: the installed scheduler backends; ``usable``: the backends that take pools.
    ``owns_topologies``: its scheduler reads levels from objects in the cluster, which may be external.
    ``joins_queues``: its gangs join queues of somebody else's. ``owned_capabilities`` are held in queues of
    the service's own alone, and a pool that names a LocalQueue has none.
    ``lacks``: what the cluster does not serve, by the pool's field that needs it for the first time.
    ``share_before``: the pool's share of GPUs on this backend until now.
    """
    disabled = []
    if moved and not enabled:
        message = f'Backend "{backend}" is disabled: enable it, or name another one.'
        disabled.append(Fault(("backend",), "backend_disabled", message, allowed=tuple(usable)))
    if moved and capabilities.scheduler not in schedulers:  # its capabilities are not known
        return [*disabled, _uninstalled(backend, capabilities.scheduler, schedulers)]
    faults = check_pool_levels(document.levels, capabilities=capabilities, path=("topology_keys",))
    gpu = document.resources.gpu
    share, path = gpu.model_dump() if gpu else {}, ("resources", "gpu")
    if document.local_queue and owned_capabilities:
        others = replace(capabilities, held=capabilities.held - owned_capabilities)
        faults += check_share(share, {}, capabilities=others, path=path)
    else:
        faults += check_share(share, share_before, capabilities=capabilities, path=path)
    faults += check_responses([recovery_words(document)[0]], capabilities=capabilities)
    faults += check_default_capabilities(document, capabilities=capabilities)
    for field, explanations in lacks.items():
        message = f'Backend "{backend}" does not serve what this needs: {"; ".join(explanations)}.'
        faults.append(Fault((field,), "not_served", message))
    if document.topology_source == "external" and not owns_topologies:
        message = f"{owns_no_topologies(capabilities.scheduler, backend)}: leave it out."
        faults.append(Fault(("topology_source",), "no_topology_objects", message, allowed=("managed",)))
    if document.local_queue and not joins_queues:
        message = f"{joins_no_queues(capabilities.scheduler, backend)}: leave it out."
        faults.append(Fault(("local_queue",), "no_local_queues", message, allowed=("",)))
    return [*faults, *disabled]


def unknown_backend(name: str, *, names: Sequence[str]) -> Fault:
    """The fault of a backend that does not exist."""
    message = f'There is no backend "{name[:MAX_NAME]}"{suggestion(name, names)}'
    return Fault(("backend",), "unknown_backend", message, allowed=tuple(sorted(names)))


def _uninstalled(backend: str, scheduler: str, schedulers: Sequence[str]) -> Fault:
    installed = tuple(sorted(schedulers))
    message = (
        f'Backend "{backend}" has scheduler "{scheduler}", which is not installed here; there are '
        f"{', '.join(installed)}: install it, or name a backend with one of these."
    )
    return Fault(("backend",), "scheduler_not_installed", message, allowed=installed)


def _topology_source(document: PoolDocument) -> Iterator[Fault]:
    name = document.topology_name
    if document.topology_source == "managed":
        if name:
            message = "A managed topology has no name: leave it out, or write topology_source: external."
            yield Fault(("topology_name",), "name_of_managed_topology", message)
        return
    if not is_object_name(name):
        message = (
            "An external topology is named as the object in the cluster is: lower-case letters, digits, '-' "
            f"and '.', at most {MAX_OBJECT_NAME} characters."
        )
        yield Fault(("topology_name",), "invalid_topology_name", message)
    if not document.topology_keys:
        message = "An external topology needs topology_keys: they say which of its levels users may name."
        yield Fault(("topology_keys",), "no_keys", message)


def _local_queue(name: str) -> Iterator[Fault]:
    if name and not is_object_name(name):
        message = (
            "A LocalQueue is named with lower-case letters, digits, '-' and '.', at most "
            f"{MAX_OBJECT_NAME} characters."
        )
        yield Fault(("local_queue",), "invalid_queue", message)


def _shared_credentials(secrets: Sequence[str]) -> Iterator[Fault]:
    """Refuse Secrets that belong to somebody: a task group's files, a user's own."""
    for place, name in enumerate(secrets):
        path: Path = ("shared_credentials", place)
        if not is_object_name(name, limit=names.MAX_CREDENTIAL):
            message = (
                "A Secret is named with lower-case letters, digits, '-' and '.'; at most "
                f"{names.MAX_CREDENTIAL} characters are accepted."
            )
            yield Fault(path, "invalid_secret_name", message)
        elif name.startswith((names.OWN_PREFIX, names.USER_PREFIX)):
            message = (
                f"Secrets beginning with {names.OWN_PREFIX} or {names.USER_PREFIX} belong to task groups and "
                "to users: copy it to another name to share it."
            )
            yield Fault(path, "reserved_secret_name", message)
        elif name in secrets[:place]:
            yield Fault(path, "twice", f"The Secret {name!r} is listed above already.")


def _platform(name: str, platform: PlatformDocument, pool: PoolDocument) -> Iterator[Fault]:
    path: Path = ("platforms", name)
    yield from check_name(name, path=path)
    yield from label_faults(platform.node_selector, path=(*path, "node_selector"))
    yield from toleration_faults(_plain(platform.tolerations), path=(*path, "tolerations"))
    yield from default_faults(platform.default_variables, path=(*path, "default_variables"))
    if platform.nvlink and not pool.nvlink:
        message = "Its pool has no NVLink, so no task group gets a ComputeDomain: leave it out here too."
        yield Fault((*path, "nvlink"), "nvlink_not_in_pool", message, allowed=("false", "auto"))
    for label, value in platform.node_selector.items():
        selected = pool.node_selector.get(label, value)
        if selected != value:
            message = (
                f'The pool selects {label}={selected}; a platform adds to that and cannot say "{value}".'
            )
            where = (*path, "node_selector", label)
            yield Fault(where, "contradicts_pool", message, allowed=(selected,))
    for field in ("allowed_mounts", "default_mounts"):
        for i, mount in enumerate(getattr(platform, field)):
            if not _MOUNT.fullmatch(mount) or not mount.isprintable() or ".." in re.split("[/:]", mount):
                message = "A mount is an absolute path without '..', or two joined by ':'."
                yield Fault((*path, field, i), "invalid_mount", message, allowed=("/data", "/data:/mnt"))


def _plain(entries: Sequence[TolerationDocument]) -> list[dict[str, Any]]:
    return [entry.model_dump() for entry in entries]


def _timeouts(document: PoolDocument) -> Iterator[Fault]:
    seconds: dict[str, float] = {}
    for field in ("default_exec_timeout", "default_queue_timeout", "max_exec_timeout", "max_queue_timeout"):
        if text := getattr(document, field):
            try:
                seconds[field] = parse_duration(text)
            except ValueError as error:
                yield Fault((field,), "invalid_duration", str(error), allowed=ACCEPTED)
    for kind in ("exec", "queue"):
        default, most = f"default_{kind}_timeout", f"max_{kind}_timeout"
        if seconds.keys() >= {default, most} and seconds[default] > seconds[most]:
            yield over_maximum(default, getattr(document, default), most, getattr(document, most))


def _exit_actions(actions: Mapping[str, str], *, path: Path) -> Iterator[Fault]:
    for action, codes in actions.items():
        if action not in EXIT_ACTIONS:
            message = f'There is no exit action "{action[:MAX_NAME]}".'
            yield Fault((*path, action), "unknown_exit_action", message, allowed=EXIT_ACTIONS)
        try:
            exit_codes(codes)
        except ValueError as error:
            yield Fault((*path, action), "invalid_exit_codes", str(error), allowed=("1-3,7", "3006"))


def recovery_words(document: PoolDocument) -> tuple[RecoveryWords, list[Fault]]:
    """What a pool says of recovery, and the faults of its durations."""
    return read_words(document.recovery.model_dump(), path=("recovery",))


def _gpus(document: PoolDocument) -> Iterator[Fault]:
    gpu = document.resources.gpu
    if gpu is None:
        return
    for field in ("guarantee", "maximum"):
        value = getattr(gpu, field)
        if value < 0 and value != -1:
            message = "A number of GPUs, or -1 for unlimited."
            yield Fault(("resources", "gpu", field), "invalid_number", message)
    if 0 <= gpu.maximum < gpu.guarantee:
        message = f"{gpu.guarantee:g} is over the maximum, which is {gpu.maximum:g}."
        yield Fault(("resources", "gpu", "guarantee"), "over_maximum", message)


def owns_no_topologies(scheduler: str, backend: str) -> str:
    """Say that a pool can name no Topology object of a scheduler; the caller adds what follows from it."""
    return f'Scheduler "{scheduler}" of backend "{backend}" takes no Topology object that a pool could name'


def joins_no_queues(scheduler: str, backend: str) -> str:
    """Say that a scheduler's gangs join no existing queue; the caller adds what follows from it."""
    return f'Scheduler "{scheduler}" of backend "{backend}" has no LocalQueue that a pool could name'
