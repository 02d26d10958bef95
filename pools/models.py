"""What an administrator configures, and what the cluster shows of it.

``services`` alone writes configuration (Backend, Pool, Platform, TopologyKey, PodTemplate, ServiceConfig) and
records a ConfigRevision with each change; nothing else keeps history. The observer alone writes observation
(Cluster, Node, ForeignUsage, ObservedResource); workers note what nodes did to task groups (NodeFailure,
SuspectNode). Rejected: one history table per model, because a reader asks what changed, not in which table.
"""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.fields.json import KeyTextTransform

from scheduling.nodes.devices import SLICES

CONFIG_NAME = r"^[a-zA-Z]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?$"
"""Names OSMO accepts for pools, platforms and backends; Kubernetes names are derived, never equal."""

config_name = RegexValidator(
    CONFIG_NAME,
    "Start with a letter, then letters, digits, '_', '.' and '-', and end with a letter or digit.",
)


class Installation(models.Model):
    """This installation's uuid, which marks its own objects in a cluster. One row."""

    singleton = models.BooleanField(default=True, unique=True, editable=False)
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    declared = models.JSONField(
        null=True, editable=False, help_text="What became of the file that is the source of configuration."
    )

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(singleton=True), name="installation_is_one_row")]

    def __str__(self) -> str:
        return self.uuid.hex


class SweepRun(models.Model):
    """When due task groups were last looked for. One row.

    It is not the installation's, because changes of configuration lock that one.
    """

    singleton = models.BooleanField(default=True, unique=True, editable=False)
    ran_at = models.DateTimeField(editable=False)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(singleton=True), name="sweeprun_is_one_row")]

    def __str__(self) -> str:
        return str(self.ran_at)


class ClusterGuard(models.Model):
    """The right to write in one namespace of a cluster, as this database knows it (``pools.clusters.guard``).

    The ConfigMap of the namespace has the same epoch and nonce, or the pending ones of a raise that was not
    confirmed yet. Times are the database's.
    """

    cluster_uid = models.CharField(max_length=64)
    namespace = models.CharField(max_length=63)
    epoch = models.PositiveBigIntegerField(default=0)
    nonce = models.CharField(max_length=32, blank=True, default="")
    pending_nonce = models.CharField(
        max_length=32, blank=True, default="", help_text="Of epoch + 1, which is written to the cluster next."
    )
    raised_at = models.DateTimeField(null=True, help_text="When a raise of the epoch was last begun.")
    confirmed_at = models.DateTimeField(
        null=True, help_text="When the ConfigMap last got this epoch and nonce."
    )
    refusal = models.TextField(
        blank=True,
        default="",
        help_text="Why nothing may be written in the cluster, by the last examination.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster_uid", "namespace"], name="clusterguard_once_per_namespace"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cluster_uid}/{self.namespace}"


class Cluster(models.Model):
    """A Kubernetes cluster, identified by the uid of its kube-system namespace.

    Two backends of one cluster share its row, and so its nodes and the watch that fills them.
    """

    uid = models.CharField(max_length=64, primary_key=True)
    completeness = models.JSONField(
        default=dict,
        db_default={},
        help_text="By kind: when its objects were last listed completely, or why they cannot be followed.",
    )
    heartbeat_at = models.DateTimeField(null=True, help_text="When the observer last heard from it.")
    unobserved_from = models.DateTimeField(
        null=True, help_text="When the last time began in which nothing was heard from it for long."
    )
    unobserved_until = models.DateTimeField(null=True, help_text="When that time ended.")
    changes = models.PositiveBigIntegerField(
        default=0,
        db_default=0,
        help_text="Raised by what conditions follow from: node labels, topology objects, configuration.",
    )
    evaluated_changes = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Those that the conditions account for."
    )
    evaluated_at = models.DateTimeField(null=True, help_text="When conditions were last evaluated.")
    schedulers_judged_at = models.DateTimeField(
        null=True, help_text="When it was last examined whether its schedulers leave gangs waiting that fit."
    )
    gangs_omitted = models.PositiveIntegerField(
        default=0, db_default=0, help_text="How many that wait have no row, because they are too many."
    )
    quarantine = models.JSONField(
        default=dict,
        db_default={},
        help_text="Objects that cannot be written: their count, and the first of them; empty for none.",
    )

    def __str__(self) -> str:
        return self.uid


