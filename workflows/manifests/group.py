"""All objects of a task group.

Each try of a task renders its own pod and the group renders the other objects, because a retry needs one pod
of ten thousand. A scheduler whose pod groups cannot be edited gets one pod group for each generation; the
pods of a generation are those that ever joined it, so a later rendering gives its pod groups the same names.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pools.values.recovery import Loss, Response
from scheduling import names
from scheduling.backends.base import AppliedConstraint, GangRequest, Manifest, PodParts, RenderedGang
from scheduling.backends.registry import scheduler_backend
from scheduling.gang import pins
from scheduling.kubernetes_syntax import is_label_value
from scheduling.topology.levels import HOSTNAME_LABEL, NO_CLIQUE
from scheduling.topology.requirements import required_clique
from workflows.manifests import labels
from workflows.manifests.file_secrets import FileSecrets
from workflows.manifests.pod import PodFrame, render_pod
from workflows.manifests.requests import for_a_claim, on_nodes_with, part_for_node
from workflows.manifests.start_barrier import add_barrier, ended_text, peers_text
from workflows.manifests.tokens import Tokens
from workflows.values.form_marks import FormMarks
from workflows.values.observation import (
    LEFT_OUT_ANNOTATION,
    PINNED_SETS_ANNOTATION,
)
from workflows.values.placement import RESTART_GROUP, File, GroupValues, TaskTry, gang_of, shape_of

_NO_CLIQUE_LABELS = tuple(filter(is_label_value, NO_CLIQUE))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObjects:
    """A task group's objects, in order of creation."""

    secrets: tuple[Manifest, ...]
    compute_domain: Manifest | None

    claim_template: str
    """The template that NVIDIA's controller creates for ``compute_domain``; empty: there is none."""

    topologies: tuple[Manifest, ...]
    parents: tuple[Manifest, ...]
    pod_groups: tuple[Manifest, ...]
    service: Manifest | None

    pods: Mapping[str, Manifest]
    """By task name; a submission that only checks them needs one of each entry."""

    constraints: tuple[AppliedConstraint, ...]

    sets: Mapping[str, str]
    """By subgroup or pod group, the user's name of its set."""

    def in_order(self) -> tuple[Manifest, ...]:
        """Every manifest in the order in which they are created."""
        domain = () if self.compute_domain is None else (self.compute_domain,)
        service = () if self.service is None else (self.service,)
        return (
            *self.secrets,
            *domain,
            *self.topologies,
            *self.parents,
            *self.pod_groups,
            *service,
            *self.pods.values(),
        )


