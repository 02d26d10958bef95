"""The shape of a backend."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

import barrier
from pools.documents.reading import Document, DocumentText, Line
from pools.models import Backend
from pools.values.durations import parse_duration
from scheduling.backends.base import QueueSettings
from scheduling.backends.registry import installed
from scheduling.capabilities import QUEUE_CAPABILITIES
from scheduling.names import QUEUE_PREFIX

READ_ONLY = frozenset(
    {
        "capabilities",
        "capability_table",
        "card",
        "conditions",
        "created_date",
        "k8s_uid",
        "kubernetes_version",
        "last_heartbeat",
        "name",
        "online",
        "revision",
        "scheduler_version",
        "version",
        "warnings",
    }
)
"""What a GET of a backend shows and a write ignores (``name`` must be the backend's own)."""


class SchedulerDocument(Document):
    """The scheduler of a backend, and how its pods name it."""

    scheduler_type: Line = Field(
        "kai", description="Name of a scheduler backend: kai, kubernetes, kueue, default."
    )
    scheduler_name: Line = Field("", description="schedulerName of pods.")
    scheduler_timeout: Annotated[int, Field(ge=1, le=86400)] = Field(30, description="Seconds.")


class NodeConditionsDocument(Document):
    rules: Annotated[dict[Line, Line], Field(max_length=64)] = {}
    prefix: Line = ""


class ShareLimitDocument(Document):
    """The most GPUs and weight that whoever may write a pool alone gives it; null: no limit."""

    guarantee: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e9)] | None = None
    maximum: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e9)] | None = None
    weight: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e9)] | None = None


class QueueDocument(Document):
    """How queues and shards are named, and how long work there is spared.

    Empty: as it is, in a new backend as this service names them. An empty duration is none.
    """

    prefix: Line = Field("", description="What names of our queues begin with.")
    parent: Line = Field("", description="Somebody else's queue above the pools' queues; empty: one of ours.")
    parent_quota: Line = Field(
        "", description="GPUs that our parent queue guarantees: a number, nodes or unlimited."
    )
    label: Line = Field("", description="Label key by which pods name their queue; empty: the scheduler's.")
    node_pool_label: Line = Field(
        "", description="Node label that divides nodes into shards; empty: the scheduler's."
    )
    node_pool: Line = Field(
        "", description="Its value on the nodes of this backend; empty: no shard is named."
    )
    preempt_min_runtime: Line = Field(
        "", description="How long work runs before it may be preempted; empty: not set."
    )
    reclaim_min_runtime: Line = Field(
        "", description="How long work runs before another queue may reclaim its room."
    )
    preemption_delay: Line = Field(
        "", description="How long a group waits before other work is evicted for it."
    )
    own_queues: bool = Field(
        False, description="Kueue: pools without local_queue get queues that the service makes."
    )
    local_queues: Annotated[list[Line], Field(max_length=256)] = Field(
        [],
        description="Kueue: the LocalQueues that somebody who may write a pool alone may have it join; "
        "empty: those that nobody else has.",
    )
    share_limit: ShareLimitDocument = ShareLimitDocument()


class BarrierDocument(Document):
    """The start barrier of task groups."""

    enabled: bool = True
    image: Line = Field("", description="Empty: OSMO_BARRIER_IMAGE; without that there is no start barrier.")
    command: Annotated[list[Line], Field(max_length=32)] = Field(
        [], description="Empty: the one of this service's image."
    )
    limit: Line = Field(
        "",
        description="How long a task waits for its peers; empty: four fifths of the start timeout.",
    )


class BackendDocument(Document):
    """The whole configuration of a backend."""

    description: DocumentText = ""
    enabled: bool = Field(True, description="A disabled backend takes no new workflows.")
    kubeconfig: Line = Field(
        "", description="Path of a file that workers and the observer can read; empty: in-cluster."
    )
    context: Line = ""
    k8s_namespace: Line = Field("osmo", description="Made if missing.")
    scheduler_settings: SchedulerDocument = SchedulerDocument()
    queue_settings: QueueDocument = QueueDocument()
    start_barrier: BarrierDocument = BarrierDocument()
    imex_dns_names: bool = Field(
        True,
        description="Whether the driver's gate IMEXDaemonsWithDNSNames is on, as it is by default; "
        "no API shows it.",
    )
    composite_pod_groups: bool = Field(
        False,
        description="Kubernetes' own scheduler: somebody vouches that it has the gate CompositePodGroup, "
        "which no API shows; else a trial decides.",
    )
    follow_others: bool = Field(
        False, description="Follow the waiting gangs that others submitted to its scheduler, to explain them."
    )
    dashboard_url: Line = ""
    grafana_url: Line = ""
    router_address: Line = ""
    tests: Annotated[list[Line], Field(max_length=64)] = []
    node_conditions: NodeConditionsDocument = NodeConditionsDocument()


