"""The start barrier of a pod: its last init container waits for the addresses of the task's peers.

The names of all tasks are in a Secret of the group, since a list in each of a thousand pods would be a
thousand times as long. Which of them have ended is an annotation of the pod: a task that has ended leaves DNS
for good, also after a peer was created that has not looked yet, so the annotation is changed while the pod
waits and its volume with it.

It asks for no more than every task does and has the pod's quality of service: a container without amounts
beside one with amounts would make a Guaranteed pod Burstable.
"""

from collections.abc import Collection, Iterable

from scheduling import names
from scheduling.backends.base import Manifest
from workflows.values.observation import ENDED_ANNOTATION
from workflows.values.placement import StartBarrier, TaskTry

CONTAINER = names.START_BARRIER
FOLDER = "/run/osmo-start-barrier"
USER = 65532
AMOUNTS = {"cpu": "100m", "memory": "64Mi"}


def peers_text(tasks: Iterable[TaskTry]) -> str:
    """The list of a group's tasks, as the barrier's program reads it."""
    return "".join(f"{names.hostname(task.task_uuid)} {task.name}\n" for task in tasks)


def ended_text(tasks: Iterable[TaskTry]) -> str:
    """The annotation for these tasks, which have ended."""
    return " ".join(sorted(names.hostname(task.task_uuid) for task in tasks))


def add_barrier(
    pod: Manifest, barrier: StartBarrier, *, domain: str, peers: tuple[str, str], ended: str
) -> None:
    """Put the barrier behind all other init containers of a pod.

    ``domain`` stands behind host names, ``peers`` is the Secret with their list and the key in it.
    """
    spec = pod["spec"]
    if ended:
        metadata = pod["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), ENDED_ANNOTATION: ended}
    container = {
        "name": CONTAINER,
        "image": barrier.image,
        "command": [*barrier.command, *_arguments(barrier, host=spec["hostname"], domain=domain)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": _security(spec.get("securityContext", {})),
        "volumeMounts": [{"name": CONTAINER, "mountPath": FOLDER, "readOnly": True}],
    }
    container |= barrier_resources(spec["containers"])
    spec["initContainers"] = [*spec.get("initContainers", []), container]
    spec["volumes"] = [*spec.get("volumes", []), _volume(peers)]


def _arguments(barrier: StartBarrier, *, host: str, domain: str) -> list[str]:
    files = ["--peers", f"{FOLDER}/peers", "--ended", f"{FOLDER}/ended"]
    return [*files, "--host", host, "--domain", domain, "--limit", f"{barrier.limit:g}"]


def _security(of_pod: Manifest) -> Manifest:
    """No privileges. The user is the image's or the cluster's, unless a template gives the pod one."""
    user = {"runAsUser": USER, "runAsGroup": USER} if "runAsUser" in of_pod else {}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        **user,
    }


def barrier_resources(containers: Collection[Manifest]) -> Manifest:
    """The barrier's amounts of what the task's containers ask for, too; empty for none."""
    resources = [container.get("resources", {}) for container in containers]
    requested = {key for own in resources for kind in ("requests", "limits") for key in own.get(kind, {})}
    amounts = {resource: amount for resource, amount in AMOUNTS.items() if resource in requested}
    return {"resources": {"requests": amounts, "limits": amounts}} if amounts else {}


def _volume(peers: tuple[str, str]) -> Manifest:
    secret, key = peers
    field = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{ENDED_ANNOTATION}']"}
    return {
        "name": CONTAINER,
        "projected": {
            "defaultMode": 0o444,
            "sources": [
                {"secret": {"name": secret, "items": [{"key": key, "path": "peers"}]}},
                {"downwardAPI": {"items": [{"path": "ended", "fieldRef": field}]}},
            ],
        },
    }
