"""The shapes of configuration on the wire, which ``representations`` makes.

A shape with ``fields_of`` a document declares only what it adds, and the fields whose value has a shape. The
bodies of writes are described here and not checked: ``pools.documents`` reads them below the services, so
that every door has the same checks. A body may leave out any field of a document and may hold the read-only
ones, so that a PUT accepts what a GET returned.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import SerializeAsAny

from pools.api.document_fields import fields_of
from pools.documents.backend import (
    BackendDocument,
    BarrierDocument,
    NodeConditionsDocument,
    QueueDocument,
    SchedulerDocument,
    ShareLimitDocument,
)
from pools.documents.pool import NewsTargetDocument, PlatformDocument, PoolDocument, TopologyKeyDocument
from pools.documents.recovery import BackoffDocument, RecoveryDocument
from pools.documents.workflow import UserLimitsDocument, WorkflowConfigDocument, WorkflowInfoDocument
from web.rest.shapes import AsStored, Instant, OwnInstant, Shape, about, absent, absent_or_null, read_only


@fields_of(TopologyKeyDocument)
class TopologyKeyShape(Shape):
    needed_in_requests = ("key", "label")


class TolerationShape(Shape):
    key: str | None = absent()
    operator: str | None = absent("Equal (default) or Exists.")
    value: str | None = absent()
    effect: str | None = absent("Empty for all effects.")
    tolerationSeconds: int | None = absent()  # noqa: N815 -- Kubernetes' name


class ConditionShape(Shape):
    type: str
    status: str = about("True, False or Unknown.")
    reason: str
    message: str
    lastTransitionTime: str = about("Naive UTC.")  # noqa: N815 -- Kubernetes' name
    observedRevision: int  # noqa: N815 -- after Kubernetes' observedGeneration


class DefaultEntryShape(Shape):
    needed_in_requests = ("key",)

    key: str
    group: str | None = absent("default (default).")
    requirementType: str | None = absent(  # noqa: N815 -- OSMO's field
        "required (default), preferred or auto."
    )
    waitSeconds: int | None = absent(  # noqa: N815
        "Seconds for which a preference is required first."
    )


class DefaultSegmentShape(Shape):
    needed_in_requests = ("size", "key")

    size: int
    key: str
    requirementType: str | None = absent(  # noqa: N815 -- OSMO's field
        "required (default), preferred or auto."
    )
    waitSeconds: int | None = absent(  # noqa: N815
        "Seconds for which a preference is required first."
    )


class DefaultTopologyShape(Shape):
    """What task groups get that name no key: pack, or the others."""

    pack: bool | None = absent("true: preferred at every key of the pool.")
    topology: list[DefaultEntryShape] | None = absent(
        "As the topology of a task group. Empty on a platform: none, whatever its pool has."
    )
    segment: list[DefaultSegmentShape] | None = absent("As that of a task group: one level, or a list.")


StoredDefault = Annotated[DefaultTopologyShape | None, AsStored()]


@fields_of(
    PlatformDocument,
    "description",
    "nvlink",
    "host_network_allowed",
    "privileged_allowed",
    "allowed_mounts",
    "default_mounts",
    "default_topology",
)
class MinimalPlatformShape(Shape):
    default_topology: StoredDefault = about(
        "For groups all of whose tasks with GPUs are on it; null: as the pool."
    )


@fields_of(PlatformDocument)
class PlatformShape(MinimalPlatformShape):
    tolerations: Annotated[list[TolerationShape], AsStored()]
    default_variables: dict[str, Any] = about("Replace the pool's of the same name.")
    resource_validations: list[Any] = about("Must be empty.")


class GpuShape(Shape):
    guarantee: float | None = absent("-1: unlimited.")
    maximum: float | None = absent("-1: unlimited.")
    weight: float | None = absent()


class ResourcesShape(Shape):
    gpu: GpuShape | None


@fields_of(BackoffDocument)
class BackoffShape(Shape):
    pass


@fields_of(RecoveryDocument)
class RecoveryShape(Shape):
    """What follows when a task group loses a task: requeue (the whole group again), task (that one), fail."""

    backoff: BackoffShape = about("Pauses before attempts that do not follow a preemption.")


class NamedShape(Shape):
    name: str = read_only()


@fields_of(
    PoolDocument,
    "description",
    "status",
    "download_type",
    "enable_maintenance",
    "backend",
    "nvlink",
    "default_platform",
    "default_exec_timeout",
    "default_queue_timeout",
    "max_exec_timeout",
    "max_queue_timeout",
    "default_exit_actions",
    "recovery",
    "max_recoveries",
    "max_grace_period_seconds",
    "resources",
    "topology_keys",
    "default_topology",
)
class PoolBaseShape(NamedShape):
    needed_in_requests = ("backend",)

    status: str = read_only("ONLINE, OFFLINE or MAINTENANCE.")
    recovery: Annotated[RecoveryShape, AsStored()]
    resources: Annotated[ResourcesShape, AsStored()]
    topology_keys: Annotated[list[TopologyKeyShape], AsStored()] = about("Broadest first; at most 16.")
    default_topology: StoredDefault = about(
        "What groups of two or more tasks with GPUs get that name no key; null: nothing."
    )
    revision: int = read_only()
    conditions: Annotated[list[ConditionShape], AsStored()] = read_only()


class DeliveryShape(Shape):
    """News on its way to a target, which is named by the host of its address alone."""

    kind: str
    target: str
    state: str = about("waiting (tried again), sent or given_up.")
    tries: int
    error: str | None
    time: Instant = about("Naive UTC.")


@fields_of(NewsTargetDocument)
class NewsTargetShape(Shape):
    pass


class MinimalPoolShape(PoolBaseShape):
    platforms: Annotated[dict[str, MinimalPlatformShape], AsStored()]


@fields_of(PoolDocument)
class PoolShape(PoolBaseShape):
    platforms: Annotated[dict[str, PlatformShape], AsStored()]
    tolerations: Annotated[list[TolerationShape], AsStored()]
    notify: Annotated[list[NewsTargetShape], AsStored()] = about("Targets of news of its workflows.")
    notify_problems: list[DeliveryShape] = read_only("What these targets did not take lately.")
    common_default_variables: dict[str, Any] = about("Defaults of template variables, such as USER_CPU: 4.")
    common_resource_validations: list[Any] = about("Must be empty.")
    common_group_templates: list[Any] = about("Must be empty.")
    parsed_pod_template: dict[str, Any] | None = absent("With verbose only.")
    parsed_resource_validations: list[Any] | None = absent("With verbose only.")
    parsed_group_templates: list[Any] | None = absent("With verbose only.")
    parsed_pod_template_for_accounting: dict[str, Any] | None = absent("With verbose only.")
    last_heartbeat: Instant | None = absent_or_null("With verbose only. Naive UTC.")
    warnings: list[str] | None = absent("In replies to writes.")


class VerbosePoolShape(PoolShape):
    """A pool with what is derived from its templates and its backend."""

    last_heartbeat: Instant | None = read_only("Naive UTC.")


@fields_of(SchedulerDocument)
class SchedulerSettingsShape(Shape):
    pass


@fields_of(ShareLimitDocument)
class ShareLimitShape(Shape):
    """The most that whoever may write a pool alone gives it; null: no limit."""


@fields_of(QueueDocument)
class QueueSettingsShape(Shape):
    """How the scheduler's queues and shards are named, where others use it too."""

    share_limit: ShareLimitShape


