"""Workflows, their task groups and tasks, and the objects that the observer saw of them.

The row is the truth: everything that is needed to create, follow and delete a group is frozen in its row at
submission (``placement``, ``Task.spec``), so later edits of a pool or backend do not change it. The observer
alone writes the rows of ``Observed*``; they may be deleted, because the next list fills them again.
"""

import uuid
from typing import Any

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.fields.json import KeyTextTransform

from pools.models import Backend, Cluster, Pool
from pools.values.recovery import RecoveryPolicy
from scheduling.gang.gang_form import usual_form_json
from workflows.lifecycle.form_states import OTHER_ORDER, OTHER_PINS, FormState
from workflows.lifecycle.statuses import FAILURES, LIVE_ORDER, TaskStatus, WorkflowStatus
from workflows.name_search import NAME_PARTS


class Workflow(models.Model):
    """One submission. ``name`` is unique: the user's name, a hyphen and a number that counts per name."""

    class Priority(models.TextChoices):
        HIGH = "HIGH"
        NORMAL = "NORMAL"
        LOW = "LOW"

    uuid = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=80, unique=True)
    base_name = models.CharField(max_length=64)
    number = models.PositiveIntegerField()
    pool_name = models.CharField(max_length=63, help_text="Name of its pool at submission.")
    backend = models.ForeignKey(Backend, on_delete=models.PROTECT, related_name="workflows")
    pool_revision = models.PositiveIntegerField(help_text="ConfigRevision of its pool at submission.")
    submitted_by = models.CharField(max_length=150)
    cancelled_by = models.CharField(max_length=150, blank=True, default="")
    priority = models.CharField(max_length=8, choices=Priority, default=Priority.NORMAL)
    status = models.CharField(max_length=32, choices=WorkflowStatus, default=WorkflowStatus.PENDING)
    labels = models.JSONField(default=dict)
    tags = models.JSONField(default=list)
    spec = models.TextField(help_text="As parsed; rendered, if it was templated.")
    template_spec = models.TextField(blank=True, default="")
    env_vars = models.JSONField(
        default=list, db_default=[], help_text="NAME=value texts, laid over every task's environment."
    )
    parent_name = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="Base name of the workflow that it restarts.",
    )
    parent_job_id = models.PositiveIntegerField(
        null=True, help_text="Number of the workflow that it restarts."
    )
    notify = models.JSONField(
        default=list, db_default=[], help_text="Targets of its news; see pools.values.news_targets."
    )
    warnings = models.JSONField(default=list)
    task_count = models.PositiveIntegerField(default=0)
    gpu_count = models.PositiveIntegerField(default=0, help_text="All that its tasks ask for.")
    exec_timeout = models.FloatField(help_text="Seconds a group may run.")
    queue_timeout = models.FloatField(help_text="Seconds a group may wait for its pods to be placed.")
    submit_time = models.DateTimeField(auto_now_add=True, db_index=True)
    start_time = models.DateTimeField(null=True)
    end_time = models.DateTimeField(null=True)
    request_id = models.CharField(max_length=64, blank=True, default="")
    idempotency_key = models.CharField(max_length=255, null=True)
    idempotency_digest = models.CharField(max_length=64, blank=True, default="")
    reply = models.JSONField(
        default=dict, help_text="Reply to the submission; sent again if the request is repeated."
    )

    class Meta:
        ordering = ["-submit_time"]
        constraints = [
            models.UniqueConstraint(fields=["base_name", "number"], name="workflow_number_once_per_name"),
            models.UniqueConstraint(
                fields=["submitted_by", "idempotency_key"],
                condition=Q(idempotency_key__isnull=False),
                name="workflow_idempotency_key_once_per_user",
            ),
        ]
        indexes = [
            models.Index(fields=["pool_name", "status"]),
            models.Index(fields=["submitted_by", "-submit_time"]),
            models.Index(fields=["status", "-submit_time"]),
            models.Index(
                fields=["pool_name", "end_time"],
                condition=Q(end_time__isnull=False),
                name="workflow_ended",
            ),
            models.Index(fields=["submitted_by", "pool_name"], name="workflow_submitters"),
            models.Index(fields=["pool_name"], condition=~Q(tags=[]), name="workflow_tagged"),
            GinIndex(fields=["tags"], name="workflow_tags"),
            GinIndex(fields=["labels"], name="workflow_labels"),
            models.Index(fields=["pool_name", "-submit_time"], include=["uuid"], name="workflow_in_pool"),
            GinIndex(NAME_PARTS, name="workflow_name_parts"),
        ]

    def __str__(self) -> str:
        return self.name


