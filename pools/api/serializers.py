"""The wire shapes of configuration, as the OpenAPI schema shows them.

They describe and do not check: documents are read by ``pools.documents`` below the services, so that every
door has the same checks. ``representations`` makes the replies; a test holds the two together.
"""

from typing import Any

from rest_framework import serializers


class TopologyKeySerializer(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="Name users write in a workflow, e.g. rack.")
    label = serializers.CharField(  # type: ignore[assignment]  # declared fields leave the class
        help_text="Node label that carries the domain's name."
    )


class TolerationSerializer(serializers.Serializer[Any]):
    key = serializers.CharField(required=False)
    operator = serializers.CharField(required=False, help_text="Equal (default) or Exists.")
    value = serializers.CharField(required=False)
    effect = serializers.CharField(required=False, help_text="Empty for all effects.")
    tolerationSeconds = serializers.IntegerField(required=False)  # noqa: N815 -- Kubernetes' name


class ConditionSerializer(serializers.Serializer[Any]):
    type = serializers.CharField()
    status = serializers.CharField(help_text="True, False or Unknown.")
    reason = serializers.CharField()
    message = serializers.CharField()
    lastTransitionTime = serializers.CharField(help_text="Naive UTC.")  # noqa: N815 -- Kubernetes' name
    observedRevision = serializers.IntegerField()  # noqa: N815 -- after Kubernetes' observedGeneration


class MinimalPlatformSerializer(serializers.Serializer[Any]):
    description = serializers.CharField(required=False)
    host_network_allowed = serializers.BooleanField(required=False)
    privileged_allowed = serializers.BooleanField(required=False)
    allowed_mounts = serializers.ListField(child=serializers.CharField(), required=False)
    default_mounts = serializers.ListField(child=serializers.CharField(), required=False)


class PlatformSerializer(MinimalPlatformSerializer):
    node_selector = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="Adds to the pool's; may not contradict it."
    )
    tolerations = TolerationSerializer(many=True, required=False)
    default_variables = serializers.DictField(required=False, help_text="Go over the pool's.")
    resource_validations = serializers.ListField(required=False, help_text="Must be empty.")
    override_pod_template = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Pod templates laid over the pool's, in this order.",
    )


class GpuSerializer(serializers.Serializer[Any]):
    guarantee = serializers.FloatField(required=False, help_text="-1: unlimited.")
    maximum = serializers.FloatField(required=False, help_text="-1: unlimited.")
    weight = serializers.FloatField(required=False)


class ResourcesSerializer(serializers.Serializer[Any]):
    gpu = GpuSerializer(required=False, allow_null=True)


class PoolBaseSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(read_only=True)
    description = serializers.CharField(required=False)
    status = serializers.CharField(read_only=True, help_text="ONLINE, OFFLINE or MAINTENANCE.")
    download_type = serializers.CharField(required=False, allow_null=True, help_text="null or download.")
    enable_maintenance = serializers.BooleanField(required=False)
    backend = serializers.CharField()
    nvlink = serializers.BooleanField(
        required=False, help_text="Multi-node NVLink: each task group gets a ComputeDomain."
    )
    default_platform = serializers.CharField(required=False)
    default_exec_timeout = serializers.CharField(required=False)
    default_queue_timeout = serializers.CharField(required=False)
    max_exec_timeout = serializers.CharField(required=False)
    max_queue_timeout = serializers.CharField(required=False)
    default_exit_actions = serializers.DictField(child=serializers.CharField(), required=False)
    resources = ResourcesSerializer(required=False)
    topology_keys = TopologyKeySerializer(many=True, required=False, help_text="Broadest first; at most 16.")
    revision = serializers.IntegerField(read_only=True)
    conditions = ConditionSerializer(many=True, read_only=True)


class MinimalPoolSerializer(PoolBaseSerializer):
    platforms = serializers.DictField(child=MinimalPlatformSerializer(), required=False)


