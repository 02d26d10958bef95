"""Check a workflow against its pool, and freeze the values that everything later needs.

Pure: a parsed spec and the facts of a pool go in; placements, warnings and faults come out, all faults at
once, those of topology included. No requirement is weakened to make a workflow fit; a surprise for the user
is a warning. A resource spec is checked once, not once for each of its tasks, so the cost is linear
in tasks with a small factor.

Paths of faults are those of the parsed document; the caller, who has it, adds line and column.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any
from uuid import UUID

from pools.checks.backend import check_shard
from pools.values.recovery import RecoveryPolicy
from pools.values.recovery_words import check_amounts, check_responses, policy_of
from scheduling import names
from scheduling.backends.base import Checked
from scheduling.backends.facets import SchedulerBackend
from scheduling.backends.priorities import effective_priority
from scheduling.capabilities import Capability
from scheduling.errors import Fault, Notice, Path, in_order
from scheduling.gang.checks import APART
from scheduling.gang.nvlink import (
    ChannelClaim,
    NvlinkTask,
    channel_claims,
    check_nvlink,
    claim_faults,
    raised_gpus,
)
from scheduling.nodes.channels import channel_faults, channel_notices
from scheduling.sentences import in_seconds, listing
from scheduling.topology.levels import ranks
from scheduling.topology.requirements import Gang, GangTask, Requirement, SetPath, decided, effective
from scheduling.topology.segments import segment_faults
from workflows.admission.barrier_choice import start_barrier
from workflows.admission.default_topology import GroupDefault, default_of_group
from workflows.admission.platforms import check_use, frozen_mount, node_notices, platform_of
from workflows.admission.pool_facts import PlatformFacts, PoolFacts, Timeouts
from workflows.spec.group_defaults import bound_by
from workflows.spec.syntax import MAX_NAME, quoted
from workflows.spec.workflow_spec import GroupSpec, Resource, TaskSpec, WorkflowSpec
from workflows.values.placement import (
    FrozenTemplate,
    GroupPlacement,
    GroupValues,
    StartBarrier,
    TaskPlacement,
    TaskTry,
    may_be_tried_again,
    shape_of,
)


def admit(
    spec: WorkflowSpec,
    facts: PoolFacts,
    *,
    user: str,
    priority: str,
    name: str,
    workflow: UUID,
    scheduler: SchedulerBackend,
    new_uuid: Callable[[], UUID],
    auto_types: Mapping[str, Mapping[SetPath, bool]] | None = None,
    without_default: Mapping[str, str] | None = None,
) -> tuple[tuple[GroupValues, ...], Checked]:
    """Check a workflow against its pool; returns its groups' frozen values, with faults and notices.

    ``name`` and ``workflow`` (a uuid) identify it. ``auto_types`` says by task group and set whether a
    requirement that is ``auto`` is required. Without it each such requirement counts as required, and the
    values of a workflow that has one must not be frozen: they serve to decide it. ``without_default`` are
    the task groups that get no default topology, with the reason. The groups are in the order of the spec's
    groups; with faults they must not be used.
    """
    admission = _Admission(
        spec=spec,
        facts=facts,
        user=user,
        priority=priority,
        scheduler=scheduler,
        new_uuid=new_uuid,
        auto_types=auto_types or {},
        without_default=without_default or {},
    )
    groups = admission.groups(name=name, workflow=workflow)
    return groups, Checked(tuple(in_order(admission.faults)), tuple(admission.notices))


@dataclass(slots=True, kw_only=True)
class _Admission:
    """One admission: its inputs, and the ``faults`` and ``notices`` found so far."""

    spec: WorkflowSpec
    facts: PoolFacts
    user: str
    priority: str
    scheduler: SchedulerBackend
    new_uuid: Callable[[], UUID]
    auto_types: Mapping[str, Mapping[SetPath, bool]]
    without_default: Mapping[str, str]
    faults: list[Fault] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    platforms: dict[str, PlatformFacts | None] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    reported: set[Path] = field(default_factory=set)
    doubted: set[str] = field(default_factory=set)
    used: set[Path] = field(default_factory=set)
    frozen: dict[tuple[Path, int, bool], TaskPlacement] = field(default_factory=dict)

    def groups(self, *, name: str, workflow: UUID) -> tuple[GroupValues, ...]:
        shared = self.shared(name=name, workflow=workflow)
        return tuple(self.group(group, shared) for group in self.spec.groups)

    def shared(self, *, name: str, workflow: UUID) -> GroupPlacement:
        """What is frozen of the pool and the workflow, the same for every group."""
        facts = self.facts
        exec_timeout = self.timeout("exec_timeout", self.spec.exec_timeout, facts.exec_timeout)
        queue_timeout = self.timeout("queue_timeout", self.spec.queue_timeout, facts.queue_timeout)
        self.check_names()
        self.notices += [*_elsewhere(self.spec, facts), *_without_retries(self.spec, facts)]
        return GroupPlacement(
            terms=facts.terms,
            priority_class=names.priority_class(self.scheduled_priority(), prefix=facts.queues.prefix),
            exec_timeout=exec_timeout,
            queue_timeout=queue_timeout,
            start_timeout=facts.limits.max_pod_restart_limit,
            default_exit_actions=facts.default_exit_actions,
            max_retry_per_task=facts.limits.max_retry_per_task,
            workflow_name=name,
            workflow_uuid=workflow,
            submitted_by=self.user,
            labels=self.spec.labels,
            priority=self.priority,
        )

    def timeout(self, key: str, seconds: float | None, allowed: Timeouts) -> float:
        """The timeout in force in seconds: the user's, cut to the pool's maximum, or the default."""
        if seconds is None:
            return allowed.default
        if seconds > allowed.most:
            most = in_seconds(allowed.most)
            message = f"{key} is cut from {seconds:.10g} to {most}, the most that this pool allows."
            self.notices.append(Notice("timeout_cut", message, ("workflow", "timeout", key)))
        return min(seconds, allowed.most)

    def scheduled_priority(self) -> str:
        """The priority whose class the pods get; a notice where the user chose another."""
        scheduled = effective_priority(self.priority, spares_normal=self.scheduler.traits.spares_normal)
        if scheduled != self.priority:
            message = (
                f'Scheduler "{self.facts.terms.scheduler_type}" treats priority {self.priority} as '
                f"{scheduled}: it would evict all work of lower priority, but only LOW work may be evicted."
            )
            self.notices.append(Notice("priority_lowered", message))
        return scheduled

    def check_names(self) -> None:
        """Check names against the limit that the service is set to, which may be lower than the grammar's."""
        spec, most = self.spec, self.facts.limits.max_name_length
        named: list[tuple[str, Path]] = [(spec.name, ("workflow", "name"))]
        named += [(group.name, (*group.path, "name")) for group in spec.groups if not group.bare]
        named += [(task.name, (*task.path, "name")) for group in spec.groups for task in group.tasks]
        for name, path in named:
            if most < len(name) <= MAX_NAME:
                message = f"The name has {len(name)} characters; at most {most} are accepted."
                self.faults.append(Fault(path, "name", message))

    def group(self, group: GroupSpec, shared: GroupPlacement) -> GroupValues:
        platforms = [self.platform(task.resource) for task in group.tasks]
        gang, default = _gang(group, platforms), None
        if not group.leaves_default:
            group, default = self.with_default(group, gang, platforms, queue_timeout=shared.queue_timeout)
        placed = [
            (task, platform)
            for task, platform in zip(group.tasks, platforms, strict=True)
            if platform is not None
        ]
        gang = self.decided(_gang(group, platforms) if default else gang)
        starts_together = self.check_topology(gang, queue_timeout=shared.queue_timeout)
        in_force = {task.name: task.requirements for task in effective(gang).tasks}
        claims = self.claims(group, placed)
        nvlink = self.gets_domain(group, claims)
        raised: Mapping[str, int] = {}
        if nvlink and len(placed) == len(group.tasks):
            node_gpus = {task.name: platform.node_gpus or 0 for task, platform in placed}
            raised = self.raised_gpus(gang, claims, node_gpus)
            self.notices += check_nvlink(
                gang,
                self.facts.terms.levels,
                claims=claims,
                node_gpus=node_gpus,
                raised=raised,
            )
        self.check_quota(gang, raised)
        tries = tuple(
            TaskTry(
                task_uuid=self.new_uuid(),
                name=task.name,
                retry_id=0,
                placement=self.task(task, platform, claim=claims[task.name], topology=in_force[task.name]),
            )
            for task, platform in placed
        )
        counts = Counter(str(claim) for claim in claims.values()) if nvlink else {}
        placement = replace(
            shared,
            nvlink=nvlink,
            claims=counts,
            claim_gpus={p.name: raised[task.name] for task, p in placed if task.name in raised},
            domain_nodes=0 if self.facts.imex_dns_names else sum(claim.is_made for claim in claims.values()),
            start_barrier=self.start_barrier(group, shared, starts_together=starts_together),
            free_preferences_after=self.free_preferences_after(tries),
            recovery=self.recovery(group),
            default_topology=default.to_json() if default else {},
            **_templates({p.name: p for _, p in placed}),
        )
        tasks = [task.placement for task in tries]
        attempts = may_be_tried_again(placement, tasks)
        return GroupValues(
            uuid=self.new_uuid(),
            name=group.name,
            generation=0,
            placement=replace(placement, attempts=attempts),
            tasks=tries,
        )

    def with_default(
        self, group: GroupSpec, gang: Gang, platforms: Sequence[PlatformFacts | None], *, queue_timeout: float
    ) -> tuple[GroupSpec, GroupDefault | None]:
        """The group with the default topology that it gets; a notice says so, or why it gets none."""
        default = default_of_group(group, gang, platforms, self.facts)
        if default is None:
            return group, None
        bound, faults = bound_by(group, default.default)
        reason = self.without_default.get(group.name)
        if reason is None:
            gang = self.decided(_gang(bound, platforms))
            faults += self.checked(gang, queue_timeout=queue_timeout).faults
            reason = faults[0].message if faults else None
        if reason is not None:
            self.notices.append(default.left_out(group, reason))
            return group, None
        self.notices.append(default.notice(group))
        return bound, default

    def decided(self, gang: Gang) -> Gang:
        """The gang with what is ``auto`` as it was decided, if it was."""
        required = self.auto_types.get(gang.name)
        return decided(gang, required, ranks(self.facts.terms.levels)) if required else gang

    def raised_gpus(
        self, gang: Gang, claims: Mapping[str, ChannelClaim], node_gpus: Mapping[str, int]
    ) -> Mapping[str, int]:
        """What tasks ask a scheduler for that counts no channels, where that is more than their GPUs.

        Tasks of one shape ask for the same, so those beside claims ask for more, too.
        """
        if self.scheduler.admission is None:
            return {}
        gpus = {task.name: task.gpus for task in gang.tasks if claims[task.name].is_made}
        raised = raised_gpus(gpus, node_gpus)
        shapes = {task.shape: raised[task.name] for task in gang.tasks if task.name in raised}
        return {task.name: shapes[task.shape] for task in gang.tasks if task.shape in shapes}

    def free_preferences_after(self, tries: Sequence[TaskTry]) -> int:
        """When the group's preferences give way, in seconds; 0 without one, or where no edit is possible."""
        prefers = any(not r.required for task in tries for r in task.placement.requirements)
        editable = Capability.TOPOLOGY_RELAX_PENDING in self.facts.capabilities
        return self.facts.free_preferences_after if prefers and editable else 0

    def recovery(self, group: GroupSpec) -> RecoveryPolicy:
        """The policy of a group; a fault in what the workflow says for all its groups is reported once."""
        facts, places = self.facts, (self.facts.recovery, *group.recovery)
        if group.recovery:  # the pool's own words were checked when it was saved
            faults = [
                *check_amounts(places, most=facts.max_recoveries),
                *check_responses(places, capabilities=facts.capabilities),
            ]
            for fault in faults:
                if fault.path not in self.reported:
                    self.reported.add(fault.path)
                    self.faults.append(fault)
        return policy_of(places)

    def claims(
        self, group: GroupSpec, placed: Sequence[tuple[TaskSpec, PlatformFacts]]
    ) -> dict[str, ChannelClaim]:
        """Who claims a channel, by task; contradicting words are faults."""
        facts = self.facts
        tasks = [
            NvlinkTask(
                name=task.name,
                gpus=task.resource.gpu,
                word=task.nvlink,
                platform=platform.name,
                platform_has_nvlink=platform.nvlink,
                path=task.path,
            )
            for task, platform in placed
        ]
        claims = channel_claims(
            tasks, group_word=group.nvlink, has_domain=facts.nvlink and group.nvlink is not False
        )
        self.faults += claim_faults(
            tasks,
            claims,
            group_word=group.nvlink,
            group_path=group.path,
            pool=facts.terms.pool,
            pool_has_nvlink=facts.nvlink,
        )
        self.check_channels(group, tasks, claims)
        return claims

    def check_channels(
        self, group: GroupSpec, tasks: Sequence[NvlinkTask], claims: Mapping[str, ChannelClaim]
    ) -> None:
        """Refuse claims that no node can meet; warn once of a platform whose channels are not known."""
        counts = {p.name: p.channels for p in self.facts.platforms.values() if p.channels is not None}
        self.faults += channel_faults(
            tasks,
            claims,
            counts=counts,
            now=self.facts.now,
            group_word=group.nvlink,
            group_path=group.path,
        )
        unwarned = {name: count for name, count in counts.items() if name not in self.doubted}
        for platform, notice in channel_notices(
            tasks, claims, counts=unwarned, now=self.facts.now, group_path=group.path
        ):
            self.doubted.add(platform)
            self.notices.append(notice)

    def gets_domain(self, group: GroupSpec, claims: Mapping[str, ChannelClaim]) -> bool:
        """Whether the group gets a ComputeDomain."""
        if not self.facts.nvlink or group.nvlink is False:
            return False
        return self.facts.domain_for_every_group or any(claim.is_made for claim in claims.values())

    def platform(self, resource: Resource) -> PlatformFacts | None:
        """The platform of a resource spec; its faults and notices are reported once."""
        if resource.name not in self.platforms:
            platform = platform_of(resource, self.facts)
            if isinstance(platform, Fault):
                self.faults.append(platform)
                self.platforms[resource.name] = None
            else:
                self.faults += self.check_shard(resource, platform)
                self.notices += node_notices(resource, platform)
                self.platforms[resource.name] = platform
        return self.platforms[resource.name]

    def check_shard(self, resource: Resource, platform: PlatformFacts) -> list[Fault]:
        """Refuse nodes that the backend's shard of the scheduler never sees: the gang would wait for ever."""
        subject = f'Platform "{platform.name}"' if platform.name else f'Pool "{self.facts.terms.pool}"'
        return check_shard(
            {subject: platform.node_selector},
            label=self.facts.shard_label,
            shard=self.facts.terms.shard,
            path=resource.path,
        )

    def start_barrier(
        self, group: GroupSpec, shared: GroupPlacement, *, starts_together: bool
    ) -> StartBarrier | None:
        """The group's start barrier; a notice where its author asks for one and it is another."""
        barrier, notice = start_barrier(
            group, self.facts, start_timeout=shared.start_timeout, starts_together=starts_together
        )
        self.notices += [notice] if notice else []
        return barrier

    def check_topology(self, gang: Gang, *, queue_timeout: float) -> bool:
        """Check what the scheduler can hold; returns whether it places all tasks together."""
        checked = self.checked(gang, queue_timeout=queue_timeout)
        self.faults += [*checked.faults, *segment_faults(gang, self.facts.terms.levels)]
        self.notices += checked.notices
        return not any(notice.code == APART for notice in checked.notices)

    def checked(self, gang: Gang, *, queue_timeout: float) -> Checked:
        """What the scheduler says of a gang."""
        facts = self.facts
        return self.scheduler.rendering.check(
            gang,
            facts.terms.levels,
            capabilities=facts.capabilities,
            domains=list(facts.places) or None,
            unsupported_preferred=facts.terms.unsupported_preferred,
            queue_timeout=queue_timeout,
        )

    def check_quota(self, gang: Gang, raised: Mapping[str, int]) -> None:
        most = self.facts.gpu_maximum
        gpus = sum(raised.get(task.name, task.gpus) for task in gang.tasks)
        if most is not None and gpus > most:
            message = (
                f'Task group "{gang.name}" asks for {gpus} GPUs at once, but its pool may use at most '
                f"{most:g}: it waits until that limit is raised."
            )
            self.notices.append(Notice("gpus_beyond_pool", message, gang.path))

    def task(
        self,
        task: TaskSpec,
        platform: PlatformFacts,
        *,
        claim: ChannelClaim,
        topology: tuple[Requirement, ...],
    ) -> TaskPlacement:
        """Freeze a task; ``topology`` is in force for it, its task group's included."""
        key = (task.path, id(task.resource), task.lead)
        if (frozen := self.frozen.get(key)) is not None:
            return frozen
        if task.path not in self.used:  # tasks of one entry have their faults in common
            self.used.add(task.path)
            self.faults += check_use(task, platform)
            self.check_grace_period(task)
        resource = task.resource
        self.frozen[key] = placement = TaskPlacement(
            image=task.image,
            command=task.command,
            args=task.args,
            environment={**task.environment, **self.spec.environment},
            files=task.files,
            privileged=task.privileged,
            host_network=task.host_network,
            volume_mounts=_mounts(task, platform),
            credentials={self.secret(name, task): use for name, use in task.credentials.items()},
            cpu=resource.cpu,
            gpu=resource.gpu,
            memory=resource.memory,
            storage=resource.storage,
            platform=platform.name,
            node_selector=platform.node_selector,
            tolerations=platform.tolerations,
            nodes_excluded=resource.nodes_excluded,
            requirements=topology,
            exit_actions=task.exit_actions,
            lead=task.lead,
            claims_channel=claim.is_made,
            grace_period=task.grace_period,
            counted=task.counted,
        )
        return placement

    def check_grace_period(self, task: TaskSpec) -> None:
        most = self.facts.max_grace_period
        if task.grace_period > most:
            message = (
                f"{in_seconds(task.grace_period)} are over what pool {quoted(self.facts.terms.pool)} allows "
                f"(max_grace_period_seconds), which is {most}."
            )
            path = (*task.path, "terminationGracePeriodSeconds")
            self.faults.append(Fault(path, "over_maximum", message, allowed=(str(most),)))

    def secret(self, name: str, task: TaskSpec) -> str:
        """The Secret of a credential: one that the pool shares, or the user's own of that name."""
        shared = name in self.facts.shared_credentials
        secret = name if shared else names.credential_prefix(self.facts.terms.installation, self.user) + name
        if name not in self.secrets:
            self.secrets.add(name)
            owner = f'pool "{self.facts.terms.pool}" shares' if shared else f'belongs to "{self.user}"'
            message = (
                f'Credential "{name}" is read from the Secret "{secret}" in namespace '
                f'"{self.facts.terms.namespace}", which {owner}.'
            )
            self.notices.append(Notice("credential", message, (*task.path, "credentials", name)))
        return secret


