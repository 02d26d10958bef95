"""The shapes of workflows on the wire: OSMO's, with the fields this product adds.

``representations`` makes them from rows. Times are naive UTC, durations seconds as floats, uuids 32 hex
digits. OSMO's fields that have no meaning here are null.
"""

from typing import Annotated, Any, Literal

from pools.api.shapes import ConditionShape, DeliveryShape, RecoveryShape
from web.rest.shapes import (
    AsStored,
    Instant,
    OwnInstant,
    Shape,
    WrittenInstant,
    about,
    absent,
    absent_or_null,
    choice,
)
from workflows.explain.reasons import Why
from workflows.feasibility.placement.pool_outcomes import OUTCOMES
from workflows.feasibility.verdict.report import VERDICTS
from workflows.lifecycle.statuses import TaskStatus, WorkflowStatus
from workflows.models import Workflow

TIME = "ISO 8601, UTC, written without a zone; on paths that OSMO has not with it."
UNUSED = "OSMO's field; null here."

TaskStatusText = Annotated[str, choice(TaskStatus.values)]
WorkflowStatusText = Annotated[str, choice(WorkflowStatus.values)]
PriorityText = Annotated[str, choice(Workflow.Priority.values)]
OutcomeText = Annotated[str, choice(OUTCOMES)]
WhyText = Annotated[str, choice(map(str, Why))]
VerdictText = Annotated[str, choice(VERDICTS)]
Conditions = Annotated[list[ConditionShape], AsStored()]


class SetMemberShape(Shape):
    key: str
    group: str
    segment: str | None = absent("The same in words where it is one: segment 1 (worker-9 to worker-17).")


class ConstraintShape(Shape):
    """One requirement as the scheduler applies it."""

    set: list[SetMemberShape] = about("The co-location set, broadest key first; empty: the whole group.")
    key: str
    label: str = about("The node label that the scheduler reads; empty for a preference that is dropped.")
    requirementType: Literal["required", "preferred"]  # noqa: N815 -- OSMO's name
    tasks: int
    subgroup: str
    held_by: str | None = about("The narrower key that implies this one.")
    waitSeconds: float | None = absent(  # noqa: N815 -- as users write it
        "For how many seconds a preference counts as required; only where the user set it."
    )
    relaxed: bool | None = absent("Whether that time is over.")
    freed: bool | None = absent("True where a preference gave way, because it blocked the group.")
    domain: list[str] | None = absent(
        "The domain, broadest label value first, that node labels keep the set in, in place of a constraint."
    )
    applied_key: str | None = absent_or_null("The key that it is applied at then; null: it is dropped.")


class GroupConstraintsShape(Shape):
    group: str
    constraints: list[ConstraintShape]


class OccupantShape(Shape):
    name: str
    nodes: int
    until: WrittenInstant | None = about(TIME)
    namespaces: list[str] = about(
        "Of other tenants' pods that use what is lacking; empty without cluster:Explain on the backend."
    )


class TaintedNodesShape(Shape):
    taint: str = about("As key:effect.")
    nodes: int
    may_pass: bool
    since: WrittenInstant | None = about(TIME)


class DomainCapacityShape(Shape):
    """A domain as one set sees it, counted in tasks as large as the set's largest."""

    path: list[str] = about("Empty: the whole pool.")
    free: int
    empty: int = about("The capacity if nothing ran there and every node took work.")
    missing: int
    closed: int = about("Nodes that take no work.")
    tainted: list[TaintedNodesShape] = about(
        "Open nodes by taints that may pass and that its tasks do not tolerate."
    )
    without_channel: int = about("Nodes without the NVLink channel that its tasks claim.")
    holders: list[OccupantShape] = about(
        "Those that end first come first; other tenants' pods are one entry, by that name."
    )
    free_at: WrittenInstant | None = about(TIME)


class SetFeasibilityShape(Shape):
    """A set with a required level, or the whole group."""

    path: list[SetMemberShape]
    alike: int = about("How many equal sets this entry stands for.")
    key: str | None
    label: str | None
    tasks: int
    domains: int
    fit_now: int = about("Domains that could hold it now if it were alone.")
    fit_empty: int = about("Domains that could hold it when empty.")
    unlabelled: int = about("Nodes with room that lack a label.")
    nearest: list[DomainCapacityShape]