class ClusterLease(models.Model):
    """The one observer that may write about a cluster.

    Apart from the cluster's row, which configuration changes lock: an observer locks this for each batch.
    """

    cluster = models.OneToOneField(
        Cluster, on_delete=models.CASCADE, primary_key=True, related_name="observer_lease"
    )
    observer = models.CharField(max_length=128, help_text="The process, as host and number.")
    token = models.UUIDField()
    until = models.DateTimeField(help_text="When another observer may take it.")

    def __str__(self) -> str:
        return f"{self.cluster_id} by {self.observer}"


class Node(models.Model):
    """A node as last observed."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="nodes", db_index=False)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64)
    labels = models.JSONField(default=dict)
    taints = models.JSONField(default=list)
    taints_since = models.JSONField(
        default=dict, db_default={}, help_text="When the key of each taint was first observed there."
    )
    allocatable = models.JSONField(
        default=dict,
        help_text="Resource name to quantity, as Kubernetes writes it; devices of DRA drivers included.",
    )
    devices = models.JSONField(
        default=dict,
        db_default={},
        help_text="Devices of DRA drivers: as a resource, why they are not counted as one, and by driver.",
    )
    unschedulable = models.BooleanField(default=False)
    ready = models.BooleanField(default=False)
    conditions = models.JSONField(
        default=list, db_default=[], help_text="type, status, reason and since of each; empty: not known."
    )
    offers_channel = models.BooleanField(
        default=False, db_default=False, help_text="Whether a ResourceSlice gives it an NVLink channel."
    )
    channel_since = models.DateTimeField(
        null=True, help_text="Since when it does or does not; null: not known."
    )
    created_at = models.DateTimeField(
        null=True, help_text="When it joined the cluster, by the API server's clock; null: not known."
    )
    resource_version = models.CharField(max_length=64, blank=True, default="", db_default="")
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ["cluster_id", "name"]
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="node_name_once_per_cluster")]

    def __str__(self) -> str:
        return self.name


class NodeFailure(models.Model):
    """A node that failed a task group: what suspicion rests on. Older ones than its window are deleted."""

    cluster = models.ForeignKey(
        Cluster, on_delete=models.CASCADE, related_name="node_failures", db_index=False
    )
    node = models.CharField(max_length=253)
    group_uuid = models.UUIDField()
    username = models.CharField(max_length=150)
    fault = models.CharField(max_length=16, help_text="node_lost, start_error or nvlink_fault.")
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "node", "group_uuid", "fault"], name="nodefailure_once_per_group"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node}: {self.fault}"


class SuspectNode(models.Model):
    """A node on which groups of several users were lost lately (``scheduling.nodes.suspects``)."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="suspects", db_index=False)
    node = models.CharField(max_length=253)
    since = models.DateTimeField(help_text="When it became suspect.")
    until = models.DateTimeField(help_text="When it is trusted again, unless it fails again.")
    groups = models.PositiveIntegerField()
    users = models.PositiveIntegerField()
    faults = ArrayField(models.CharField(max_length=16))

    class Meta:
        ordering = ["cluster_id", "since", "node"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "node"], name="suspectnode_once_per_node"),
        ]

    def __str__(self) -> str:
        return self.node


class ForeignUsage(models.Model):
    """What other tenants' pods use of a node, as schedulers count it; a node without a row has none.

    It is by the node's name and not part of its row: both are followed on their own, and either may be heard
    of first. Rows mean nothing while ``Cluster.completeness`` does not say that all are known.
    """

    cluster = models.ForeignKey(
        Cluster, on_delete=models.CASCADE, related_name="foreign_usage", db_index=False
    )
    node = models.CharField(max_length=253)
    gpu = models.BigIntegerField()
    cpu = models.BigIntegerField(help_text="Thousandths of a core.")
    memory = models.BigIntegerField(help_text="Bytes.")
    storage = models.BigIntegerField(help_text="Bytes.")
    pods = models.BigIntegerField()
    shares = models.TextField(
        default="[]",
        db_default="[]",
        help_text="JSON: namespace, by what they may be preempted, amounts; of those that use most.",
    )
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "node"], name="foreignusage_once_per_node"),
        ]

    def __str__(self) -> str:
        return self.node