class Renderer:
    """Renders a group's objects; the scheduler backend is called once, however many pods are rendered.

    Raises what the scheduler backend raises for a gang that it cannot schedule.
    """

    def __init__(self, values: GroupValues) -> None:
        self.values = values
        placement = values.placement
        self._labels = labels.of_group(values.uuid, placement)
        self.claim_template = names.claim_template(values.uuid) if placement.nvlink else ""
        subdomain = names.headless_service(values.uuid) if len(values.tasks) > 1 else ""
        hosts = _hosts(values, subdomain)
        tokens = Tokens(values, hosts=hosts)
        self._frame = PodFrame(
            terms=placement.terms,
            submitted_by=placement.submitted_by,
            labels=labels.of_pods(values.uuid, values.name, placement),
            subdomain=subdomain,
            claim_template=self.claim_template,
            templates=placement.templates,
            user_labels=labels.users(placement.labels),
            variables=_variables(values),
            ranks={task.name: rank for rank, task in enumerate(values.tasks)},
            lead_host=next((hosts[task.name] for task in values.tasks if task.placement.lead), ""),
            tokens=tokens,
            files=FileSecrets(values, tokens, self._labels),
        )
        for task in values.tasks:  # of every task, so that a retry finds its files in the same Secret
            for file in task.placement.files:
                self._frame.files.put(file)
        self._peers_secrets = FileSecrets(values, tokens, self._labels, purpose="peers")
        self._peers: tuple[str, str] | None = None
        if placement.start_barrier and subdomain:
            self._peers = self._peers_secrets.put(File(path="", contents=peers_text(values.tasks)))
        self._scheduler = scheduler_backend(placement.terms.scheduler_type)
        self.requests = {
            generation: self._request(generation, tasks) for generation, tasks in _generations(values).items()
        }
        self._gangs = {
            generation: self._scheduler.rendering.render(request)
            for generation, request in self.requests.items()
        }

    def _request(self, generation: int, tasks: tuple[TaskTry, ...]) -> GangRequest:
        values, placement = self.values, self.values.placement
        return GangRequest(
            group=values.uuid,
            gang=gang_of(values.name, tasks),
            terms=placement.terms,
            priority_class=placement.priority_class,
            generation=generation,
            labels=self._labels,
            annotations=_marks(values),
            form=values.form,
            pod_specs=self._pod_specs(tasks) if self._scheduler.admission else {},
            nodes=values.nodes,
        )

    def _pod_specs(self, tasks: tuple[TaskTry, ...]) -> dict[str, Manifest]:
        """The demands of the pods of each shape on their nodes; room for a claim if any of them has one."""
        parts = PodParts({}, {}, self.values.placement.terms.scheduler_name, {})
        first: dict[str, TaskTry] = {}
        for task in tasks:
            first.setdefault(shape_of(task.placement), task)
        specs = {
            shape: part_for_node(render_pod(task, parts, frame=self._frame)["spec"])
            for shape, task in first.items()
        }
        if self.values.left_out:
            elsewhere = {"key": HOSTNAME_LABEL, "operator": "NotIn", "values": [*self.values.left_out]}
            specs = {shape: on_nodes_with(spec, [elsewhere]) for shape, spec in specs.items()}
        cliques = {shape_of(task.placement): off for task in tasks if (off := self._off_cliques(task))}
        specs |= {shape: on_nodes_with(specs[shape], off) for shape, off in cliques.items()}
        gpus = self.values.placement.gpus_beside_claims(task.placement for task in tasks)
        return {
            shape: for_a_claim(spec, gpus=gpus[shape]) if shape in gpus else spec
            for shape, spec in specs.items()
        }

    @property
    def gangs(self) -> Mapping[int, RenderedGang]:
        """The rendered gang of each generation."""
        return self._gangs

    def parts(self, task: TaskTry) -> PodParts:
        return self._gangs[task.generation].pods[task.name]

    def pod(self, task: TaskTry, *, ended: Collection[str] = ()) -> Manifest:
        """The pod of a try; ``ended`` names tasks of the group whose addresses nobody waits for."""
        parts = self.parts(task)
        pod = render_pod(task, parts, frame=self._frame)
        if parts.node_labels:
            pod["spec"]["nodeSelector"] = {**pod["spec"].get("nodeSelector", {}), **parts.node_labels}
        if parts.labels_present:
            expressions = [{"key": label, "operator": "Exists"} for label in parts.labels_present]
            pod["spec"] = on_nodes_with(pod["spec"], expressions)
        if off := self._off_cliques(task):
            pod["spec"] = on_nodes_with(pod["spec"], off)
        if self.values.form.pins:
            pod["metadata"]["labels"][PINNED_SETS_ANNOTATION] = pins.digest_of(self.values.form.pins)
        if (barrier := self.values.placement.start_barrier) is not None and self._peers is not None:
            peers, domain = self._peers, service_domain(self.values)
            add_barrier(pod, barrier, domain=domain, peers=peers, ended=self.ended_text(ended))
        return pod

    def _off_cliques(self, task: TaskTry) -> list[Manifest]:
        """What keeps a task that requires a clique off nodes whose label means none.

        The scheduler would take all of them for one clique.
        """
        label = required_clique(task.placement.requirements, self.values.placement.terms.levels)
        return [{"key": label, "operator": "NotIn", "values": [*_NO_CLIQUE_LABELS]}] if label else []

    def ended_text(self, ended: Collection[str]) -> str:
        """The annotation by which start barriers learn which of the group's tasks have ended."""
        return ended_text(task for task in self.values.tasks if task.name in ended) if ended else ""

    def secrets(self) -> tuple[Manifest, ...]:
        """The Secrets with the files of all tasks and with the peers of start barriers."""
        return (*self._frame.files.secrets, *self._peers_secrets.secrets)

    def compute_domain(self) -> Manifest | None:
        if not self.claim_template:
            return None
        return {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomain",
            "metadata": self._metadata(names.compute_domain(self.values.uuid)),
            "spec": {
                "numNodes": self.values.placement.domain_nodes,
                "channel": {
                    "resourceClaimTemplate": {"name": self.claim_template},
                    "allocationMode": "Single",
                },
            },
        }

    def service(self) -> Manifest | None:
        """The headless service behind ``{{host:task}}``; a group of one task needs none."""
        if not self._frame.subdomain:
            return None
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self._metadata(self._frame.subdomain),
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {names.GROUP_LABEL: self.values.uuid.hex},
            },
        }

    def topologies(self) -> tuple[Manifest, ...]:
        """The Topology objects that constraints name, each once."""
        by_name = {t["metadata"]["name"]: t for gang in self._gangs.values() for t in gang.topologies}
        return tuple(by_name.values())

    def pod_groups(self) -> tuple[Manifest, ...]:
        return tuple(group for gang in self._gangs.values() for group in gang.pod_groups)

    def parents(self) -> tuple[Manifest, ...]:
        """What stands above the pod groups, in order of creation."""
        return tuple(parent for gang in self._gangs.values() for parent in gang.parents)

    def sets(self) -> Mapping[str, str]:
        return {name: words for gang in self._gangs.values() for name, words in gang.sets.items()}

    def _metadata(self, name: str) -> Manifest:
        return {"name": name, "namespace": self.values.placement.terms.namespace, "labels": self._labels}