@fields_of(BarrierDocument)
class StartBarrierShape(Shape):
    """What lets the tasks of a group begin together."""


@fields_of(NodeConditionsDocument)
class NodeConditionsShape(Shape):
    pass


class CapabilityShape(Shape):
    """One capability as a backend's scheduler has it."""

    capability: str
    held: bool
    needs: str | None = about("The scheduler's version for it. null: no version has it.")
    meaning: str


@fields_of(BackendDocument)
class BackendShape(NamedShape):
    scheduler_settings: SchedulerSettingsShape
    queue_settings: QueueSettingsShape
    start_barrier: Annotated[StartBarrierShape, AsStored()]
    node_conditions: Annotated[NodeConditionsShape, AsStored()]
    k8s_uid: str = read_only("uid of the cluster's kube-system namespace.")
    version: str = read_only("Kubernetes version.")
    scheduler_version: str = read_only("Inferred from served schemas.")
    capabilities: Annotated[dict[str, Any], AsStored()] = read_only()
    capability_table: list[CapabilityShape] = read_only()
    card: Annotated[dict[str, Any], AsStored()] = read_only("What the last probe that was answered found.")
    conditions: Annotated[list[ConditionShape], AsStored()] = read_only()
    last_heartbeat: Instant | None = read_only("Naive UTC.")
    created_date: Instant = read_only("Naive UTC.")
    online: bool = read_only()
    revision: int = read_only()
    warnings: list[str] | None = absent("In replies to writes.")