class ObservedResource(models.Model):
    """An object of the cluster's own as last observed, whoever created it.

    ``resource`` is its kind (``topologies.kai.scheduler``), ``name`` may be ``namespace/name``. The
    ``reading`` of a topology object has ``labels``, the node labels that it lists, broadest first; that of a
    queue is JSON of its ``QueueState``, or what the scheduler backend read whose gangs join it; that of a
    ResourceSlice, and of a DeviceClass that names a resource, has what is counted of devices
    (``scheduling.nodes.devices``). The node of a slice is a name, because a slice may be heard of before its
    node; it is empty for devices that are not one node's. Rows mean nothing before the cluster's row says
    that all of their kind were listed.
    """

    cluster = models.ForeignKey(
        Cluster, on_delete=models.CASCADE, related_name="objects_observed", db_index=False
    )
    resource = models.CharField(max_length=316)
    name = models.CharField(max_length=317)
    uid = models.CharField(max_length=64, blank=True, default="", db_default="")
    reading = models.JSONField(default=dict)
    resource_version = models.CharField(max_length=64, blank=True, default="", db_default="")
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "resource", "name"], name="observedresource_once_per_name"
            ),
        ]
        indexes = [
            models.Index(
                F("cluster"),
                KeyTextTransform("node", "reading"),
                condition=Q(resource=SLICES),
                name="observedresource_slice_nodes",
            ),
            models.Index(
                F("cluster"),
                KeyTextTransform("pool", "reading"),
                condition=Q(resource=SLICES),
                name="observedresource_slice_pools",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Backend(models.Model):
    """A cluster plus one scheduler and one namespace.

    Credentials are never stored: ``kubeconfig`` is the path of a file that workers and the observer
    can read; empty means in-cluster. A deleted backend keeps its row (``deleted_at``), because workflows
    name it; ``cleaned_at`` says that nothing of it is left in its cluster.
    """

    name = models.CharField(max_length=63, validators=[config_name])
    description = models.TextField(blank=True, default="")
    enabled = models.BooleanField(default=True, help_text="A disabled backend takes no new workflows.")
    kubeconfig = models.CharField(max_length=1024, blank=True, default="")
    context = models.CharField(max_length=253, blank=True, default="")
    namespace = models.CharField(
        max_length=63, default="osmo", help_text="Where pods and pod groups are made."
    )
    scheduler_type = models.CharField(max_length=63, default="kai", help_text="Name of a scheduler backend.")
    scheduler_name = models.CharField(
        max_length=253, default="kai-scheduler", help_text="schedulerName of pods."
    )
    scheduler_timeout = models.PositiveIntegerField(default=30, help_text="Seconds.")
    queue_settings = models.JSONField(
        default=dict,
        db_default={},
        blank=True,
        help_text="How its scheduler's queues and shards are named, where others use it too.",
    )
    start_barrier = models.JSONField(
        default=dict,
        db_default={},
        blank=True,
        help_text="What lets the tasks of a group begin together.",
    )
    imex_dns_names = models.BooleanField(
        "IMEX DNS names",
        default=True,
        db_default=True,
        help_text="Whether daemons of NVIDIA's driver know each other by DNS names (its gate "
        "IMEXDaemonsWithDNSNames). If not, each ComputeDomain says how many nodes it has.",
    )
    composite_pod_groups = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether somebody vouches that Kubernetes' own scheduler has its gate CompositePodGroup, "
        "which no API shows. If not, a trial decides whether it holds sets inside sets.",
    )
    follow_others = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether gangs that others submitted to its scheduler are followed while they wait, to "
        "explain why they do.",
    )
    dashboard_url = models.CharField(max_length=1024, blank=True, default="")
    grafana_url = models.CharField(max_length=1024, blank=True, default="")
    router_address = models.CharField(max_length=1024, blank=True, default="")
    tests = models.JSONField(default=list, blank=True)
    node_conditions = models.JSONField(default=dict, blank=True)
    revision = models.PositiveIntegerField(default=0, help_text="ConfigRevision of the last change.")
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, editable=False)
    cleaned_at = models.DateTimeField(null=True, editable=False)

    # Observed, never configured.
    cluster = models.ForeignKey(
        Cluster, null=True, on_delete=models.SET_NULL, related_name="backends", editable=False
    )
    kubernetes_version = models.CharField(max_length=63, blank=True, default="", editable=False)
    scheduler_version = models.CharField(
        max_length=63,
        blank=True,
        default="",
        editable=False,
        help_text="Inferred from served schemas; empty until the cluster was probed.",
    )
    card = models.JSONField(default=dict, editable=False, help_text="What the probe found.")
    composites_tried = models.JSONField(
        default=dict, db_default={}, editable=False, help_text="The last trial of composite pod groups."
    )
    probed_at = models.DateTimeField(null=True, editable=False)
    synced_at = models.DateTimeField(null=True, editable=False)
    conditions = models.JSONField(default=list, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"], condition=Q(deleted_at=None), name="backend_name_once_among_living"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Pool(models.Model):
    """A share of a backend that workflows target."""

    class UnsupportedPreferred(models.TextChoices):
        REFUSE = "refuse"
        WARN = "warn"

    class Infeasible(models.TextChoices):
        ACCEPT = "accept"
        WARN = "warn"
        REFUSE = "refuse"

    class DomainsFor(models.TextChoices):
        EVERY_GROUP = "every_group"
        CLAIMING_GROUPS = "claiming_groups"

    class TopologySource(models.TextChoices):
        MANAGED = "managed"
        EXTERNAL = "external"

    name = models.CharField(max_length=63, unique=True, validators=[config_name])
    description = models.TextField(blank=True, default="")
    backend = models.ForeignKey(Backend, on_delete=models.PROTECT, related_name="pools")
    nvlink = models.BooleanField(
        default=False, help_text="Multi-node NVLink: each task group gets a ComputeDomain of its own."
    )
    compute_domains = models.CharField(
        max_length=16,
        choices=DomainsFor,
        default=DomainsFor.EVERY_GROUP,
        db_default=DomainsFor.EVERY_GROUP,
        help_text="With NVLink, which task groups get one: all, or those with a task that claims a channel.",
    )
    enable_maintenance = models.BooleanField(default=False)
    default_platform = models.CharField(max_length=63, blank=True, default="")
    node_selector = models.JSONField(
        default=dict, blank=True, help_text="Node labels that make a node one of this pool; empty: all nodes."
    )
    tolerations = models.JSONField(default=list, blank=True)
    unsupported_preferred = models.CharField(
        max_length=8,
        choices=UnsupportedPreferred,
        default=UnsupportedPreferred.REFUSE,
        db_default=UnsupportedPreferred.REFUSE,
        help_text="What to do with a preference that its scheduler cannot hold.",
    )
    infeasible = models.CharField(
        max_length=8,
        choices=Infeasible,
        default=Infeasible.WARN,
        db_default=Infeasible.WARN,
        help_text="What to do with a task group that no domain of the pool is large enough for, even empty.",
    )
    default_topology = models.JSONField(
        null=True,
        blank=True,
        help_text="What groups of two or more tasks with GPUs get that name no key; empty: nothing.",
    )
    free_preferences_after = models.PositiveIntegerField(
        default=60,
        db_default=60,
        help_text=(
            "Seconds of waiting after which a preference gives way, if there is room now that it does not "
            "see; 0: never."
        ),
    )
    node_lost_after = models.PositiveIntegerField(
        default=300,
        db_default=300,
        help_text="Seconds for which a node may be not ready or unreachable before it is lost; 0: for ever.",
    )
    force_lost_pods = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Delete pods of a lost node from the cluster although nobody can confirm their end.",
    )
    avoid_suspect_nodes = models.BooleanField(
        default=False,
        db_default=False,
        help_text="New workflows avoid nodes on which groups of several users were lost lately.",
    )
    topology_source = models.CharField(
        max_length=8,
        choices=TopologySource,
        default=TopologySource.MANAGED,
        db_default=TopologySource.MANAGED,
        help_text="Whose the Topology objects are: made by this service, or one of somebody else's.",
    )
    topology_name = models.CharField(
        max_length=253,
        blank=True,
        default="",
        db_default="",
        help_text="Name of the Topology object of an external source; empty for a managed one.",
    )
    local_queue = models.CharField(
        max_length=253,
        blank=True,
        default="",
        db_default="",
        verbose_name="LocalQueue",
        help_text="Kueue: the LocalQueue in the backend's namespace that its groups join; empty: its own.",
    )
    shared_credentials = ArrayField(
        models.CharField(max_length=200),
        default=list,
        blank=True,
        db_default=[],
        help_text="Secrets of the backend's namespace that tasks of everybody in this pool may read.",
    )
    notify = models.JSONField(
        default=list,
        blank=True,
        db_default=[],
        verbose_name="news",
        help_text="Targets of news of its workflows.",
    )
    common_pod_template = ArrayField(
        models.CharField(max_length=63),
        default=list,
        blank=True,
        db_default=[],
        help_text="Pod templates laid over its pods, in this order.",
    )
    common_default_variables = models.JSONField(
        default=dict, blank=True, db_default={}, help_text="Template variables of tasks that ask for none."
    )
    applied_template = models.JSONField(
        default=dict, db_default={}, editable=False, help_text="What its templates make together."
    )
    allow_exec = models.BooleanField(
        default=False, db_default=False, help_text="Users may run commands in running tasks."
    )
    allow_port_forward = models.BooleanField(
        default=False, db_default=False, help_text="Users may forward ports of running tasks."
    )
    download_type = models.CharField(max_length=32, null=True, blank=True)
    default_exec_timeout = models.CharField(max_length=32, blank=True, default="")
    default_queue_timeout = models.CharField(max_length=32, blank=True, default="")
    max_exec_timeout = models.CharField(max_length=32, blank=True, default="")
    max_queue_timeout = models.CharField(max_length=32, blank=True, default="")
    default_exit_actions = models.JSONField(default=dict, blank=True)
    recovery = models.JSONField(
        default=dict, db_default={}, blank=True, help_text="What follows when a task group loses a task."
    )
    max_recoveries = models.PositiveIntegerField(
        default=10, db_default=10, help_text="The most that recovery.max of a workflow or group may say."
    )
    max_grace_period_seconds = models.PositiveIntegerField(
        default=600,
        db_default=600,
        help_text="The most that a task's terminationGracePeriodSeconds may say.",
    )
    resources = models.JSONField(default=dict, blank=True, help_text="gpu: {guarantee, maximum, weight}.")
    max_num_workflows = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most workflows of the pool that have not ended; empty: no limit."
    )
    max_num_tasks = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most tasks of the pool that have not ended; empty: no limit."
    )
    max_num_workflows_per_user = models.PositiveIntegerField(
        null=True, blank=True, help_text="The same of one user."
    )
    max_num_tasks_per_user = models.PositiveIntegerField(
        null=True, blank=True, help_text="The same of one user."
    )
    ended_workflow_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Days for which its ended workflows are kept; 0: for ever; empty: OSMO_WORKFLOW_DAYS.",
    )
    revision = models.PositiveIntegerField(default=0, help_text="ConfigRevision of the last change.")
    conditions = models.JSONField(default=list, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(unsupported_preferred__in=["refuse", "warn"]),
                name="pool_unsupported_preferred_is_known",
            ),
            models.CheckConstraint(
                condition=Q(topology_source="managed", topology_name="")
                | (Q(topology_source="external") & ~Q(topology_name="")),
                name="pool_topology_is_named_where_external",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Platform(models.Model):
    """A kind of hardware inside a pool; adds to its pool's node selection."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="platforms", db_index=False)
    name = models.CharField(max_length=63, validators=[config_name])
    description = models.TextField(blank=True, default="")
    node_selector = models.JSONField(default=dict, blank=True)
    tolerations = models.JSONField(default=list, blank=True)
    nvlink = models.BooleanField(
        null=True,
        blank=True,
        help_text="Whether its hardware has multi-node NVLink; unknown: as its pool says.",
    )
    host_network_allowed = models.BooleanField(default=False)
    privileged_allowed = models.BooleanField(default=False)
    allowed_mounts = ArrayField(models.CharField(max_length=1024), default=list, blank=True)
    default_mounts = ArrayField(models.CharField(max_length=1024), default=list, blank=True)
    override_pod_template = ArrayField(
        models.CharField(max_length=63),
        default=list,
        blank=True,
        db_default=[],
        help_text="Pod templates laid over the pool's, in this order.",
    )
    default_variables = models.JSONField(
        default=dict, blank=True, db_default={}, help_text="Go over the pool's defaults."
    )
    default_topology = models.JSONField(
        null=True,
        blank=True,
        help_text="For groups all of whose tasks with GPUs are on it; empty: as the pool.",
    )
    applied_template = models.JSONField(
        default=dict, db_default={}, editable=False, help_text="What its and its pool's templates make."
    )

    class Meta:
        ordering = ["pool_id", "name"]
        constraints = [models.UniqueConstraint(fields=["pool", "name"], name="platform_name_once_per_pool")]

    def __str__(self) -> str:
        return self.name


class TopologyKey(models.Model):
    """One level of a pool's hierarchy; ``position`` 0 is the broadest (zone before rack)."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="topology_keys", db_index=False)
    position = models.PositiveIntegerField(db_index=True)
    key = models.CharField(max_length=63, help_text="Name users write in a workflow, e.g. rack.")
    label = models.CharField(max_length=316, help_text="Node label that carries the domain's name.")

    class Meta:
        ordering = ["pool_id", "position"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "key"], name="topologykey_key_once_per_pool"),
            models.UniqueConstraint(fields=["pool", "label"], name="topologykey_label_once_per_pool"),
            models.UniqueConstraint(  # checked at commit, so a reorder may pass through duplicates
                fields=["pool", "position"],
                name="topologykey_position_once_per_pool",
                deferrable=models.Deferrable.DEFERRED,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.key} ({self.label})"