class NameCounter(models.Model):
    """The last number given to a workflow of a base name; it stays when its workflows are removed."""

    base_name = models.CharField(max_length=64, primary_key=True)
    last = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.base_name}-{self.last}"


class TaskGroup(models.Model):
    """A gang: its tasks are scheduled together, get one ComputeDomain and end together.

    ``placement`` is frozen at submission; see ``workflows.values.placement``. ``status`` is that of the work;
    ``released_at`` is when nothing of the group was left in the cluster. The lease columns exclude
    workers from each other; only the database's clock is compared.
    """

    uuid = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.CASCADE, related_name="groups", db_index=False)
    backend = models.ForeignKey(Backend, on_delete=models.PROTECT, related_name="task_groups", db_index=False)
    position = models.PositiveIntegerField(
        help_text="Place among the workflow's groups, in the user's order."
    )
    name = models.CharField(max_length=80)
    status = models.CharField(max_length=32, choices=TaskStatus, default=TaskStatus.SUBMITTING)
    failure_message = models.TextField(blank=True, default="")
    barrier = models.BooleanField(default=True)
    ignore_nonlead_status = models.BooleanField(default=True)
    upstream = models.ManyToManyField("self", symmetrical=False, related_name="downstream")
    awaited_upstream = models.UUIDField(
        null=True, help_text="The upstream group, not ended yet, whose end makes it due (services.follow_up)."
    )
    placement = models.JSONField(help_text="Frozen at submission; see workflows.values.placement.")
    constraints = models.JSONField(
        default=list, help_text="Constraints applied: set, key, label, type, tasks."
    )
    placement_result = models.JSONField(
        null=True,
        help_text="How its placement satisfies its requirements; see workflows.feasibility.placement.placed.",
    )
    conditions = models.JSONField(default=list)
    generation = models.PositiveIntegerField(
        default=0, help_text="Counts generations of its pod groups, from 0."
    )
    attempt_number = models.PositiveIntegerField(
        default=1, db_default=1, help_text="Counts its attempts: how often it was begun as a whole."
    )
    progress = models.CharField(
        max_length=32,
        blank=True,
        default="",
        db_default="",
        choices=TaskStatus,
        help_text="How far its present attempt is; empty in the first one, where its status says so.",
    )
    attempt_began_at = models.DateTimeField(null=True, help_text="When its present attempt was decided on.")
    attempt_not_before = models.DateTimeField(
        null=True, help_text="Until then nothing of its present attempt is created."
    )
    clearing = models.BooleanField(
        default=False, db_default=False, help_text="Whether objects of the attempt before may be left."
    )
    ran_seconds = models.FloatField(
        default=0.0, db_default=0.0, help_text="For how long all its tasks had nodes, until the clock stood."
    )
    ran_since = models.DateTimeField(null=True, help_text="Since when all its tasks have nodes again.")
    avoided_nodes = models.JSONField(
        default=list, db_default=[], help_text="Nodes that its present attempt is kept from."
    )
    compute_domain = models.JSONField(
        null=True,
        help_text="The ComputeDomain whose channels its pods claim: uid, and attempt, which it belongs to.",
    )
    stop_status = models.CharField(max_length=32, blank=True, default="", choices=TaskStatus)
    stop_message = models.TextField(blank=True, default="")
    force = models.BooleanField(default=False, help_text="Stop without grace.")
    form = models.JSONField(
        default=usual_form_json,
        db_default=usual_form_json(),
        help_text="How it is to be placed (scheduling.gang.gang_form); its stage is never lowered.",
    )
    other_form = models.JSONField(
        null=True,
        help_text="A form in which it would be placed now; while its pods get other pins, that of before.",
    )
    form_state = models.CharField(
        max_length=16,
        blank=True,
        default="",
        db_default="",
        choices=FormState,
        help_text="In which parts of its form its objects may still be as before; empty: in none.",
    )
    searched_capacity = models.CharField(
        max_length=32,
        blank=True,
        default="",
        db_default="",
        help_text="A digest of the free capacity for which an order was last sought while it waits.",
    )
    searched_at = models.DateTimeField(
        null=True, help_text="When a place was last sought for it while it waits."
    )
    unplaced_since = models.DateTimeField(
        null=True, help_text="Since when all its pods exist without a node; patience counts from it."
    )
    waiting_why = models.CharField(
        max_length=32,
        blank=True,
        default="",
        db_default="",
        help_text="Code of the reason: workflows.explain.reasons.Why.",
    )
    waiting_reason = models.TextField(blank=True, default="")
    waiting_evidence = models.JSONField(
        default=dict, db_default={}, help_text="Facts behind the reason; see workflows.explain.reasons."
    )
    waiting_since = models.DateTimeField(null=True)

    submit_time = models.DateTimeField(auto_now_add=True)
    processing_start_time = models.DateTimeField(null=True)
    scheduling_start_time = models.DateTimeField(null=True)
    initializing_start_time = models.DateTimeField(null=True)
    start_time = models.DateTimeField(null=True)
    end_time = models.DateTimeField(null=True)
    created_in_cluster_at = models.DateTimeField(null=True, help_text="When all its objects existed.")
    touched_cluster = models.BooleanField(default=False, help_text="Whether a create may have been sent.")
    touched_at = models.DateTimeField(null=True, help_text="When the first create may have been sent.")
    released_at = models.DateTimeField(null=True)

    next_reconcile_at = models.DateTimeField(null=True, help_text="When it is due; null: on notification.")
    notifications = models.PositiveBigIntegerField(
        default=0, help_text="How often it was notified since its last lease was taken."
    )
    failures = models.PositiveIntegerField(default=0, help_text="Reconciliations in a row that failed.")
    lease_token = models.UUIDField(null=True)
    lease_worker = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    late_writes_until = models.DateTimeField(
        null=True, help_text="How long writes may still arrive of a worker that died in the middle."
    )

    class Meta:
        ordering = ["workflow_id", "position"]
        constraints = [
            models.UniqueConstraint(fields=["workflow", "name"], name="taskgroup_name_once_per_workflow"),
            models.CheckConstraint(
                condition=~Q(status=TaskStatus.RESCHEDULED), name="taskgroup_is_never_rescheduled"
            ),
            models.CheckConstraint(
                condition=Q(released_at=None) | ~Q(status__in=[str(s) for s in LIVE_ORDER]),
                name="taskgroup_released_only_after_its_end",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_reconcile_at"],
                condition=Q(released_at=None, next_reconcile_at__isnull=False),
                name="taskgroup_due",
            ),
            models.Index(fields=["backend"], condition=Q(released_at=None), name="taskgroup_unreleased"),
            models.Index(fields=["workflow", "status"], name="taskgroup_statuses"),
            models.Index(
                fields=["awaited_upstream"],
                condition=Q(awaited_upstream__isnull=False, released_at=None),
                name="taskgroup_awaits",
            ),
            models.Index(
                F("backend"), KeyTextTransform("namespace", "placement"), name="taskgroup_namespace"
            ),
            models.Index(
                fields=["workflow"],
                condition=Q(released_at=None, created_in_cluster_at=None, status=TaskStatus.PROCESSING),
                name="taskgroup_to_create",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workflow_id}/{self.name}"

    @property
    def present_status(self) -> str:
        """The status of its present attempt; ``status``, which users see, never goes back."""
        return self.progress or self.status

    @property
    def repinning(self) -> bool:
        """Whether its pods may still have the pins of before."""
        return self.form_state in OTHER_PINS

    @property
    def reordering(self) -> bool:
        """Whether its objects may still be named in the order before."""
        return self.form_state in OTHER_ORDER

    @property
    def recovery(self) -> RecoveryPolicy:
        """What follows when it loses a task, as frozen when it was accepted."""
        return RecoveryPolicy.from_json(self.placement.get("recovery", {}))


def in_status(*statuses: str) -> Q:
    """Groups whose present attempt has one of these statuses."""
    return Q(status__in=statuses, progress="") | Q(progress__in=statuses)


class WorkerHeartbeat(models.Model):
    """A worker process that lives, or died a moment ago."""

    worker = models.UUIDField(primary_key=True)
    until = models.DateTimeField(help_text="When its leases end, unless it beats before.")

    def __str__(self) -> str:
        return str(self.worker)


class Attempt(models.Model):
    """An attempt of a task group that ended and was followed by another one; the last is the group's row.

    ``status`` is how the group would have ended; ``loss`` and ``evidence`` say why and from what that was
    concluded (``pools.values.recovery``). ``nodes`` are those its tasks had.
    """

    group = models.ForeignKey(TaskGroup, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    status = models.CharField(max_length=32, choices=TaskStatus)
    loss = models.CharField(max_length=16)
    evidence = models.CharField(max_length=64, blank=True, default="")
    message = models.TextField(blank=True, default="")
    counted = models.BooleanField(help_text="Whether the policy's bound counts it.")
    began_at = models.DateTimeField()
    start_time = models.DateTimeField(null=True, help_text="When its first task ran.")
    end_time = models.DateTimeField(help_text="When its end was decided.")
    cleared_at = models.DateTimeField(null=True, help_text="When nothing of it was left in the cluster.")
    nodes = models.JSONField(default=list)

    class Meta:
        ordering = ["group_id", "number"]
        constraints = [models.UniqueConstraint(fields=["group", "number"], name="attempt_number_once")]

    def __str__(self) -> str:
        return f"{self.group_id}#{self.number}"


class Task(models.Model):
    """One try of one task. A retry is a new row with the next ``retry_id`` and the same ``task_uuid``.

    ``log_state`` is the state of its log; only ``workflows.logs`` writes it. Empty: nothing yet.
    """

    class LogState(models.TextChoices):
        STORED = "kept", "Kept"
        UNREAD = "unread"
        DROPPED = "dropped"

    group = models.ForeignKey(TaskGroup, on_delete=models.CASCADE, related_name="tasks", db_index=False)
    task_uuid = models.UUIDField(default=uuid.uuid4)
    position = models.PositiveIntegerField(help_text="Place in its group, in the user's order.")
    name = models.CharField(max_length=64)
    retry_id = models.PositiveIntegerField(default=0)
    latest = models.BooleanField(default=True, help_text="Whether no later retry exists.")
    generation = models.PositiveIntegerField(
        default=0,
        help_text="The generation of its group's pod groups that its pod joins.",
    )
    first_retry = models.PositiveIntegerField(
        default=0, db_default=0, help_text="The retry_id with which its group's attempt began."
    )
    uncounted = models.BooleanField(
        default=False, db_default=False, help_text="Whether its end is none that bounds its retries."
    )
    replaced_after = models.CharField(
        max_length=16,
        blank=True,
        default="",
        db_default="",
        help_text="The loss after which its task alone is tried again by the recovery policy.",
    )
    lead = models.BooleanField(default=False)
    status = models.CharField(max_length=32, choices=TaskStatus, default=TaskStatus.SUBMITTING)
    spec = models.JSONField(help_text="Frozen: see workflows.values.placement.")
    pod_name = models.CharField(max_length=63)
    pod_ip = models.CharField(max_length=64, blank=True, default="")
    node_name = models.CharField(max_length=253, blank=True, default="")
    exit_code = models.IntegerField(null=True)
    failure_message = models.TextField(blank=True, default="")
    processing_start_time = models.DateTimeField(null=True)
    scheduling_start_time = models.DateTimeField(null=True)
    initializing_start_time = models.DateTimeField(null=True)
    start_time = models.DateTimeField(null=True)
    end_time = models.DateTimeField(null=True)
    nvlink_joined_at = models.DateTimeField(
        null=True, help_text="When its node was first ready in its group's ComputeDomain."
    )
    nvlink_left_at = models.DateTimeField(
        null=True, help_text="Since when its node is not ready there any more, while it runs."
    )
    log_state = models.CharField(max_length=8, choices=LogState, blank=True, default="", db_default="")
    log_note = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Why its log is not kept."
    )
    log_try_at = models.DateTimeField(
        null=True, help_text="Until then its log is being read, or the next try waits."
    )

    class Meta:
        ordering = ["group_id", "position", "retry_id"]
        constraints = [
            models.UniqueConstraint(fields=["group", "name", "retry_id"], name="task_try_once_per_group"),
            models.UniqueConstraint(
                fields=["group", "name"], condition=Q(latest=True), name="task_has_one_latest_try"
            ),
        ]
        indexes = [
            models.Index(fields=["pod_name"]),
            models.Index(
                fields=["-id"],
                condition=Q(status__in=[str(status) for status in LIVE_ORDER]),
                name="task_live",
            ),
            models.Index(
                fields=["-id"],
                condition=Q(status__in=[str(status) for status in LIVE_ORDER]) & ~Q(node_name=""),
                name="task_holds_node",
            ),
            models.Index(
                fields=["group"], condition=Q(log_state="", end_time__isnull=False), name="task_log_is_open"
            ),
            models.Index(fields=["node_name", "-id"], condition=~Q(node_name=""), name="task_of_node"),
            models.Index(
                fields=["status", "-id"],
                condition=Q(status__in=[str(status) for status in FAILURES]),
                name="task_failed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}#{self.retry_id}"


class KeptLog(models.Model):
    """An object in the store of logs; its row is created before it and deleted after it.

    ``task`` is null once its workflow was removed: then the object is deleted, too. ``stored_at`` is null
    while the object is being written.
    """

    name = models.CharField(max_length=90, unique=True)
    task = models.OneToOneField(Task, null=True, on_delete=models.SET_NULL, related_name="kept_log")
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes in the store, compressed.")
    begun_at = models.DateTimeField(auto_now_add=True)
    stored_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        ordering = ["stored_at"]

    def __str__(self) -> str:
        return self.name


class Event(models.Model):
    """One line of a workflow's timeline: a step of the service or an event of the cluster.

    ``dedupe`` makes a repeated event harmless: the cluster's event uid and count, or the name of the step.
    """

    workflow = models.ForeignKey(Workflow, on_delete=models.CASCADE, related_name="events", db_index=False)
    group = models.ForeignKey(TaskGroup, null=True, on_delete=models.CASCADE, related_name="events")
    task_name = models.CharField(max_length=64, blank=True, default="")
    retry_id = models.PositiveIntegerField(null=True)
    time = models.DateTimeField()
    source = models.CharField(max_length=63, help_text="osmo-topology, or the reporting component.")
    warning = models.BooleanField(default=False)
    reason = models.CharField(max_length=128)
    message = models.TextField()
    dedupe = models.CharField(max_length=160)
    repeats = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Events like it whose place it has taken (services.timeline)."
    )

    class Meta:
        ordering = ["workflow_id", "time", "id"]
        constraints = [
            models.UniqueConstraint(fields=["workflow", "dedupe"], name="event_once_per_workflow"),
        ]

    def __str__(self) -> str:
        return f"{self.time:%H:%M:%S} {self.reason}"


class NewsItem(models.Model):
    """One change of a workflow on its way to one target (``workflows.news``).

    ``change`` names what it is about, once for a target. No key ties it to its workflow, which may be removed
    while it is sent. ``due_at`` is empty once it was sent or given up.
    """

    class State(models.TextChoices):
        WAITING = "waiting"
        SENT = "sent"
        GIVEN_UP = "given_up"

    uuid = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    workflow_uuid = models.UUIDField()
    kind = models.CharField(max_length=16)
    change = models.CharField(max_length=200)
    target = models.JSONField(help_text="webhook or email, and the name of a pool's secret.")
    target_key = models.CharField(max_length=32, help_text="A digest of the target and its owner.")
    owner = models.CharField(max_length=160, help_text="pool:NAME or user:NAME, whose target it is.")
    facts = models.JSONField(help_text="What is sent, without the address.")
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    tries = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=300, blank=True, default="")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["workflow_uuid", "target_key", "change"], name="newsitem_once_per_target"
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="newsitem_due"),
            models.Index(fields=["ended_at"], condition=Q(ended_at__isnull=False), name="newsitem_ended"),
            models.Index(fields=["owner", "-id"], condition=~Q(error=""), name="newsitem_problems"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.workflow_uuid}"


