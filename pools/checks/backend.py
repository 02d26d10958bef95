"""What a backend must satisfy before it is saved, alone and together with its pools. Pure.

Paths are relative to the backend; the caller prefixes them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pools.checks.names import MAX_NAME
from pools.checks.pool import owns_no_topologies
from pools.documents.backend import BackendDocument
from pools.documents.reading import suggestion
from scheduling.capabilities import Capabilities, check_pool_levels
from scheduling.errors import Fault, Path, in_order
from scheduling.kubernetes_syntax import is_dns_label
from scheduling.levels import Levels

_SCHEDULER_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_URL = re.compile(r"https?://\S+")


def check_backend(document: BackendDocument, *, schedulers: Sequence[str]) -> list[Fault]:
    """Find the faults of a backend that can be seen from the backend alone."""
    faults: list[Fault] = []
    settings = document.scheduler_settings
    if settings.scheduler_type not in schedulers:
        hint = suggestion(settings.scheduler_type, schedulers)
        message = f'There is no scheduler backend "{settings.scheduler_type[:MAX_NAME]}"{hint}'
        where = ("scheduler_settings", "scheduler_type")
        faults.append(Fault(where, "unknown_scheduler", message, allowed=tuple(sorted(schedulers))))
    if settings.scheduler_name and not _SCHEDULER_NAME.fullmatch(settings.scheduler_name):
        message = "A schedulerName is lower-case letters, digits, '-' and '.', at most 253 characters."
        faults.append(Fault(("scheduler_settings", "scheduler_name"), "invalid_scheduler_name", message))
    if not is_dns_label(document.k8s_namespace):
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
    """Find the pools of a backend whose topology keys its new scheduler could not hold."""
    faults = []
    for name, levels in sorted(pools.items()):
        for fault in check_pool_levels(levels, capabilities=capabilities, path=path):
            message = f'Pool "{name}" of this backend has topology keys. {fault.message}'
            faults.append(replace(fault, path=path, message=message))
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
    """Find the pools of a backend that it could no longer serve after a change.

    ``lacks``: by pool, what its new cluster does not serve, by the pool's field that needs it. ``external``:
    by pool, the external Topology object that it names.
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
    return faults


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
