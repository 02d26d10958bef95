"""Faults by whoever may write a status, an event or a namespace of their own: poison, and pods named alike.

*Poison* are texts that a database, a decoder or a reader may choke on: NULs, halves of surrogate pairs,
texts of 100 kB, nesting of thousands of levels. They stand in the status, the annotations and the
events of the service's own objects and in those of strangers. *Strangers* have the name and the labels of a
pod of the service and stand in another namespace: a neighbour's, which nobody follows, and one of another
backend, which the observer follows. They fail with an exit code and a text that nothing else has, so whatever
has either of them counted a stranger.

Strangers and poisoned objects stay until the check: the service must come to rest beside them.
"""

from collections.abc import Callable
from functools import partial

from chaos.cluster_faults import STRANGER, path_of, running
from chaos.processes import kill
from chaos.storm import Storm
from localcluster import scenario
from localcluster.api import ApiError, Json
from localcluster.controlplane import create_namespace

NEIGHBOUR = "chaos-neighbour"
EXIT_CODE = 77
MARK = "a stranger wrote this"
CONFLICT = 409
OBSERVERS = ("observer", "observer-2")
KILLS = 8
KILL_SECONDS = 1.0

LONG = 100_000  # beyond what the service keeps of a text; every list of the observers has it again
DEEP = 20_000
MOST_ANNOTATION = 200_000
POISONS = (
    "a\0b\0",
    "\ud800 half a pair \udfff",
    "x" * LONG,
    "\0" * 1000,
    "\x1b[31m\u202e\ufeff\r\n" * 100,
    "[" * DEEP,
    '{"a":' * DEEP,
)


def poison_pods(storm: Storm) -> int:
    """Write poison into the status and the annotations of running pods, as a kubelet or a user may."""
    pods = running(storm)
    chosen = storm.generator.sample(pods, min(3, len(pods)))
    for pod in chosen:
        path = path_of(pod, "/api/v1", "pods")
        _patch_status(storm, path, partial(_poisoned_status, poison=storm.generator.choice(POISONS)))
        note = storm.generator.choice(POISONS)[:MOST_ANNOTATION]
        storm.site.api.patch(path, {"metadata": {"annotations": {"example.com/poison": note}}})
    return len(chosen)


def _poisoned_status(pod: Json, *, poison: str) -> Json:
    """The status with poison in every text that is free; the pod's own course stays as it is."""
    status = pod["status"]
    ended = {"exitCode": 1, "reason": "Error", "message": poison}
    return {
        "message": poison,
        "reason": poison[:1000],
        "conditions": [{**condition, "message": poison[:1000]} for condition in status.get("conditions", [])],
        "containerStatuses": [
            {**container, "restartCount": 1, "lastState": {"terminated": ended}}
            for container in status.get("containerStatuses", [])
        ],
    }


def end_with_poison(storm: Storm) -> int:
    """Let a container fail with a termination message that is poison."""
    pods = running(storm)
    for pod in storm.generator.sample(pods, min(1, len(pods))):
        poison = storm.generator.choice(POISONS)
        _patch_status(storm, path_of(pod, "/api/v1", "pods"), partial(_failed_status, code=1, text=poison))
    return min(1, len(pods))


def _failed_status(pod: Json, *, code: int, text: str) -> Json:
    terminated = {"exitCode": code, "reason": "Error", "message": text}
    return {
        "phase": "Failed",
        "message": text,
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": terminated},
            }
            for container in pod["spec"]["containers"]
        ],
    }


def poison_events(storm: Storm) -> int:
    """Write events about pods, and about strangers of their name, whose texts are poison."""
    pods = running(storm)
    chosen = storm.generator.sample(pods, min(2, len(pods)))
    for pod in chosen:
        _event(storm, pod, namespace=pod["metadata"]["namespace"], text=storm.generator.choice(POISONS))
        _event(storm, pod, namespace=NEIGHBOUR, text=f"{MARK}\0")
        _event(storm, pod, namespace=_elsewhere(storm, pod), text=f"{MARK}\0")
    return len(chosen)


def _event(storm: Storm, pod: Json, *, namespace: str, text: str) -> None:
    metadata = pod["metadata"]
    _make_neighbour(storm)
    involved = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": namespace,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    body = {
        "metadata": {"generateName": "poison-", "namespace": namespace},
        "involvedObject": involved,
        "type": "Warning",
        "reason": text[:100],
        "message": text,
        "source": {"component": text[:100]},
        "count": 1,
    }
    storm.site.api.create(f"/api/v1/namespaces/{namespace}/events", body)


def strangers(storm: Storm) -> int:
    """Make pods with the names and labels of running ones elsewhere, and let them fail or go."""
    _make_neighbour(storm)
    pods = running(storm)
    chosen = storm.generator.sample(pods, min(3, len(pods)))
    for pod in chosen:
        for namespace in (NEIGHBOUR, _elsewhere(storm, pod)):
            _stranger(storm, pod, namespace=namespace)
    return len(chosen)


def _stranger(storm: Storm, pod: Json, *, namespace: str) -> None:
    metadata = pod["metadata"]
    body = {
        "metadata": {
            "name": metadata["name"],
            "labels": {**metadata["labels"], STRANGER: "true"},
            "annotations": {"example.com/poison": storm.generator.choice(POISONS)[:MOST_ANNOTATION]},
        },
        "spec": {
            "schedulerName": "nobody",
            "restartPolicy": "Never",
            "containers": [{"name": "task", "image": "busybox"}],
        },
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    try:
        storm.site.api.create(path, body)
    except ApiError as error:
        if error.code != CONFLICT:  # it has a stranger already
            raise
    _patch_status(
        storm,
        f"{path}/{metadata['name']}",
        partial(_failed_status, code=EXIT_CODE, text=f"{MARK}\0{storm.generator.choice(POISONS)}"),
    )
    if storm.generator.random() < 0.3:
        storm.later(storm.pause(1, 5), lambda: storm.site.api.delete(f"{path}/{metadata['name']}") and None)


def _elsewhere(storm: Storm, pod: Json) -> str:
    """Another namespace that the observer follows."""
    namespaces = {scenario.namespace(name) for name in scenario.BACKENDS} - {pod["metadata"]["namespace"]}
    return storm.generator.choice(sorted(namespaces))


def _make_neighbour(storm: Storm) -> None:
    if storm.site.api.find(f"/api/v1/namespaces/{NEIGHBOUR}") is None:
        create_namespace(storm.site.api, NEIGHBOUR)


def _patch_status(storm: Storm, path: str, status: Callable[[Json], Json]) -> None:
    """Write a status; a pod that is gone meanwhile is let be."""
    pod = storm.site.api.find(path)
    if pod is not None:
        storm.site.api.patch(f"{path}/status", {"status": status(pod)})


def kill_observers(storm: Storm) -> int:
    """Kill an observer every second for a while, by turns; each is started again at once."""
    for number in range(KILLS):
        name = OBSERVERS[number % len(OBSERVERS)]
        storm.later(number * KILL_SECONDS, partial(_kill_once, storm, name))
    return 1


def _kill_once(storm: Storm, name: str) -> None:
    storm.counts["observer killed"] += kill(name)(storm)


FAULTS: dict[str, tuple[int, Callable[[Storm], int]]] = {
    "poison pods": (4, poison_pods),
    "pods that end with poison": (2, end_with_poison),
    "poison events": (3, poison_events),
    "pods named alike elsewhere": (4, strangers),
    "kill the second observer": (3, kill("observer-2")),
    "kill an observer every second": (1, kill_observers),
}
