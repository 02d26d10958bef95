"""The shapes of configuration on the wire, which ``representations`` makes.

The bodies of writes are described here and not checked: ``pools.documents`` reads them below the services, so
that every door has the same checks. A body may leave out any field of a document and may hold the read-only
ones, so that a PUT accepts what a GET returned.
"""

from typing import Annotated, Any, ClassVar

from pydantic import SerializeAsAny

from web.shapes import AsStored, Instant, Shape, about, absent, absent_or_null, read_only


class TopologyKeyShape(Shape):
    needed_in_requests = ("key", "label")

    key: str = about("Name users write in a workflow, e.g. rack.")
    label: str = about("Node label that carries the domain's name.")


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


class MinimalPlatformShape(Shape):
    description: str
    nvlink: bool | None = about("Whether its hardware has multi-node NVLink. null: as the pool.")
    host_network_allowed: bool
    privileged_allowed: bool
    allowed_mounts: list[str]
    default_mounts: list[str]


class PlatformShape(MinimalPlatformShape):
    node_selector: dict[str, str] = about("Adds to the pool's; may not contradict it.")
    tolerations: Annotated[list[TolerationShape], AsStored()]
    default_variables: dict[str, Any] = about("Replace the pool's of the same name.")
    resource_validations: list[Any] = about("Must be empty.")
    override_pod_template: list[str] = about("Pod templates laid over the pool's, in this order.")


class GpuShape(Shape):
    guarantee: float | None = absent("-1: unlimited.")
    maximum: float | None = absent("-1: unlimited.")
    weight: float | None = absent()


class ResourcesShape(Shape):
    gpu: GpuShape | None


class BackoffShape(Shape):
    first: str = about("The first pause, such as 30s; doubled with each further one.")
    limit: str = about("The longest.")


class RecoveryShape(Shape):
    """What follows when a task group loses a task: requeue (the whole group again), task (that one), fail."""

    preempted: str
    node_lost: str
    failed: str
    unexplained: str | None = about("After a deletion that nothing explains; null: as preempted.")
    max: int = about("Losses by failure or node that are recovered from.")
    max_preemptions: int | None = about("Preemptions that are recovered from; null: no limit.")
    replace_patience: str = about("How long one task may wait for a place beside its peers.")
    avoid_nodes: int = about("Nodes, on which the group lost a task last, that the next attempt avoids.")
    backoff: BackoffShape = about("Pauses before attempts that do not follow a preemption.")


class PoolBaseShape(Shape):
    needed_in_requests = ("backend",)

    name: str = read_only()
    description: str
    status: str = read_only("ONLINE, OFFLINE or MAINTENANCE.")
    download_type: str | None = about("null or download.")
    enable_maintenance: bool
    backend: str
    nvlink: bool = about("Multi-node NVLink: each task group gets a ComputeDomain.")
    default_platform: str
    default_exec_timeout: str
    default_queue_timeout: str
    max_exec_timeout: str
    max_queue_timeout: str
    default_exit_actions: dict[str, str]
    recovery: Annotated[RecoveryShape, AsStored()]
    max_recoveries: int = about("The most that `recovery.max` of a workflow or task group may say.")
    max_grace_period_seconds: int = about("The most that a task's terminationGracePeriodSeconds may say.")
    resources: Annotated[ResourcesShape, AsStored()]
    topology_keys: Annotated[list[TopologyKeyShape], AsStored()] = about("Broadest first; at most 16.")
    revision: int = read_only()
    conditions: Annotated[list[ConditionShape], AsStored()] = read_only()


class MinimalPoolShape(PoolBaseShape):
    platforms: Annotated[dict[str, MinimalPlatformShape], AsStored()]


class PoolShape(PoolBaseShape):
    platforms: Annotated[dict[str, PlatformShape], AsStored()]
    node_selector: dict[str, str] = about("Empty: all nodes of the backend.")
    tolerations: Annotated[list[TolerationShape], AsStored()]
    split_gangs: str = about(
        "refuse or warn: what to do with a task group its scheduler cannot hold as one gang."
    )
    compute_domains: str = about(
        "every_group or claiming_groups: which task groups of an NVLink pool get a ComputeDomain."
    )
    unsupported_preferred: str = about(
        "refuse or warn: what to do with a preference that its scheduler cannot hold."
    )
    infeasible: str = about("accept, warn or refuse: what to do with a task group that can never be placed.")
    free_preferences_after: int = about(
        "Seconds of waiting after which a preference gives way, if there is room now that it does not see; "
        "0: never."
    )
    node_lost_after: int = about(
        "Seconds for which a node may be not ready or unreachable before it is lost; 0: for ever."
    )
    force_lost_pods: bool = about(
        "Whether pods of a lost node are deleted although nobody can confirm their end."
    )
    avoid_suspect_nodes: bool = about(
        "Whether new workflows avoid nodes on which groups of several users were lost lately."
    )
    topology_source: str = about("managed: this service makes the Topology objects; external: it uses one.")
    topology_name: str = about("Name of the external Topology object.")
    local_queue: str = about(
        "Kueue: the LocalQueue that its groups join; empty: the one of the pool's own name."
    )
    shared_credentials: list[str] = about(
        "Secrets of the backend's namespace that tasks of everybody in this pool may read."
    )
    max_num_workflows: int | None = about("Most workflows that have not ended; null is no limit.")
    max_num_tasks: int | None = about("Most tasks that have not ended; null is no limit.")
    max_num_workflows_per_user: int | None = about(
        "Most workflows that have not ended, of one user; null is no limit."
    )
    max_num_tasks_per_user: int | None = about(
        "Most tasks that have not ended, of one user; null is no limit."
    )
    ended_workflow_days: int | None = about(
        "Days for which its ended workflows are kept; 0: for ever; null: as the installation is set."
    )
    common_default_variables: dict[str, Any] = about("Defaults of template variables, such as USER_CPU: 4.")
    common_resource_validations: list[Any] = about("Must be empty.")
    common_pod_template: list[str] = about("Pod templates laid over its pods, in this order.")
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


