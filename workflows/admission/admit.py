"""Whether a pool can take a workflow, and what is frozen of it if it can.

Pure: a parsed spec and the facts of a pool go in; placements, warnings and faults come out, all faults at
once, those of topology included. Nothing is weakened to make a workflow fit; what a user may not expect is
a warning. Checks that hold for a resource spec are made once for it and not once for each of its tasks, so
the cost is linear in tasks with a small factor.

Paths of faults are those of the parsed document; whoever has it adds line and column.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any
from uuid import UUID

from scheduling import names
from scheduling.backends.base import SchedulerBackend
from scheduling.backends.priorities import priority_held
from scheduling.capabilities import Capability
from scheduling.errors import Fault, Notice, Path, in_order
from scheduling.nvlink import check_nvlink
from scheduling.requirements import Gang, GangTask, Requirement, effective
from scheduling.sentences import listing
from workflows.admission.platforms import check_use, choose, frozen_mount, notices_of
from workflows.admission.pool_facts import PlatformFacts, PoolFacts, Timeouts
from workflows.spec.syntax import MAX_NAME
from workflows.spec.workflow_spec import GroupSpec, Resource, TaskSpec, WorkflowSpec
from workflows.values.placement import (
    FrozenTemplate,
    GroupPlacement,
    GroupValues,
    TaskPlacement,
    TaskTry,
    version_for,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked beside the spec: ``labels`` are merged already, ``environment`` goes over tasks'."""

    user: str
    priority: str
    labels: Mapping[str, str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedGroup:
    """A task group ready to be written. ``upstream`` names groups of the same workflow."""

    values: GroupValues
    gang: Gang
    upstream: tuple[str, ...]
    barrier: bool
    ignore_nonlead_status: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What came of it. With faults, ``groups`` are not to be used."""

    groups: tuple[AdmittedGroup, ...]
    exec_timeout: float
    queue_timeout: float
    faults: tuple[Fault, ...]
    notices: tuple[Notice, ...]


def admit(
    spec: WorkflowSpec,
    facts: PoolFacts,
    *,
    wish: Wish,
    name: str,
    workflow: UUID,
    scheduler: SchedulerBackend,
    new_uuid: Callable[[], UUID],
) -> Admission:
    """Check a workflow against its pool and place its tasks."""
    run = _Run(facts=facts, wish=wish, scheduler=scheduler, faults=[], notices=[])
    exec_timeout = run.timeout("exec_timeout", spec.exec_timeout, facts.exec_timeout)
    queue_timeout = run.timeout("queue_timeout", spec.queue_timeout, facts.queue_timeout)
    run.names(spec)
    held = run.priority()
    base = GroupPlacement(
        installation=facts.installation,
        pool=facts.name,
        pool_revision=facts.revision,
        backend=facts.backend,
        cluster_uid=facts.cluster_uid,
        namespace=facts.namespace,
        scheduler_type=facts.scheduler_type,
        scheduler_name=facts.scheduler_name,
        scheduler_version=facts.scheduler_version,
        queue=names.queue(facts.namespace, facts.name),
        priority_class=names.priority_class(held),
        levels=facts.levels,
        split_gangs=facts.split_gangs,
        unsupported_preferred=facts.unsupported_preferred,
        external_topology=facts.external_topology if facts.levels else "",
        exec_timeout=exec_timeout,
        queue_timeout=queue_timeout,
        default_exit_actions=facts.default_exit_actions,
        max_retry_per_task=facts.limits.max_retry_per_task,
        workflow_name=name,
        workflow_uuid=workflow,
        submitted_by=wish.user,
        labels=wish.labels,
        priority=wish.priority,
    )
    groups = tuple(run.group(group, base, new_uuid) for group in spec.groups)
    run.notices += _across(spec)
    return Admission(
        groups=groups,
        exec_timeout=exec_timeout,
        queue_timeout=queue_timeout,
        faults=tuple(in_order(run.faults)),
        notices=tuple(run.notices),
    )


@dataclass(slots=True, kw_only=True)
class _Run:
    """One admission: what it reads, and what it has found so far."""

    facts: PoolFacts
    wish: Wish
    scheduler: SchedulerBackend
    faults: list[Fault]
    notices: list[Notice]
    platforms: dict[str, PlatformFacts | None] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)

    def timeout(self, key: str, wanted: float | None, allowed: Timeouts) -> float:
        """The timeout in force: the user's, cut at the most, or the default. Seconds."""
        if wanted is None:
            return allowed.default
        if wanted > allowed.most:
            said = f"{key} was {wanted:g} seconds and is cut to {allowed.most:g}, the most this pool allows."
            self.notices.append(Notice("timeout_cut", said, ("workflow", "timeout", key)))
        return min(wanted, allowed.most)

    def priority(self) -> str:
        """The priority whose class the pods get; a notice where that is not the one asked for."""
        wanted = self.wish.priority
        held = priority_held(wanted, spares_normal=self.scheduler.spares_normal)
        if held != wanted:
            said = (
                f'Priority {wanted} is scheduled as {held} by "{self.facts.scheduler_type}": it would evict '
                "whatever is lower, and only LOW may be evicted."
            )
            self.notices.append(Notice("priority_lowered", said))
        return held

    def names(self, spec: WorkflowSpec) -> None:
        """Hold names to the service's own limit, which may be lower than the grammar's."""
        most = self.facts.limits.max_name_length
        named: list[tuple[str, Path]] = [(spec.name, ("workflow", "name"))]
        named += [(group.name, (*group.path, "name")) for group in spec.groups if not group.bare]
        named += [(task.name, (*task.path, "name")) for group in spec.groups for task in group.tasks]
        for name, path in named:
            if most < len(name) <= MAX_NAME:
                said = f"The name has {len(name)} characters; at most {most} are accepted."
                self.faults.append(Fault(path, "name", said))

    def group(self, group: GroupSpec, base: GroupPlacement, new_uuid: Callable[[], UUID]) -> AdmittedGroup:
        nvlink = self.nvlink(group)
        placed = [(task, self.platform(task.resource)) for task in group.tasks]
        gang = Gang(group.name, tuple(_member(task) for task in group.tasks), group.path, group.topology)
        self.topology(gang, queue_timeout=base.queue_timeout)
        in_force = {task.name: task.requirements for task in effective(gang).tasks}
        if nvlink:
            node_gpus = {task.name: found.node_gpus or 0 for task, found in placed if found is not None}
            self.notices += check_nvlink(gang, self.facts.levels, node_gpus=node_gpus)
        self.quota(gang)
        tries = tuple(
            TaskTry(
                task_uuid=new_uuid(),
                name=task.name,
                retry_id=0,
                placement=self.task(task, platform, nvlink=nvlink, topology=in_force[task.name]),
            )
            for task, platform in placed
            if platform is not None
        )
        used = {found.name: found for _, found in placed if found is not None}
        placement = replace(base, nvlink=nvlink, **_templates(used))
        version = version_for(placement, (one.placement for one in tries))
        return AdmittedGroup(
            values=GroupValues(
                uuid=new_uuid(),
                name=group.name,
                attempt=0,
                placement=replace(placement, version=version),
                tasks=tries,
            ),
            gang=gang,
            upstream=group.upstream,
            barrier=group.barrier,
            ignore_nonlead_status=group.ignore_nonlead_status,
        )

    def nvlink(self, group: GroupSpec) -> bool:
        """Whether the group gets a ComputeDomain: in an NVLink pool, unless it says no."""
        if group.nvlink and not self.facts.nvlink:
            said = f'Pool "{self.facts.name}" has no NVLink, so its groups get no ComputeDomain.'
            self.faults.append(Fault((*group.path, "nvlink"), "nvlink_not_in_pool", said, allowed=("false",)))
        return self.facts.nvlink and group.nvlink is not False

    def platform(self, resource: Resource) -> PlatformFacts | None:
        """The platform of a resource spec; its faults and notices are told once."""
        if resource.name not in self.platforms:
            found = choose(resource, self.facts)
            if isinstance(found, Fault):
                self.faults.append(found)
                self.platforms[resource.name] = None
            else:
                self.notices += notices_of(resource, found)
                self.platforms[resource.name] = found
        return self.platforms[resource.name]

    def topology(self, gang: Gang, *, queue_timeout: float) -> None:
        facts = self.facts
        checked = self.scheduler.check(
            gang,
            facts.levels,
            capabilities=facts.capabilities,
            split_gangs=facts.split_gangs,
            domains=list(facts.places) or None,
            unsupported_preferred=facts.unsupported_preferred,
            queue_timeout=queue_timeout,
        )
        self.faults += checked.faults
        self.notices += checked.notices

    def quota(self, gang: Gang) -> None:
        most = self.facts.gpu_maximum
        wanted = sum(task.gpus for task in gang.tasks)
        if most is not None and wanted > most:
            said = (
                f'"{gang.name}" asks for {wanted} GPUs at once, but the pool may use at most {most:g}: it '
                "waits until that is raised."
            )
            self.notices.append(Notice("gpus_beyond_pool", said, gang.path))

    def task(
        self,
        task: TaskSpec,
        platform: PlatformFacts,
        *,
        nvlink: bool,
        topology: tuple[Requirement, ...],
    ) -> TaskPlacement:
        """A task as it is frozen; ``topology`` is in force for it, its task group's included."""
        self.faults += check_use(task, platform)
        resource = task.resource
        return TaskPlacement(
            image=task.image,
            command=task.command,
            args=task.args,
            environment={**task.environment, **self.wish.environment},
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
            claims_channel=nvlink and resource.gpu > 0,
        )

    def secret(self, name: str, task: TaskSpec) -> str:
        """The Secret behind a credential: one that the pool shares, or the user's own of that name."""
        shared = name in self.facts.shared_credentials
        secret = name if shared else names.credential_prefix(self.facts.installation, self.wish.user) + name
        if name not in self.secrets:
            self.secrets.add(name)
            whose = f'pool "{self.facts.name}" shares' if shared else f'is "{self.wish.user}"\'s own'
            said = (
                f'Credential "{name}" is read from the Secret "{secret}" in namespace '
                f'"{self.facts.namespace}", which {whose}.'
            )
            self.notices.append(Notice("credential", said, (*task.path, "credentials", name)))
        return secret


def _mounts(task: TaskSpec, platform: PlatformFacts) -> tuple[str, ...]:
    """Each mount once: those that every task gets, then the task's own that are allowed."""
    own = (frozen for mount in task.volume_mounts if (frozen := frozen_mount(mount, platform)) is not None)
    return tuple(dict.fromkeys((*platform.default_mounts, *own)))


def _templates(used: Mapping[str, PlatformFacts]) -> dict[str, Any]:
    """The templates of the platforms that a group uses, each once, and of what they were made."""
    templates = {name: one.template for name, one in used.items() if one.template != FrozenTemplate()}
    revisions: dict[str, int] = {}
    for one in used.values():
        revisions |= one.template_revisions
    return {"templates": templates, "template_revisions": dict(sorted(revisions.items()))}


def _member(task: TaskSpec) -> GangTask:
    resource = task.resource
    inherits = not resource.leaves_group_topology
    return GangTask(task.name, resource.gpu, resource.topology, task.path, inherits)


def _across(spec: WorkflowSpec) -> Iterator[Notice]:
    """Warn of bare tasks that name one group of a key as if it held between them.

    Each is a task group of its own (OSMO's rule), and no requirement reaches over task groups.
    """
    sharing: dict[tuple[str, str], list[str]] = {}
    for task in (task for group in spec.groups if group.bare for task in group.tasks):
        for requirement in task.resource.topology:
            sharing.setdefault((requirement.key, requirement.group), []).append(task.name)
    for (key, named), tasks in sharing.items():
        if len(tasks) > 1:
            said = (
                f'Tasks {listing(tasks)} name {key} "{named}", but each task under `tasks:` is a group of '
                "its own, so nothing holds between them. To place them together write `groups: [{name: "
                f"{spec.name}-group, tasks: [...]}}]`, with `lead: true` on one of them."
            )
            yield Notice("bare_tasks_share_nothing", said, ("workflow", "tasks"))


def capability_faults(faults: Sequence[Fault], *, pools: Mapping[str, frozenset[Capability]]) -> list[Fault]:
    """Say with each missing capability which pools have it; ``pools`` are those the caller may use."""
    return [
        replace(fault, message=f"{fault.message} {_pools_with(fault.capability, pools)}")
        if fault.capability
        else fault
        for fault in faults
    ]


def _pools_with(capability: str, pools: Mapping[str, frozenset[Capability]]) -> str:
    having = sorted(name for name, held in pools.items() if capability in held)
    return f"Pools that have it: {listing(having)}." if having else "No pool you may use has it."


def oversized(manifests: Iterable[tuple[Path, int]], *, most: int, shown: int = 20) -> Iterator[Fault]:
    """Faults of rendered objects over the limit; ``manifests`` gives where each comes from and its bytes."""
    for path, size in islice(((path, size) for path, size in manifests if size > most), shown):
        said = f"It becomes an object of {size} bytes; the cluster takes at most {most}. Files count too."
        yield Fault(path, "object_too_large", said, allowed=(str(most),))