class QueueShortageShape(Shape):
    """A bound that does not admit a group. GPUs, thousandths of a core, bytes, pods."""

    queue: str = about("Its name, or that of a quota of the namespace.")
    resource: Literal["gpu", "cpu", "memory", "storage", "pods"]
    bound: Literal["limit", "quota", "namespace"] = about(
        "The most that a queue may use; what it is guaranteed; what a quota of the namespace allows."
    )
    amount: float
    used: float = about("By what counts against this bound.")
    requested: float = about("By the whole group.")


class QuotaVerdictShape(Shape):
    answer: Literal["admits", "short", "unknown", "none"] = about(
        "Whether the group's queues admit it; none: its scheduler has no queues."
    )
    shortages: list[QueueShortageShape]


class PreemptionShape(Shape):
    """Work of lower priority in the group's queue that its scheduler may preempt for it."""

    answer: Literal["helps", "later", "does_not_help", "none", "not_needed", "unknown"] = about(
        "later: once that work has run for the time for which its queue spares it."
    )
    workflows: list[str] = about("At most 20 of them.")
    spared_until: WrittenInstant | None = about(
        f"For later: when the last of them has run for so long. {TIME}"
    )
    delay_seconds: float = about("For how long the group waits before other work is preempted for it.")
    others: int = about("Other tenants' pods that may be preempted.")
    namespaces: list[str] = about("Theirs; empty without cluster:Explain on the backend.")


class DisplacementShape(Shape):
    """Running work, of any queue, that the scheduler may move or reclaim to make room for the group."""

    answer: Literal["possible", "does_not_help", "none", "not_needed", "unknown"] = about(
        "possible: if what it moves finds another place, or what it reclaims is above its queue's share, "
        "neither of which is known; none: there is no such work."
    )
    workflows: list[str] = about("At most 20 of them.")


class GroupsBeforeShape(Shape):
    """Groups of the same queue that wait and that the scheduler takes first."""

    groups: int
    younger: int = about("Of those, submitted later than this one.")
    workflows: list[str] = about("The first of them.")


class UnexaminedShape(Shape):
    code: str
    message: str


class UnreadShape(Shape):
    """A part of a gang of others that could not be read."""

    code: Literal["missing", "malformed", "too_large", "pod_conditions", "pods", "topology", "gates"]
    message: str


class PartsOrderShape(Shape):
    """The order in which the parts of one set are placed, where that is not the usual one."""

    set: list[SetMemberShape] = about("Empty: the whole group.")
    parts: list[list[SetMemberShape]] = about("Sets within it; it itself stands for its other tasks.")


class RemedyShape(Shape):
    """Nodes that a group may not use, and with which it would fit."""

    kind: Literal["open", "label", "tolerate"]
    nodes: int
    names: list[str] = about("The first of them.")
    labels: dict[str, str] = about(
        "For label: with which it would fit; (one more) stands for a domain that does not exist yet."
    )
    taints: list[TaintedNodesShape] = about("For tolerate: those that keep it off.")
    after_work: bool = about("Only once running work has ended, and not by that alone.")
    together: bool = about("Only with all remedies of the list; otherwise each is enough.")


class GroupFeasibilityShape(Shape):
    """Whether a group would be placed; the scheduler decides. ``sets`` is empty where it fits now.

    ``unknown``: no node for its tasks has been observed; ``sentence`` says why.
    """

    group: str
    verdict: VerdictText
    sentence: str
    obstacle: Literal["quota", "priority", "room", "topology"] | None = about(
        "What is in its way first; null where nothing is, or where there is no verdict."
    )
    quota: QuotaVerdictShape
    preemption: PreemptionShape
    consolidation: DisplacementShape
    reclaim: DisplacementShape = about("For a group within its queue's guarantee.")
    before: GroupsBeforeShape | None = about("Null where nothing is known of its queue.")
    not_examined: list[UnexaminedShape] = about("What may be in its way and was not looked at.")
    proven: bool = about(
        "False: not_now might really be never, because the search hit its limit; or now depends on the "
        "scheduler's order, which is not known."
    )
    another_order: bool = about("It would fit if its sets were placed in another order; none was found.")
    order: list[PartsOrderShape] = about("The order of sets that `now` needs; empty for the usual one.")
    workable_spec: str | None = about(
        "YAML of a topology with which it would fit now, where its scheduler passes over a place as it is "
        "written; empty if none is known, null if no place is passed over."
    )
    preferences_met: bool | None = about("Whether every set would have what it prefers; null unless now.")
    broken_nodes: int | None = about(
        "Wholly free nodes of which it would use a part and leave the rest; null unless now."
    )
    free_at: WrittenInstant | None = about(
        f"When all that is in its way has ended at the latest; null if unknown. {TIME}"
    )
    tasks: int
    room: int = about(
        "For how many tasks as large as its largest the pool has room now, wherever they stand."
    )
    scheduler: str
    nodes: int
    observed_at: WrittenInstant | None = about(f"When the observer last heard from the cluster. {TIME}")
    freshness: Literal["fresh", "old", "never"] = about("old: nothing here is proven any more.")
    others_known: bool = about("False: what other tenants' pods use counts as free.")
    age_seconds: float | None
    places: dict[str, str] | None = about("Node by task; null for a large group.")
    sets: list[SetFeasibilityShape]
    remedies: list[RemedyShape] = about("Empty where none helps or it has a place.")