class SchedulerSettingsShape(Shape):
    scheduler_type: str = about("Name of a scheduler backend: kai, kubernetes, kueue, default.")
    scheduler_name: str = about("schedulerName of pods.")
    scheduler_timeout: int = about("Seconds.")


class QueueSettingsShape(Shape):
    """How the scheduler's queues and shards are named, where others use it too."""

    prefix: str = about("What names of our queues begin with.")
    parent: str = about("Somebody else's queue above the pools' queues; empty: one of ours.")
    parent_quota: str = about("GPUs that our parent queue guarantees: a number, nodes or unlimited.")
    label: str = about("Label key by which pods name their queue; empty: the scheduler's.")
    node_pool_label: str = about("Node label that divides nodes into shards; empty: the scheduler's.")
    node_pool: str = about("Its value on the nodes of this backend; empty: no shard is named.")
    preempt_min_runtime: str = about("How long work runs before it may be preempted; empty: not set.")
    reclaim_min_runtime: str = about("How long work runs before another queue may reclaim its room.")
    preemption_delay: str = about("How long a group waits before other work is evicted for it.")
    own_queues: bool = about("Kueue: pools without local_queue get queues that the service makes.")


class StartBarrierShape(Shape):
    """What lets the tasks of a group begin together."""

    enabled: bool
    image: str = about("Empty: OSMO_BARRIER_IMAGE; without that there is no start barrier.")
    command: list[str] = about("Empty: the one of this service's image.")
    limit: str = about("How long a task waits for its peers; empty: four fifths of the start timeout.")


class NodeConditionsShape(Shape):
    rules: dict[str, str]
    prefix: str


class CapabilityShape(Shape):
    """One capability as a backend's scheduler has it."""

    capability: str
    held: bool
    needs: str | None = about("The scheduler's version for it. null: no version has it.")
    meaning: str


class BackendShape(Shape):
    name: str = read_only()
    description: str
    enabled: bool = about("A disabled backend takes no new workflows.")
    kubeconfig: str = about("Path of a file that workers and the observer can read; empty: in-cluster.")
    context: str
    k8s_namespace: str = about("Made if missing.")
    scheduler_settings: SchedulerSettingsShape
    queue_settings: QueueSettingsShape
    start_barrier: Annotated[StartBarrierShape, AsStored()]
    imex_dns_names: bool = about(
        "Whether the driver's gate IMEXDaemonsWithDNSNames is on, as it is by default; no API shows it."
    )
    dashboard_url: str
    grafana_url: str
    router_address: str
    tests: list[str]
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


class WorkflowInfoShape(Shape):
    max_name_length: int


class UserLimitsShape(Shape):
    max_num_workflows: int | None
    max_num_tasks: int | None


class WorkflowConfigShape(Shape):
    max_num_tasks: int
    max_num_dependencies: int
    max_retry_per_task: int
    max_object_bytes: int
    default_exec_timeout: str
    default_queue_timeout: str
    max_exec_timeout: str
    max_queue_timeout: str
    max_pod_restart_limit: str
    max_log_lines: int
    max_error_log_lines: int
    max_event_log_lines: int
    workflow_info: WorkflowInfoShape
    user_workflow_limits: UserLimitsShape
    revision: int = read_only()


class RoomShape(Shape):
    free_nodes: int = about("Nodes that take work and hold none; in a pool with GPUs only nodes with GPUs.")
    gpus: int
    free_gpus: int = about("Of nodes that take work.")


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


class PoolTopologyShape(RoomShape):
    name: str
    revision: int
    backend: str
    nvlink: bool
    capabilities: Annotated[dict[str, Any], AsStored()] = about("What the pool's scheduler can hold.")
    nodes: int = about("Nodes of the pool.")
    nodes_synced_at: Instant | None = about("When the node list was last complete; naive UTC. null: never.")
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