def _mounts(task: TaskSpec, platform: PlatformFacts) -> tuple[str, ...]:
    """Every mount once: those that every task gets, then the task's own that are allowed."""
    own = (frozen for mount in task.volume_mounts if (frozen := frozen_mount(mount, platform)) is not None)
    return tuple(dict.fromkeys((*platform.default_mounts, *own)))


def _templates(used: Mapping[str, PlatformFacts]) -> dict[str, Any]:
    """The templates of the platforms that a group uses, each once, and the revisions they come from."""
    templates = {
        name: platform.template for name, platform in used.items() if platform.template != FrozenTemplate()
    }
    revisions: dict[str, int] = {}
    for platform in used.values():
        revisions |= platform.template_revisions
    return {"templates": templates, "template_revisions": dict(sorted(revisions.items()))}


def _gang(group: GroupSpec, platforms: Iterable[PlatformFacts | None]) -> Gang:
    return Gang(group.name, tuple(map(_member, group.tasks, platforms)), group.path, group.topology)


def _member(task: TaskSpec, platform: PlatformFacts | None) -> GangTask:
    resource = task.resource
    return GangTask(
        task.name,
        resource.gpu,
        resource.topology,
        task.path,
        inherits=not resource.leaves_group_topology,
        shape=shape_of(resource, platform=platform.name if platform else None),
    )