class ObservedPod(models.Model):
    """A pod of a task group as last observed; see ``workflows.values.observation`` for ``digest``."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="pods", db_index=False)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64)
    group_uuid = models.UUIDField(db_index=True)
    phase = models.CharField(max_length=16)
    node_name = models.CharField(max_length=253, blank=True, default="")
    pod_ip = models.CharField(max_length=64, blank=True, default="")
    deleting = models.BooleanField(default=False)
    absent = models.BooleanField(default=False, help_text="It is no longer in the cluster.")
    digest = models.JSONField(default=dict)
    resource_version = models.CharField(max_length=64, blank=True, default="", db_default="")
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "namespace", "name"], name="observedpod_once_per_name"
            ),
        ]
        indexes = [  # finds the pods that took the place of a pod that is gone
            models.Index(
                fields=["cluster", "node_name"],
                condition=Q(absent=False),
                name="observedpod_of_node",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ObservedObject(models.Model):
    """Another object of a task group as last observed; ``digest`` has its status."""

    cluster = models.ForeignKey(
        Cluster, on_delete=models.CASCADE, related_name="objects_seen", db_index=False
    )
    kind = models.CharField(max_length=63)
    namespace = models.CharField(max_length=63, blank=True, default="")
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64)
    group_uuid = models.UUIDField(db_index=True)
    deleting = models.BooleanField(default=False)
    digest = models.JSONField(default=dict)
    resource_version = models.CharField(max_length=64, blank=True, default="", db_default="")
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "kind", "namespace", "name"], name="observedobject_once_per_name"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"

    def as_manifest(self) -> dict[str, Any]:
        """The object with its status, as scheduler backends read it."""
        return {
            "metadata": {
                "name": self.name,
                "annotations": self.digest.get("annotations") or {},
                "creationTimestamp": self.digest.get("created"),
            },
            "spec": self.digest.get("spec") or {},
            "status": self.digest.get("status") or {},
        }


class ObservedGang(models.Model):
    """A gang of others that waits, as last observed; ``content`` is JSON of its ``GangKept``.

    ``resource`` is the kind of its object (``podgroups.scheduling.run.ai``), which may be absent. Rows
    mean nothing while ``Cluster.completeness`` does not say that all are known.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="gangs", db_index=False)
    resource = models.CharField(max_length=316)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(null=True, help_text="Null: the object is absent, or says no time.")
    queue = models.CharField(max_length=253, blank=True, default="", db_default="")
    content = models.JSONField()
    pods = models.PositiveIntegerField(default=0, help_text="How many wait, without those that are omitted.")
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "resource", "namespace", "name"], name="observedgang_once_per_name"
            ),
        ]
        indexes = [
            models.Index(fields=["cluster", "resource", "created_at"], name="observedgang_oldest_first"),
        ]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class MeasuredFragments(models.Model):
    """How a pool's free nodes were spread when last measured (``placement.measured_fragmentation``)."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="fragments")
    measured_at = models.DateTimeField()
    content = models.JSONField(help_text="free, and for each key: largest and slots as [size, count].")

    def __str__(self) -> str:
        return f"fragments of {self.pool_id}"
