"""What configuration must satisfy before it is saved, as pure functions from values to faults.

Every door (REST, admin, import) passes the same checks, because they sit below the services. What needs
other rows (which backend, what its scheduler can hold, which pools use it) comes in as values, read by the
service under its locks. Paths are relative to the object; the caller prefixes them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pools.documents.backend import BackendDocument
from pools.documents.pool import PlatformDocument, PoolDocument, TolerationDocument
from pools.documents.workflow import WorkflowConfigDocument
from pools.models import CONFIG_NAME, config_name
from pools.pod_templates.rules import default_faults
from pools.values.durations import ACCEPTED, parse_duration
from pools.values.exit_codes import exit_codes
from pools.values.selection import label_faults, toleration_faults
from scheduling import names
from scheduling.capabilities import Capabilities, check_pool_levels
from scheduling.errors import Fault, Path, in_order
from scheduling.levels import Levels, check_levels

MAX_NAME = 63
MAX_OBJECT_NAME = 253
EXIT_ACTIONS = ("COMPLETE", "FAIL", "RESCHEDULE")

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SCHEDULER_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MOUNT = re.compile(r"/[^:]*(:/[^:]*)?")
_URL = re.compile(r"https?://\S+")


def check_name(name: str, *, path: Path) -> list[Fault]:
    """Find what is wrong with the name of a pool, platform or backend."""
    if len(name) <= MAX_NAME and re.fullmatch(CONFIG_NAME, name):
        return []
    message = f"{name[:MAX_NAME]!r} is no name: at most {MAX_NAME} characters. {config_name.message}"
    return [Fault(path, "invalid_name", message, allowed=(CONFIG_NAME,))]


def check_pool(document: PoolDocument) -> list[Fault]:
    """Find everything wrong with a pool that can be seen from the pool alone."""
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
    faults += _shared_credentials(document.shared_credentials)
    faults += _timeouts(document)
    faults += _exit_actions(document.default_exit_actions, path=("default_exit_actions",))
    faults += _gpus(document)
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
    lacks: Mapping[str, Sequence[str]],
) -> list[Fault]:
    """Find what a pool's backend cannot do for it; ``moved`` says that the pool was not there before.

    ``schedulers``: the scheduler backends that are installed; ``usable``: the backends that take pools.
    ``owns_topologies``: its scheduler reads levels from objects in the cluster, which somebody else may own.
    ``lacks``: what the cluster was found not to serve, by the field of the pool that is new and needs it.
    """
    disabled = []
    if moved and not enabled:
        message = f'Backend "{backend}" is disabled: enable it, or name another one.'
        disabled.append(Fault(("backend",), "backend_disabled", message, allowed=tuple(usable)))
    if moved and capabilities.scheduler not in schedulers:  # what it could hold is not known
        return [*disabled, _uninstalled(backend, capabilities.scheduler, schedulers)]
    faults = check_pool_levels(document.levels, capabilities=capabilities, path=("topology_keys",))
    for field, gone in lacks.items():
        message = f'Backend "{backend}" does not serve what this needs: {"; ".join(gone)}.'
        faults.append(Fault((field,), "not_served", message))
    if document.topology_source == "external" and not owns_topologies:
        message = f"{_owns_none(capabilities.scheduler, backend)}, so there is none to name."
        faults.append(Fault(("topology_source",), "no_topology_objects", message, allowed=("managed",)))
    return [*faults, *disabled]


def _uninstalled(backend: str, scheduler: str, schedulers: Sequence[str]) -> Fault:
    there = tuple(sorted(schedulers))
    message = (
        f'Backend "{backend}" has scheduler "{scheduler}", which is not installed here; there are '
        f"{', '.join(there)}: install it, or name a backend with one of these."
    )
    return Fault(("backend",), "scheduler_not_installed", message, allowed=there)


def _owns_none(scheduler: str, backend: str) -> str:
    return (
        f'Scheduler "{scheduler}" of backend "{backend}" reads levels from node labels and from no Topology '
        "object"
    )


def _topology_source(document: PoolDocument) -> Iterator[Fault]:
    name = document.topology_name
    if document.topology_source == "managed":
        if name:
            message = "A managed topology has no name: leave it out, or write topology_source: external."
            yield Fault(("topology_name",), "name_of_managed_topology", message)
        return
    if not name or len(name) > MAX_OBJECT_NAME or not _OBJECT_NAME.fullmatch(name):
        message = (
            "An external topology is named as the object in the cluster is: lower-case letters, digits, '-' "
            f"and '.', at most {MAX_OBJECT_NAME} characters."
        )
        yield Fault(("topology_name",), "invalid_topology_name", message)
    if not document.topology_keys:
        message = "An external topology needs topology_keys: they say which of its levels users may name."
        yield Fault(("topology_keys",), "no_keys", message)


def _shared_credentials(secrets: Sequence[str]) -> Iterator[Fault]:
    """A pool shares Secrets that are nobody's: no task group's files, and no user's own."""
    for place, name in enumerate(secrets):
        path: Path = ("shared_credentials", place)
        if len(name) > names.MAX_CREDENTIAL or not _OBJECT_NAME.fullmatch(name):
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


def unknown_backend(name: str, *, known: Sequence[str]) -> Fault:
    near = get_close_matches(name, known, n=1)
    hint = f'; did you mean "{near[0]}"?' if near else "."
    message = f'There is no backend "{name[:MAX_NAME]}"{hint}'
    return Fault(("backend",), "unknown_backend", message, allowed=tuple(sorted(known)))