class GroupExplanationShape(Shape):
    group: str
    status: TaskStatusText
    why: WhyText = about("The first obstacle.")
    sentence: str
    since: OwnInstant | None
    help: str = about("What would help.")
    recovery: str = about("What follows when the group loses a task, in a line.")
    avoided_nodes: list[str] = about("Nodes that its present attempt avoids, because it lost tasks there.")
    evidence: dict[str, Any] = about("What the reason rests on, as data; docs/reference/explain.md.")
    feasibility: GroupFeasibilityShape | None = about("Given where the group lacks a place.")
    conditions: Conditions


class ExplanationShape(Shape):
    name: str
    status: WorkflowStatusText
    sentence: str = about("Its state in one line.")
    groups: list[GroupExplanationShape] = about("The groups that wait.")
    more_entries: bool = about("Whether groups follow that `limit` left out.")


class GroupVerdictShape(Shape):
    group: str
    verdict: VerdictText
    sentence: str


class PoolVerdictShape(Shape):
    """One of the pools that a submission chose from."""

    pool: str
    chosen: bool
    accepts: bool = about("Whether the pool would take the workflow; sentence says why not.")
    verdict: VerdictText = about("That of its worst group; unknown for a pool that does not take it.")
    sentence: str
    preferences_met: bool | None
    broken_nodes: int | None = about("Wholly free nodes of which it would use a part and leave the rest.")
    free_at: WrittenInstant | None = about(
        f"When all that is in its way has ended at the latest; null if unknown. {TIME}"
    )
    groups: list[GroupVerdictShape] = about("Empty for a pool that does not take it.")


class GroupRecoveryShape(RecoveryShape):
    """The recovery of a task group: of pool, workflow and group together."""

    group: str


class SubmissionShape(Shape):
    """Exactly one of ``logs`` and ``spec`` is not null. ``objects`` is there for a dry run."""

    name: str
    pool: str | None = absent("The pool that was chosen; only where the address names none.")
    pools: list[PoolVerdictShape] | None = absent("All that it was chosen from, the chosen one first.")
    overview: str
    logs: str | None
    spec: str | None
    dashboard_url: str | None
    warnings: list[str]
    constraints: Annotated[list[GroupConstraintsShape], AsStored()]
    feasibility: Annotated[list[GroupFeasibilityShape], AsStored()]
    recovery: list[GroupRecoveryShape] | None = absent("What is in force for each group; for a dry run.")
    objects: list[dict[str, Any]] | None = absent("Whole manifests, in order of creation.")


class ListedWorkflowShape(Shape):
    user: str
    name: str
    workflow_uuid: str
    submit_time: Instant | None = about(TIME)
    start_time: Instant | None = about(TIME)
    end_time: Instant | None = about(TIME)
    queued_time: float = about("Seconds.")
    duration: float | None = about("Seconds.")
    status: WorkflowStatusText
    waiting_reason: str | None = about("Why its first waiting group waits, also between two attempts.")
    overview: str
    logs: str
    error_logs: str
    grafana_url: str | None
    dashboard_url: str | None
    pool: str
    app_owner: str | None = about(UNUSED)
    app_name: str | None = about(UNUSED)
    app_version: str | None = about(UNUSED)
    priority: PriorityText
    labels: dict[str, str]
    tasks: int
    gpus: int = about("All that its tasks ask for.")
    nodes: int | None = about(
        "That its tasks hold now. Null for one that does not run, and after the first 100 of a list."
    )