def _without_retries(spec: WorkflowSpec, facts: PoolFacts) -> Iterator[Notice]:
    """Warn of exit codes that would try a task again where the service allows no retries."""
    tasks = [task for group in spec.groups for task in group.tasks if "RESCHEDULE" in task.exit_actions]
    if tasks and not facts.limits.max_retry_per_task:
        message = (
            f"Exit codes of {listing(task.name for task in tasks)} say RESCHEDULE, and the service tries no "
            "task again: its max_retry_per_task is 0. They count as other failures, and the recovery of the "
            "group decides."
        )
        yield Notice("no_retries", message, (*tasks[0].path, "exitActions", "RESCHEDULE"))


def _elsewhere(spec: WorkflowSpec, facts: PoolFacts) -> Iterator[Notice]:
    """Warn of a document that names another pool or backend than those that the request decides on."""
    if spec.pool and spec.pool != facts.terms.pool:
        message = (
            f"The document names pool {quoted(spec.pool)}, but the request decides on pool "
            f'"{facts.terms.pool}": it goes to "{facts.terms.pool}".'
        )
        yield Notice("other_pool", message, ("workflow", "pool"))
    if spec.backend and spec.backend != facts.terms.backend:
        message = (
            f'The document names backend {quoted(spec.backend)}, but pool "{facts.terms.pool}" is on backend '
            f'"{facts.terms.backend}": it goes there.'
        )
        yield Notice("other_backend", message, ("workflow", "backend"))