def check_backend(document: BackendDocument, *, schedulers: Sequence[str]) -> list[Fault]:
    """Find everything wrong with a backend that can be seen from the backend alone."""
    faults: list[Fault] = []
    settings = document.scheduler_settings
    if settings.scheduler_type not in schedulers:
        near = get_close_matches(settings.scheduler_type, schedulers, n=1)
        hint = f'; did you mean "{near[0]}"?' if near else "."
        message = f'There is no scheduler backend "{settings.scheduler_type[:MAX_NAME]}"{hint}'
        where = ("scheduler_settings", "scheduler_type")
        faults.append(Fault(where, "unknown_scheduler", message, allowed=tuple(sorted(schedulers))))
    if settings.scheduler_name and not _SCHEDULER_NAME.fullmatch(settings.scheduler_name):
        message = "A schedulerName is lower-case letters, digits, '-' and '.', at most 253 characters."
        faults.append(Fault(("scheduler_settings", "scheduler_name"), "invalid_scheduler_name", message))
    if not _NAMESPACE.fullmatch(document.k8s_namespace):
        message = "A namespace is lower-case letters, digits and '-', at most 63 characters."
        faults.append(Fault(("k8s_namespace",), "invalid_namespace", message))
    faults += _kubeconfig(document)
    for field in ("dashboard_url", "grafana_url"):
        url = getattr(document, field)
        if url and not _URL.fullmatch(url):
            faults.append(Fault((field,), "invalid_url", "A link begins with http:// or https://."))
    return in_order(faults)


def check_scheduler_holds_pools(
    pools: Mapping[str, Levels], *, capabilities: Capabilities, path: Path
) -> list[Fault]:
    """Find the pools of a backend whose topology keys its scheduler, as changed, could not hold."""
    faults = []
    for name, levels in sorted(pools.items()):
        for fault in check_pool_levels(levels, capabilities=capabilities, path=path):
            message = f'Pool "{name}" of this backend has topology keys. {fault.message}'
            faults.append(Fault(path, fault.code, message, fault.allowed, capability=fault.capability))
    return faults


def check_backend_serves_pools(
    lacks: Mapping[str, Mapping[str, Sequence[str]]],
    *,
    external: Mapping[str, str],
    backend: str,
    scheduler: str,
    owns_topologies: bool,
    path: Path,
) -> list[Fault]:
    """Find the pools of a backend that it, as changed, could no longer serve.

    ``lacks``: by pool, what its new cluster was found not to serve, by the pool's field that needs it.
    ``external``: by pool, the Topology object of somebody else that it names.
    """
    faults = []
    for pool, fields in sorted(lacks.items()):
        for field, gone in fields.items():
            message = (
                f'Pool "{pool}" of this backend has {field}, and what that needs is not served there: '
                f"{'; '.join(gone)}."
            )
            faults.append(Fault(path, "not_served", message))
    for pool, name in sorted(external.items()) if not owns_topologies else ():
        message = (
            f'Pool "{pool}" of this backend names Topology "{name}". {_owns_none(scheduler, backend)}: move '
            "the pool first, or give it topology_source: managed."
        )
        faults.append(Fault(path, "no_topology_objects", message))
    return faults


def check_workflow_config(document: WorkflowConfigDocument) -> list[Fault]:
    return in_order(
        _order(f"default_{kind}_timeout", default, f"max_{kind}_timeout", most)
        for kind, default, most in (
            ("exec", document.default_exec_timeout, document.max_exec_timeout),
            ("queue", document.default_queue_timeout, document.max_queue_timeout),
        )
        if parse_duration(default) > parse_duration(most)
    )


def _platform(name: str, platform: PlatformDocument, pool: PoolDocument) -> Iterator[Fault]:
    path: Path = ("platforms", name)
    yield from check_name(name, path=path)
    yield from label_faults(platform.node_selector, path=(*path, "node_selector"))
    yield from toleration_faults(_plain(platform.tolerations), path=(*path, "tolerations"))
    yield from default_faults(platform.default_variables, path=(*path, "default_variables"))
    for label, value in platform.node_selector.items():
        ours = pool.node_selector.get(label, value)
        if ours != value:
            message = f'The pool selects {label}={ours}; a platform adds to that and cannot say "{value}".'
            where = (*path, "node_selector", label)
            yield Fault(where, "contradicts_pool", message, allowed=(ours,))
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
            yield _order(default, getattr(document, default), most, getattr(document, most))


def _order(default: str, given: str, most: str, bound: str) -> Fault:
    return Fault((default,), "over_maximum", f"{given} is over {most}, which is {bound}.")


def _exit_actions(actions: Mapping[str, str], *, path: Path) -> Iterator[Fault]:
    for action, codes in actions.items():
        if action not in EXIT_ACTIONS:
            message = f'There is no exit action "{action[:MAX_NAME]}".'
            yield Fault((*path, action), "unknown_exit_action", message, allowed=EXIT_ACTIONS)
        try:
            exit_codes(codes)
        except ValueError as error:
            yield Fault((*path, action), "invalid_exit_codes", str(error), allowed=("1-3,7", "3006"))


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


def _kubeconfig(document: BackendDocument) -> Iterator[Fault]:
    path = document.kubeconfig
    if path and (not path.startswith("/") or not path.isprintable()):
        message = (
            "The absolute path of a file that workers and the observer can read; its contents are never kept "
            "here. Empty: the service account of the pod they run in."
        )
        yield Fault(("kubeconfig",), "invalid_path", message, allowed=("/etc/osmo/kubeconfig", ""))
    if document.context and not path:
        message = "A context is one of a kubeconfig: give the file, or leave the context empty."
        yield Fault(("context",), "context_without_kubeconfig", message, allowed=("",))