class PoolSerializer(PoolBaseSerializer):
    platforms = serializers.DictField(child=PlatformSerializer(), required=False)
    node_selector = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="Empty: all nodes of the backend."
    )
    tolerations = TolerationSerializer(many=True, required=False)
    split_gangs = serializers.CharField(
        required=False,
        help_text="refuse or warn: what to do with a task group its scheduler cannot hold as one gang.",
    )
    unsupported_preferred = serializers.CharField(
        required=False,
        help_text="refuse or warn: what to do with a preference that its scheduler cannot hold.",
    )
    infeasible = serializers.CharField(
        required=False,
        help_text="accept, warn or refuse: what to do with a task group that can never be placed.",
    )
    topology_source = serializers.CharField(
        required=False, help_text="managed: this service makes the Topology objects; external: it uses one."
    )
    topology_name = serializers.CharField(
        required=False, allow_blank=True, help_text="Name of the external Topology object."
    )
    shared_credentials = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Secrets of the backend's namespace that tasks of everybody in this pool may read.",
    )
    max_num_workflows = serializers.IntegerField(
        required=False, allow_null=True, help_text="Most workflows that have not ended; null is no limit."
    )
    max_num_tasks = serializers.IntegerField(
        required=False, allow_null=True, help_text="Most tasks that have not ended; null is no limit."
    )
    max_num_workflows_per_user = serializers.IntegerField(
        required=False,
        allow_null=True,
        help_text="Most workflows that have not ended, of one user; null is no limit.",
    )
    max_num_tasks_per_user = serializers.IntegerField(
        required=False,
        allow_null=True,
        help_text="Most tasks that have not ended, of one user; null is no limit.",
    )
    common_default_variables = serializers.DictField(
        required=False, help_text="Template variables of tasks that ask for none: USER_CPU: 4."
    )
    common_resource_validations = serializers.ListField(required=False, help_text="Must be empty.")
    common_pod_template = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Pod templates laid over its pods, in this order.",
    )
    common_group_templates = serializers.ListField(required=False, help_text="Must be empty.")
    parsed_pod_template = serializers.DictField(read_only=True, help_text="With verbose only.")
    parsed_resource_validations = serializers.ListField(read_only=True, help_text="With verbose only.")
    parsed_group_templates = serializers.ListField(read_only=True, help_text="With verbose only.")
    parsed_pod_template_for_accounting = serializers.DictField(read_only=True, help_text="With verbose only.")
    last_heartbeat = serializers.CharField(
        read_only=True, allow_null=True, help_text="With verbose only. Naive UTC."
    )
    warnings = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="In replies to writes."
    )


class SchedulerSettingsSerializer(serializers.Serializer[Any]):
    scheduler_type = serializers.CharField(
        required=False, help_text="Name of a scheduler backend: kai, kubernetes, default."
    )
    scheduler_name = serializers.CharField(required=False, help_text="schedulerName of pods.")
    scheduler_timeout = serializers.IntegerField(required=False, help_text="Seconds.")


class NodeConditionsSerializer(serializers.Serializer[Any]):
    rules = serializers.DictField(child=serializers.CharField(), required=False)
    prefix = serializers.CharField(required=False)


class HeldSerializer(serializers.Serializer[Any]):
    """One capability as a backend's scheduler has it."""

    capability = serializers.CharField()
    held = serializers.BooleanField()
    needs = serializers.CharField(
        allow_null=True, help_text="The scheduler's version for it. null: no version has it."
    )
    meaning = serializers.CharField()


class BackendSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(read_only=True)
    description = serializers.CharField(required=False)
    enabled = serializers.BooleanField(required=False, help_text="A disabled backend takes no new workflows.")
    kubeconfig = serializers.CharField(
        required=False, help_text="Path of a file that workers and the observer can read; empty: in-cluster."
    )
    context = serializers.CharField(required=False)  # type: ignore[assignment]  # as above
    k8s_namespace = serializers.CharField(required=False, help_text="Made if missing.")
    scheduler_settings = SchedulerSettingsSerializer(required=False)
    dashboard_url = serializers.CharField(required=False)
    grafana_url = serializers.CharField(required=False)
    router_address = serializers.CharField(required=False)
    tests = serializers.ListField(child=serializers.CharField(), required=False)
    node_conditions = NodeConditionsSerializer(required=False)
    k8s_uid = serializers.CharField(read_only=True, help_text="uid of the cluster's kube-system namespace.")
    version = serializers.CharField(read_only=True, help_text="Kubernetes version.")
    scheduler_version = serializers.CharField(read_only=True, help_text="Inferred from served schemas.")
    capabilities = serializers.DictField(read_only=True)
    capability_table = HeldSerializer(many=True, read_only=True)
    card = serializers.DictField(read_only=True, help_text="What the last probe that was answered found.")
    conditions = ConditionSerializer(many=True, read_only=True)
    last_heartbeat = serializers.CharField(read_only=True, allow_null=True, help_text="Naive UTC.")
    created_date = serializers.CharField(read_only=True, help_text="Naive UTC.")
    online = serializers.BooleanField(read_only=True)
    revision = serializers.IntegerField(read_only=True)
    warnings = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="In replies to writes."
    )