class WorkflowListShape(Shape):
    workflows: list[ListedWorkflowShape]
    more_entries: bool


class NodeConditionShape(Shape):
    """What is wrong with a node."""

    state: Literal["cordoned", "unhealthy", "not_ready", "unreachable", "removed"]
    reason: str = about("The cluster's word for it; the type of condition of one that is unhealthy.")
    since: Instant | None = about(TIME)
    lost_at: Instant | None = about("When it is lost, or was; null for never. By the pool's node_lost_after.")
    sentence: str


class TaskShape(Shape):
    name: str
    retry_id: int
    status: TaskStatusText
    failure_message: str | None
    exit_code: int | None
    logs: str
    error_logs: str
    processing_start_time: Instant | None = about(TIME)
    scheduling_start_time: Instant | None = about(TIME)
    initializing_start_time: Instant | None = about(TIME)
    events: str
    start_time: Instant | None = about(TIME)
    end_time: Instant | None = about(TIME)
    input_download_start_time: str | None = about(UNUSED)
    input_download_end_time: str | None = about(UNUSED)
    output_upload_start_time: str | None = about(UNUSED)
    dashboard_url: str | None = about(UNUSED)
    pod_name: str
    pod_ip: str | None
    task_uuid: str
    node_name: str | None
    node_condition: NodeConditionShape | None = about(
        "Where its node is not healthy; null for a healthy one, and for a task that has ended."
    )
    lead: bool


class ChannelClaimShape(Shape):
    """Tasks of a group that claim a channel of its ComputeDomain, or do not, for one reason."""

    claim: Literal[
        "task_true", "group_true", "several", "no_gpu", "task_false", "platform_false", "alone", "no_domain"
    ]
    is_made: bool
    tasks: int
    sentence: str


class ComputeDomainShape(Shape):
    name: str
    namespace: str
    claim_template: str
    present: bool = about("Whether it was there when last observed.")
    deleting: bool
    seen_at: Instant | None = about(TIME)
    nodes_joined: int = about("Nodes that it lists.")
    not_ready: list[str] = about("Those that it does not list as ready; at most 20.")
    cliques: list[str] = about("NVLink cliques of its nodes; it connects the nodes of each, not across them.")
    claims: list[ChannelClaimShape] = about("Which tasks claim a channel, and why.")


class PatienceShape(Shape):
    stage: int = about("How many relaxations were decided; never falls.")
    unplaced_since: Instant | None = about(TIME)
    next_relaxation_at: Instant | None = about(TIME)


class DomainTasksShape(Shape):
    path: list[str] = about("Label values, broadest first.")
    tasks: int


class SetOutcomeShape(Shape):
    """Where one co-location set stands, at one level that it named."""

    path: list[SetMemberShape]
    key: str
    required: bool
    outcome: OutcomeText
    domains: list[DomainTasksShape] = about("Those it stands in; at most 20 are kept.")
    domain_count: int
    outside: int = about("Tasks on nodes without the label.")


class GroupOutcomeShape(Shape):
    """How far a group's placement met its topology requirements, when it was last placed."""

    outcome: OutcomeText
    at: WrittenInstant
    sets: list[SetOutcomeShape]


class AttemptShape(Shape):
    """One try of a group as a whole; the last of a group is the present one."""

    number: int
    status: TaskStatusText = about("How far it is, or how the group would have ended with it.")
    cause: Literal["preempted", "node_lost", "failed"] | None = about("Null for the present one.")
    evidence: str = about("From what the cause was concluded.")
    message: str
    counted: bool = about("Whether the bound of the recovery policy counts it.")
    begin_time: Instant | None = about(TIME)
    not_before: Instant | None = about("Until then nothing of it is created.")
    start_time: Instant | None = about(TIME)
    end_time: Instant | None = about(TIME)
    cleared_at: Instant | None = about("When nothing of it was left in the cluster.")
    nodes: list[str]