class PodTemplate(models.Model):
    """Part of a pod that pools and platforms lay over the pods of their tasks."""

    name = models.CharField(max_length=63, unique=True, validators=[config_name])
    content = models.JSONField(default=dict, help_text="A pod's metadata and spec, in part.")
    revision = models.PositiveIntegerField(default=0, help_text="ConfigRevision of the last change.")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class ConfigRevision(models.Model):
    """One change of configuration: the whole object after it, who made it, when and why.

    ``content`` is None where the change deleted the object. ``revision`` counts per type.
    """

    class Type(models.TextChoices):
        BACKEND = "BACKEND"
        POD_TEMPLATE = "POD_TEMPLATE"
        POOL = "POOL"
        WORKFLOW = "WORKFLOW"

    config_type = models.CharField(max_length=16, choices=Type)
    revision = models.PositiveIntegerField()
    name = models.CharField(max_length=63)
    username = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    description = models.TextField(blank=True, default="")
    tags = ArrayField(models.CharField(max_length=63), default=list, blank=True)
    content = models.JSONField(null=True)
    deleted_at = models.DateTimeField(null=True)
    deleted_by = models.CharField(max_length=150, blank=True, default="")

    class Meta:
        ordering = ["config_type", "-revision"]
        constraints = [
            models.UniqueConstraint(fields=["config_type", "revision"], name="configrevision_once_per_type"),
        ]
        indexes = [models.Index(fields=["config_type", "name", "-revision"])]

    def __str__(self) -> str:
        return f"{self.config_type}:{self.revision} {self.name}"


class ServiceConfig(models.Model):
    """Service-wide configuration of one type (``WORKFLOW``: limits and default timeouts)."""

    config_type = models.CharField(max_length=16, primary_key=True, choices=ConfigRevision.Type)
    content = models.JSONField(default=dict)
    revision = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.config_type