COLUMNS = tuple(
    name
    for name in BackendDocument.model_fields
    if name
    not in {"k8s_namespace", "scheduler_settings", "queue_settings", "start_barrier", "node_conditions"}
)
"""Fields of a backend that are columns of the same name and meaning."""


def write(document: BackendDocument, backend: Backend) -> None:
    """Put a document's fields into a row."""
    for name in COLUMNS:
        setattr(backend, name, getattr(document, name))
    backend.namespace = document.k8s_namespace
    backend.node_conditions = document.node_conditions.model_dump()
    backend.queue_settings = _queue_settings(document.queue_settings, backend)
    backend.start_barrier = document.start_barrier.model_dump()
    settings = document.scheduler_settings
    backend.scheduler_type = settings.scheduler_type
    backend.scheduler_name = settings.scheduler_name or default_name(settings.scheduler_type)
    backend.scheduler_timeout = settings.scheduler_timeout


LASTING = ("prefix", "parent_quota")
"""Settings that an empty value leaves as they are: a change would rename or bound what pools use now."""


def _queue_settings(document: QueueDocument, backend: Backend) -> dict[str, Any]:
    before = backend.queue_settings if backend.pk else QUEUE_DEFAULTS
    written = {name: value for name, value in document.model_dump(exclude_none=True).items() if value}
    return {name: before[name] for name in LASTING if name in before} | written


COMPOSITES_HELD = "CompositesHeld"
"""The condition that a scheduler has its hidden gate."""


def version_of(backend: Backend) -> str:
    """The version of a backend's scheduler, with the gate that it is known to have; empty: not known."""
    version, scheduler = backend.scheduler_version, installed().get(backend.scheduler_type)
    is_held = any(c["type"] == COMPOSITES_HELD and c["status"] == "True" for c in backend.conditions)
    if version and is_held and scheduler is not None and scheduler.hidden_gate:
        return f"{version} ({scheduler.hidden_gate})"
    return version


def queues_of(backend: Backend, *, node_gpus: Callable[[], float] = lambda: -1) -> QueueSettings:
    """The settings in force. ``node_gpus`` counts the GPUs of the nodes of the backend's pools."""
    own = QUEUE_DEFAULTS | backend.queue_settings
    quota = own["parent_quota"]
    return QueueSettings(
        prefix=own["prefix"],
        parent=own.get("parent", ""),
        parent_gpus=node_gpus() if quota == "nodes" else -1 if quota == "unlimited" else float(quota),
        label=own.get("label", ""),
        shard=shard_of(backend),
        own=own.get("own_queues", False),
        **{name: parse_duration(own[name]) for name in QUEUE_CAPABILITIES if own.get(name)},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierSettings:
    """The start barrier in force. ``limit`` is in seconds, None where only the start timeout bounds it."""

    image: str
    command: tuple[str, ...]
    limit: float | None


def start_barrier_of(backend: Backend, *, default_image: str) -> BarrierSettings | None:
    """The start barrier of a backend's task groups; None where they have none."""
    own = BarrierDocument(**backend.start_barrier)
    image = own.image or default_image
    if not own.enabled or not image:
        return None
    return BarrierSettings(
        image=image,
        command=tuple(own.command) or barrier.COMMAND,
        limit=parse_duration(own.limit) if own.limit else None,
    )


def shard_of(backend: Backend) -> dict[str, str]:
    """The node label of the backend's shard, and its value; empty for none."""
    own = backend.queue_settings
    if not own.get("node_pool"):
        return {}
    return {own.get("node_pool_label") or shard_label(backend.scheduler_type): own["node_pool"]}


def shard_label(scheduler_type: str) -> str:
    """The label by which a scheduler divides nodes, unless it is set otherwise; empty if it does not."""
    scheduler = installed().get(scheduler_type)
    return scheduler.shard_label if scheduler else ""


QUEUE_DEFAULTS = {"prefix": QUEUE_PREFIX, "parent_quota": "nodes"}
"""What a new backend has where its document says nothing."""


def default_name(scheduler_type: str) -> str:
    """``schedulerName`` of pods where none is given; empty for a scheduler that is not installed."""
    scheduler = installed().get(scheduler_type)
    return scheduler.scheduler_name if scheduler else ""


def document_of(backend: Backend) -> dict[str, Any]:
    """The document of a saved backend."""
    return {
        **{name: getattr(backend, name) for name in COLUMNS},
        "k8s_namespace": backend.namespace,
        "scheduler_settings": {
            "scheduler_type": backend.scheduler_type,
            "scheduler_name": backend.scheduler_name,
            "scheduler_timeout": backend.scheduler_timeout,
        },
        "queue_settings": QueueDocument(**{**QUEUE_DEFAULTS, **backend.queue_settings}).model_dump(),
        "start_barrier": BarrierDocument(**backend.start_barrier).model_dump(),
        "node_conditions": {"rules": {}, "prefix": "", **backend.node_conditions},
    }