def render_group(values: GroupValues, *, pods: Collection[str] | None = None) -> GroupObjects:
    """Render all objects of a group; of its pods only those of these tasks, if any are named."""
    renderer = Renderer(values)
    first = renderer.gangs[min(renderer.gangs)]
    return GroupObjects(
        secrets=renderer.secrets(),
        compute_domain=renderer.compute_domain(),
        claim_template=renderer.claim_template,
        topologies=renderer.topologies(),
        parents=renderer.parents(),
        pod_groups=renderer.pod_groups(),
        service=renderer.service(),
        pods={task.name: renderer.pod(task) for task in values.tasks if pods is None or task.name in pods},
        constraints=first.constraints,
        sets=renderer.sets(),
    )


def _marks(values: GroupValues) -> dict[str, str]:
    """The annotations of a pod group: of its form, and of the nodes that it leaves out."""
    marks = {key: mark for key, mark in FormMarks.of(values.form).annotations.items() if mark is not None}
    return {**marks, LEFT_OUT_ANNOTATION: left_out_mark(values.left_out)} if values.left_out else marks


def left_out_mark(nodes: tuple[str, ...]) -> str:
    """The annotation of a pod group that leaves out these nodes; empty for none."""
    return names.digest(list(nodes), length=16) if nodes else ""


def _variables(values: GroupValues) -> dict[str, str]:
    """The variables for a program about the attempts of its group; preemptions do not count to the most."""
    placement = values.placement
    policy = placement.recovery
    actions = (placement.default_exit_actions, *(task.placement.exit_actions for task in values.tasks))
    again = any(policy.response(loss) != Response.FAIL for loss in (Loss.NODE_LOST, Loss.FAILED))
    again = again or any(RESTART_GROUP in table for table in actions)
    return {
        "OSMO_ATTEMPT": str(values.attempt_number),
        "OSMO_MAX_ATTEMPTS": str(policy.most + 1 if again else 1),
        "OSMO_LAST_END": values.last_end,
    }


def _hosts(values: GroupValues, subdomain: str) -> dict[str, str]:
    if not subdomain:
        return {task.name: names.hostname(task.task_uuid) for task in values.tasks}
    tail = service_domain(values)
    return {task.name: f"{names.hostname(task.task_uuid)}.{tail}" for task in values.tasks}


def service_domain(values: GroupValues) -> str:
    """What stands behind the host names of a group's pods; the search domains of each pod complete it."""
    return f"{names.headless_service(values.uuid)}.{values.placement.terms.namespace}.svc"


def _generations(values: GroupValues) -> dict[int, tuple[TaskTry, ...]]:
    """For each generation of a latest try, the tasks whose pods ever joined it, in the user's order."""
    generations = {task.generation for task in values.tasks}
    joined = {(task.generation, task.name) for task in (*values.earlier, *values.tasks)}
    return {
        generation: tuple(task for task in values.tasks if (generation, task.name) in joined)
        for generation in sorted(generations)
    }
