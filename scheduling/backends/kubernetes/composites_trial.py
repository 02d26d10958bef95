"""A trial of whether the scheduler holds composites: a set that fits beside one that never can.

A scheduler without its gate ``CompositePodGroup`` ignores composites in silence and binds the set that fits.
One that holds them binds nothing, and says on both pod groups how many of the composite's groups it could
place: one of two. Without such a text nothing is concluded. No pod can start, whatever becomes of it: its
image exists nowhere. Seen on kube-scheduler 1.37.2 with the gate and without.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from scheduling import names
from scheduling.backends.base import GangRequest, Manifest, RenderedGang
from scheduling.backends.kubernetes.gang import WITH_COMPOSITES, Kubernetes
from scheduling.backends.kubernetes.reasons import UNPLACED
from scheduling.terms import SchedulingTerms
from scheduling.topology.levels import HOSTNAME_LABEL, Level
from scheduling.topology.requirements import Gang, GangTask, Requirement

FITS, NEVER = "fits", "never"
IMAGE = "trial.invalid/never-starts:0"
NOWHERE = "osmo.nvidia.com/trial-of-composites"
"""The label that the set which never fits asks of its node; no node carries it."""


@dataclass(frozen=True, slots=True)
class CompositesTrial:
    """The objects of one trial, in order of creation."""

    parents: tuple[Manifest, ...]
    pod_groups: tuple[Manifest, ...]
    pods: tuple[Manifest, ...]


def trial(
    group: UUID, *, installation: UUID, namespace: str, scheduler_name: str, priority_class: str
) -> CompositesTrial:
    """The trial that names its objects after ``group``."""
    tasks = tuple(GangTask(name, requirements=(Requirement("host", name),)) for name in (FITS, NEVER))
    rendered = Kubernetes().render(
        GangRequest(
            group=group,
            gang=Gang("trial", tasks),
            terms=SchedulingTerms(
                installation=installation,
                pool="trial",
                pool_revision=0,
                backend="trial",
                namespace=namespace,
                scheduler_type=Kubernetes.name,
                scheduler_name=scheduler_name,
                scheduler_version=str(WITH_COMPOSITES),
                levels=(Level("host", HOSTNAME_LABEL),),
            ),
            priority_class=priority_class,
        )
    )
    pods = tuple(_pod(rendered, group, installation, namespace, task.name) for task in tasks)
    return CompositesTrial(rendered.parents, rendered.pod_groups, pods)


def _pod(rendered: RenderedGang, group: UUID, installation: UUID, namespace: str, task: str) -> Manifest:
    parts = rendered.pods[task]
    amounts = {"cpu": "1m"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{group.hex}-{task}",
            "namespace": namespace,
            "labels": {names.INSTALLATION_LABEL: installation.hex, names.GROUP_LABEL: group.hex},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "schedulerName": parts.scheduler_name,
            "containers": [
                {"name": "trial", "image": IMAGE, "resources": {"requests": amounts, "limits": amounts}}
            ],
            **({"nodeSelector": {NOWHERE: "nowhere"}} if task == NEVER else {}),
            **parts.spec,
        },
    }


def is_held(pods: Sequence[Mapping[str, Any]], pod_groups: Sequence[Mapping[str, Any]]) -> bool | None:
    """Whether the scheduler holds composites, by the objects of a trial; None while nothing shows it."""
    if any((pod.get("spec") or {}).get("nodeName") for pod in pods):
        return False
    texts = [
        str(condition.get("message", ""))
        for group in pod_groups
        for condition in (group.get("status") or {}).get("conditions") or ()
        if condition.get("type") == UNPLACED and condition.get("status") == "False"
    ]
    return (
        True
        if any(re.search(r"minCount \(2\) cannot be satisfied: 1 scheduled", text) for text in texts)
        else None
    )