def capability_faults(
    faults: Sequence[Fault], *, pools: Mapping[str, frozenset[Capability]], unknown: Collection[str]
) -> list[Fault]:
    """Add to each missing capability the pools that have it.

    ``pools`` are the others that the caller may use; of those in ``unknown`` the scheduler's version is not
    known. A bound is no capability that a pool has or has not.
    """
    return [
        replace(fault, message=f"{fault.message} {_pools_with(fault.capability, pools, unknown)}")
        if fault.capability in set(Capability)
        else fault
        for fault in faults
    ]


def _pools_with(capability: str, pools: Mapping[str, frozenset[Capability]], unknown: Collection[str]) -> str:
    having = sorted(name for name, capabilities in pools.items() if capability in capabilities)
    if having:
        return f"Pools that have it: {listing(having)}."
    if unknown:
        return f"Whether it is there in {listing(sorted(unknown))} is not known yet."
    return "No other pool you may use has it."


def oversized_objects(
    manifests: Iterable[tuple[Path, int]], *, most: int, limit: int = 20
) -> Iterator[Fault]:
    """The faults of the first objects over ``most`` bytes; ``manifests`` are (path in the spec, bytes)."""
    for path, size in islice(((path, size) for path, size in manifests if size > most), limit):
        message = f"Its object has {size} bytes, files included, but the cluster accepts at most {most}."
        yield Fault(path, "object_too_large", message, allowed=(str(most),))