class GroupShape(Shape):
    name: str
    uuid: str
    status: TaskStatusText = about("It never goes back: that of the present attempt stands in `attempts`.")
    attempt: int = about("The number of its present attempt, from 1.")
    attempts: list[AttemptShape] = about("Its attempts in order, the present one last; at most 100.")
    start_time: Instant | None = about(TIME)
    end_time: Instant | None = about(TIME)
    processing_start_time: Instant | None = about(TIME)
    scheduling_start_time: Instant | None = about(TIME)
    initializing_start_time: Instant | None = about(TIME)
    remaining_upstream_groups: list[str]
    downstream_groups: list[str]
    failure_message: str | None
    waiting_reason: str | None = about("Why it waits, in plain words.")
    waiting_since: Instant | None = about(TIME)
    constraints: Annotated[list[ConstraintShape], AsStored()]
    patience: PatienceShape | None
    order: Annotated[list[PartsOrderShape], AsStored()] = about(
        "The order in which its sets are placed; empty for the usual one."
    )
    got: GroupOutcomeShape | None = about(
        "Null before it is placed, and for a group without topology requirements."
    )
    conditions: Conditions
    compute_domain: ComputeDomainShape | None
    recovery: RecoveryShape = about("What follows when it loses a task, as frozen when it was accepted.")
    avoided_nodes: list[str] = about("Nodes that its present attempt avoids, because it lost tasks there.")
    template_revisions: dict[str, int] = about("Revisions of the pod templates it was accepted under.")
    created_in_cluster_at: Instant | None = about(TIME)
    released_at: Instant | None = about(TIME)
    tasks: list[TaskShape]


class WorkflowPluginsShape(Shape):
    rsync: bool


class WorkflowShape(Shape):
    name: str
    uuid: str
    submitted_by: str
    cancelled_by: str | None
    spec: str = about("Address of the spec.")
    template_spec: str | None
    logs: str
    events: str
    overview: str
    parent_name: str | None = about("The workflow that it runs again; null for any other.")
    parent_job_id: int | None
    dashboard_url: str | None
    grafana_url: str | None
    tags: list[str]
    submit_time: Instant | None = about(TIME)
    start_time: Instant | None = about(TIME)
    end_time: Instant | None = about(TIME)
    exec_timeout: float = about("Seconds.")
    queue_timeout: float = about("Seconds.")
    duration: float | None = about("Seconds.")
    queued_time: float = about("Seconds.")
    status: WorkflowStatusText
    explanation: str | None = about("Its state in one sentence; null where groups were left out.")
    outputs: str | None = about(UNUSED)
    groups: list[GroupShape]
    more_entries: bool = about("Whether groups follow that `limit` left out.")
    pool: str
    pool_revision: int
    backend: str
    app_owner: str | None = about(UNUSED)
    app_name: str | None = about(UNUSED)
    app_version: str | None = about(UNUSED)
    plugins: WorkflowPluginsShape
    priority: PriorityText
    labels: dict[str, str]
    env_vars: dict[str, str] = about("Given at submission, laid over the environment of every task.")
    warnings: list[str]
    notifications: list[DeliveryShape] = about("News to its own targets, the newest 100 of the last week.")
    request_id: str | None


class CancelledShape(Shape):
    name: str


class SessionShape(Shape):
    router_address: str = about("Where the session's WebSocket is opened, below /api/router.")
    key: str = about("Of one session, for a minute and its user; it is used once.")
    cookie: str = about("What the socket is to be opened with; empty.")


class GroupStateShape(Shape):
    name: str
    status: TaskStatusText
    attempt: int
    waiting_reason: str | None
    waiting_since: OwnInstant | None
    got: GroupOutcomeShape | None
    released_at: OwnInstant | None
    task_counts: dict[str, int] = about("Of the latest tries, by status.")
    node_count: int
    nodes: list[str] = about("Those that its latest tries have or had; at most 20.")


class WorkflowStateShape(Shape):
    name: str
    status: WorkflowStatusText
    groups: list[GroupStateShape]
    more_entries: bool = about("Whether groups follow those that are watched.")


class WatchEndShape(Shape):
    removed: bool = about("Else the workflow has ended and nothing of it is left in its cluster.")


class WatchEventShape(Shape):
    """Each of the server-sent events."""

    event: Literal["state", "end"]
    id: str | None = absent("Of a state: what `Last-Event-ID` names.")
    data: str = about(
        "JSON. Of a state: `name`, `status`, `groups` and `more_entries`; at the end `removed`, or that the "
        "workflow has ended and nothing of it is left."
    )