class WorkflowInfoSerializer(serializers.Serializer[Any]):
    max_name_length = serializers.IntegerField(required=False)


class UserLimitsSerializer(serializers.Serializer[Any]):
    max_num_workflows = serializers.IntegerField(required=False, allow_null=True)
    max_num_tasks = serializers.IntegerField(required=False, allow_null=True)


class WorkflowConfigSerializer(serializers.Serializer[Any]):
    max_num_tasks = serializers.IntegerField(required=False)
    max_retry_per_task = serializers.IntegerField(required=False)
    max_object_bytes = serializers.IntegerField(required=False)
    default_exec_timeout = serializers.CharField(required=False)
    default_queue_timeout = serializers.CharField(required=False)
    max_exec_timeout = serializers.CharField(required=False)
    max_queue_timeout = serializers.CharField(required=False)
    max_log_lines = serializers.IntegerField(required=False)
    max_error_log_lines = serializers.IntegerField(required=False)
    max_event_log_lines = serializers.IntegerField(required=False)
    workflow_info = WorkflowInfoSerializer(required=False)
    user_workflow_limits = UserLimitsSerializer(required=False)
    revision = serializers.IntegerField(read_only=True)


class DomainSerializer(serializers.Serializer[Any]):
    path = serializers.ListField(
        child=serializers.CharField(), help_text="Label values, broadest key first; the domain's identity."
    )
    nodes = serializers.IntegerField()


class KeyDomainsSerializer(TopologyKeySerializer):
    level = serializers.IntegerField(help_text="0 is the broadest.")
    domain_count = serializers.IntegerField()
    nodes_without_label = serializers.IntegerField(
        help_text="Nodes of the pool without this label or a broader one; no requirement can use them."
    )
    domains = DomainSerializer(many=True)


class PoolKeysSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    revision = serializers.IntegerField()
    backend = serializers.CharField()
    nvlink = serializers.BooleanField()
    topology_keys = TopologyKeySerializer(many=True, help_text="Broadest first.")


class PoolTopologySerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    revision = serializers.IntegerField()
    backend = serializers.CharField()
    nvlink = serializers.BooleanField()
    capabilities = serializers.DictField(help_text="What the pool's scheduler can hold.")
    nodes = serializers.IntegerField(help_text="Nodes of the pool.")
    nodes_synced_at = serializers.CharField(
        allow_null=True, help_text="When the node list was last complete; naive UTC. null: never."
    )
    topology_keys = KeyDomainsSerializer(many=True, help_text="Broadest first.")


class AllKeysSerializer(serializers.Serializer[Any]):
    pools = serializers.DictField(child=PoolKeysSerializer())


class MinimalPoolsSerializer(serializers.Serializer[Any]):
    pools = serializers.DictField(child=MinimalPoolSerializer())


class PoolsSerializer(serializers.Serializer[Any]):
    pools = serializers.DictField(child=PoolSerializer())
    warnings = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="In replies to writes."
    )


class BackendsSerializer(serializers.Serializer[Any]):
    backends = BackendSerializer(many=True)


class WriteSerializer(serializers.Serializer[Any]):
    description = serializers.CharField(required=False, help_text="Why; kept in the history.")
    tags = serializers.ListField(child=serializers.CharField(), required=False)


class PoolsWriteSerializer(WriteSerializer):
    configs = serializers.DictField(child=PoolSerializer())


class PoolWriteSerializer(WriteSerializer):
    configs = PoolSerializer()


class PoolPatchSerializer(WriteSerializer):
    configs_dict = serializers.DictField(
        help_text="Fields to change: maps are merged, null resets, lists are replaced."
    )


class BackendWriteSerializer(WriteSerializer):
    configs = BackendSerializer()


class WorkflowConfigWriteSerializer(WriteSerializer):
    configs = WorkflowConfigSerializer()


class WorkflowConfigPatchSerializer(WriteSerializer):
    configs_dict = serializers.DictField(help_text="Fields to change; null resets one.")


class DeletedSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
