"""A task's pod: one container that runs the user's command, and the fields that its scheduler needs.

No ownerReferences, ever: KAI's podgrouper would move the pod to another pod group, and a pod group that owns
its pods is never deleted (Kubernetes 1.36). No service account token: tasks do not call the API server.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pools.pod_templates.variables import TaskValues
from scheduling import names
from scheduling.backends.base import Manifest, PodParts
from scheduling.kubernetes_syntax import GPU
from scheduling.terms import SchedulingTerms
from workflows.manifests import labels
from workflows.manifests.file_secrets import FileSecrets
from workflows.manifests.pod_template import apply_template
from workflows.manifests.tokens import TASK_INDEX, Tokens
from workflows.values.counted import place_variables
from workflows.values.placement import FrozenTemplate, TaskPlacement, TaskTry

HOSTNAME = "kubernetes.io/hostname"
GRACE_PERIOD = "terminationGracePeriodSeconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFrame:
    """The values that all pods of a group share."""

    terms: SchedulingTerms
    submitted_by: str

    labels: Mapping[str, str]
    """The service's own, which replace the user's."""

    subdomain: str
    """Empty: a group of one task has none."""

    claim_template: str
    """The ComputeDomain's; empty: the group has none."""

    tokens: Tokens
    files: FileSecrets
    user_labels: Mapping[str, str] = field(default_factory=dict)

    templates: Mapping[str, FrozenTemplate] = field(default_factory=dict)
    """By platform."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """The service's own in every container; the user's of the same name replace them."""

    ranks: Mapping[str, int] = field(default_factory=dict)
    """The place of each task among all of the group, by name, in the order of the document."""

    lead_host: str = ""

    environments: dict[tuple[Any, ...], tuple[Manifest, ...]] = field(default_factory=dict)
    """The user's of the pods rendered so far, by how they were written: tasks of a gang mostly have the same.
    """


def render_pod(task: TaskTry, parts: PodParts, *, frame: PodFrame) -> Manifest:
    """Render the pod of one try: the user's fields, the template over them, the service's over all."""
    service_labels = {**frame.labels, **labels.of_task(task), **parts.labels}
    metadata: Manifest = {
        "name": names.pod(task.task_uuid, retry=task.retry_id),
        "namespace": frame.terms.namespace,
        "labels": {**frame.user_labels, **service_labels},
    }
    if parts.annotations:
        metadata["annotations"] = dict(parts.annotations)
    pod: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**_spec(task, frame), "schedulerName": parts.scheduler_name, **parts.spec},
    }
    template = frame.templates.get(task.placement.platform)
    if template is None:
        return pod
    graced = {GRACE_PERIOD} if task.placement.grace_period else set()
    return apply_template(
        pod,
        template,
        task=task_values(
            names.container(task.name), task.placement, submitted_by=frame.submitted_by, labels=service_labels
        ),
        labels=service_labels,
        fixed={"schedulerName", *parts.spec, *graced},
    )


def task_values(
    container: str, placement: TaskPlacement, *, submitted_by: str, labels: Mapping[str, str]
) -> TaskValues:
    """The values of a template's variables; ``labels`` are the service's own."""
    return TaskValues(
        container=container,
        submitted_by=submitted_by,
        cpu=str(placement.cpu) if placement.cpu else "",
        gpu=str(placement.gpu) if placement.gpu else "",
        memory=placement.memory,
        storage=placement.storage,
        excluded=placement.nodes_excluded,
        labels=labels,
    )


def _spec(task: TaskTry, frame: PodFrame) -> Manifest:
    placement = task.placement
    volumes = _Volumes()
    container = _container(task, frame, volumes)
    spec: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostname": names.hostname(task.task_uuid),
        "containers": [container],
    }
    if frame.subdomain:
        spec["subdomain"] = frame.subdomain
    if placement.claims_channel and frame.claim_template:
        spec["resourceClaims"] = [
            {"name": names.CHANNEL_CLAIM, "resourceClaimTemplateName": frame.claim_template}
        ]
    if placement.grace_period:
        spec[GRACE_PERIOD] = placement.grace_period
    if placement.host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if volumes.entries:
        spec["volumes"] = volumes.entries
    return {**spec, **_selection(placement)}


def _selection(placement: TaskPlacement) -> Manifest:
    """The fields that select the pod's nodes."""
    spec: Manifest = {}
    if placement.node_selector:
        spec["nodeSelector"] = dict(placement.node_selector)
    if placement.tolerations:
        spec["tolerations"] = list(placement.tolerations)
    if placement.nodes_excluded:
        others = {"key": HOSTNAME, "operator": "NotIn", "values": list(placement.nodes_excluded)}
        required = {"nodeSelectorTerms": [{"matchExpressions": [others]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return spec


def _container(task: TaskTry, frame: PodFrame, volumes: "_Volumes") -> Manifest:
    placement, fill = task.placement, partial(frame.tokens.fill, index=task.index)
    container: Manifest = {
        "name": names.container(task.name),
        "image": placement.image,
        "command": [fill(argument) for argument in placement.command],
    }
    if placement.args:
        container["args"] = [fill(argument) for argument in placement.args]
    if env := [*_own_variables(task, frame), *_environment(task, frame)]:
        container["env"] = env
    if resources := _resources(placement, frame):
        container["resources"] = resources
    if placement.privileged:
        container["securityContext"] = {"privileged": True}
    if mounts := list(_mounts(placement, frame, volumes)):
        container["volumeMounts"] = mounts
    return container


def _own_variables(task: TaskTry, frame: PodFrame) -> Iterator[Manifest]:
    """The service's own: about the attempts of the group, then about the task's place in it."""
    placement = task.placement
    used = {name for use in placement.credentials.values() if not isinstance(use, str) for name in use}
    place = place_variables(
        task.name,
        placement.counted,
        rank=frame.ranks.get(task.name, 0),
        size=len(frame.ranks),
        lead_host=frame.lead_host,
    )
    for name, value in (*frame.variables.items(), *place.items()):
        if name not in placement.environment and name not in used:
            yield {"name": name, "value": value}


def _environment(task: TaskTry, frame: PodFrame) -> tuple[Manifest, ...]:
    placement = task.placement
    keys = ((name, *use.items()) for name, use in placement.credentials.items() if not isinstance(use, str))
    has_index = any(TASK_INDEX in text for text in placement.environment.values())
    key = (*placement.environment.items(), task.index if has_index else None, *keys)
    variables = frame.environments.get(key)  # one look, since the hash of such a key takes long
    if variables is None:
        variables = frame.environments[key] = tuple(_variables(task, frame))
    return variables


def _variables(task: TaskTry, frame: PodFrame) -> Iterator[Manifest]:
    placement = task.placement
    for name, value in placement.environment.items():
        yield {"name": name, "value": frame.tokens.fill(value, index=task.index)}
    for secret, use in placement.credentials.items():
        if not isinstance(use, str):
            for name, key in use.items():
                yield {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def amounts_of(placement: TaskPlacement) -> dict[str, str]:
    """The amounts that the user asks for, by resource."""
    amounts = {
        "cpu": str(placement.cpu) if placement.cpu else "",
        "memory": placement.memory,
        "ephemeral-storage": placement.storage,
        GPU: str(placement.gpu) if placement.gpu else "",
    }
    return {resource: amount for resource, amount in amounts.items() if amount}


def _resources(placement: TaskPlacement, frame: PodFrame) -> Manifest:
    amounts = amounts_of(placement)
    resources: Manifest = {"requests": amounts, "limits": amounts} if amounts else {}
    if placement.claims_channel and frame.claim_template:
        resources["claims"] = [{"name": names.CHANNEL_CLAIM}]
    return resources


class _Volumes:
    """A pod's volumes, each source once."""

    def __init__(self) -> None:
        self.entries: list[Manifest] = []
        self._names: dict[str, str] = {}

    def name_of(self, source: Mapping[str, Any]) -> str:
        key = repr(source)
        if key not in self._names:
            self._names[key] = f"v{len(self.entries)}"
            self.entries.append({"name": self._names[key], **source})
        return self._names[key]


def _mounts(placement: TaskPlacement, frame: PodFrame, volumes: _Volumes) -> Iterator[Manifest]:
    for file in placement.files:
        secret, key = frame.files.put(file)
        volume = volumes.name_of({"secret": {"secretName": secret, "defaultMode": 0o755}})
        path = frame.tokens.fill(file.path)
        yield {"name": volume, "mountPath": path, "subPath": key, "readOnly": True}
    for secret, use in placement.credentials.items():
        if isinstance(use, str):
            volume = volumes.name_of({"secret": {"secretName": secret}})
            yield {"name": volume, "mountPath": use, "readOnly": True}
    for mount in placement.volume_mounts:
        source, _, target = mount.partition(":")
        root, _, below = source.partition("/./")
        volume = volumes.name_of({"hostPath": {"path": root or "/"}})
        yield {"name": volume, "mountPath": target or source} | ({"subPath": below} if below else {})