@fields_of(WorkflowInfoDocument)
class WorkflowInfoShape(Shape):
    pass


@fields_of(UserLimitsDocument)
class UserLimitsShape(Shape):
    pass


@fields_of(WorkflowConfigDocument)
class WorkflowConfigShape(Shape):
    workflow_info: WorkflowInfoShape
    user_workflow_limits: UserLimitsShape
    revision: int = read_only()


class RoomShape(Shape):
    free_nodes: int = about("Nodes that take work and hold none; in a pool with GPUs only nodes with GPUs.")
    gpus: int
    free_gpus: int = about("Of nodes that take work.")
    uncounted_nodes: int = about("Nodes of which it is not known how many GPUs the pool's scheduler gives.")


class DomainShape(RoomShape):
    path: list[str] = about("Label values, broadest key first; the domain's identity.")
    nodes: int


class KeyDomainsShape(TopologyKeyShape):
    level: int = about("0 is the broadest.")
    domain_count: int
    nodes_without_label: int = about(
        "Nodes of the pool without this label or a broader one; no requirement can use them."
    )
    domains: list[DomainShape]


class PoolKeysShape(Shape):
    name: str
    revision: int
    backend: str
    nvlink: bool
    topology_keys: list[TopologyKeyShape] = about("Broadest first.")


class ObservedShape(Shape):
    """How fresh the numbers are that it has beside: the same three fields everywhere."""

    observed_at: Instant | None = about(
        "When the observer last heard from the cluster; naive UTC. null: its nodes were never listed."
    )
    age_seconds: float | None = about("How long ago that was, by the database's clock.")
    freshness: Literal["fresh", "old", "never"] = about(
        "old: the observer has been silent for a minute or more, and nothing here is proven any more."
    )


class OwnObservedShape(ObservedShape):
    """The same on paths of ours."""

    observed_at: OwnInstant | None = about(
        "When the observer last heard from the cluster. null: its nodes were never listed."
    )


class PoolTopologyShape(RoomShape, OwnObservedShape):
    name: str
    revision: int
    backend: str
    nvlink: bool
    capabilities: Annotated[dict[str, Any], AsStored()] = about("What the pool's scheduler can hold.")
    nodes: int = about("Nodes of the pool.")
    topology_keys: list[KeyDomainsShape] = about("Broadest first.")


class AllKeysShape(Shape):
    pools: dict[str, PoolKeysShape]


class MinimalPoolsShape(Shape):
    pools: dict[str, MinimalPoolShape]


class PoolsShape(Shape):
    pools: dict[str, SerializeAsAny[PoolShape]]
    warnings: list[str] | None = absent("In replies to writes.")


class BackendsShape(Shape):
    backends: list[BackendShape]


class WriteShape(Shape):
    needed_in_requests: ClassVar[tuple[str, ...]] = (
        "config_type",
        "configs",
        "configs_dict",
        "file",
        "new_name",
        "revision",
    )

    description: str | None = absent("The reason for the change, kept in the history.")
    tags: list[str] | None = absent()


class PoolsWriteShape(WriteShape):
    configs: dict[str, PoolShape]


class PoolWriteShape(WriteShape):
    configs: PoolShape


class PoolPatchShape(WriteShape):
    configs_dict: dict[str, Any] = about(
        "Fields to change: maps are merged, null resets, lists are replaced."
    )


class BackendWriteShape(WriteShape):
    configs: BackendShape


class WorkflowConfigWriteShape(WriteShape):
    configs: WorkflowConfigShape


class WorkflowConfigPatchShape(WriteShape):
    configs_dict: dict[str, Any] = about("Fields to change; null resets one.")


class DeletedShape(Shape):
    name: str
