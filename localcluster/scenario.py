"""The demo cluster: disjoint pools, each a small picture of a place where a use case is decided.

::

    nvlink   zone n1: clique n-a [4] n-b [4]                         sets of 4 on a clique
    zones    zone z1: clique z-a [4] z-b [4]   zone z2: z-c [4]      only z1 holds 8
    spines   spine s1: rack s-a [4] s-b [4]    spine s2: s-c [4]     s1 gives both racks under one spine
    split    spine p1: rack p-a [4]            spine p2: p-b [4]     no spine holds 8
    native   zone k1: clique k-a [4] k-b [4]                         Kubernetes' own scheduler
    queued   zone q1: clique q-a [4] q-b [4]                         somebody else's queue of Kueue

[4]: four nodes of 4 GPUs, as in an NVL72 rack. Labels are those that NVIDIA's GPU feature discovery
and Kubernetes set; spines and racks carry this installation's own. Backends and pools are configured
over REST, as an administrator does it. ``make up`` has one pool more, ``gb200``, at real size and with names
as real ones are: two NVL72 racks of 18 nodes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from localcluster import controlplane, installations, kueue, kueue_queues, nodes, stack
from localcluster.api import Api
from localcluster.controlplane import create_namespace
from localcluster.rest import Rest
from localcluster.supervisor import ServerFailed, Supervisor

POOL_LABEL = "osmo.local/pool"
ZONE = "topology.kubernetes.io/zone"
CLIQUE = "nvidia.com/gpu.clique"
SPINE = "osmo.local/spine"
RACK = "osmo.local/rack"
BLOCK = "osmo.local/block"

NODES_PER_RACK = 4
GPUS = 4
FIRST_RACK, RACKS_PER_BLOCK = 6, 8
FIRST_POOL = "nvlink"
KNOWN_SECONDS, POLL_SECONDS = 120, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One pool: its topology keys, broadest first, and the racks with their labels."""

    backend: str
    nvlink: bool
    keys: Mapping[str, str]  # the user's word -> node label
    racks: Mapping[str, Mapping[str, str]]  # rack -> its nodes' labels
    more: Mapping[str, Any]  # further fields of the pool
    hosts: Sequence[str] = tuple(f"{{rack}}-{number}" for number in range(NODES_PER_RACK))
    """The names of a rack's nodes."""

    def names(self, rack: str) -> list[str]:
        """The names of the nodes of a rack."""
        return [host.format(rack=rack) for host in self.hosts]

    def machines(self, labels: Mapping[str, str]) -> list[nodes.Node]:
        """The nodes of all racks with ``labels`` beside those of their place."""
        return [
            nodes.Node(name=name, labels={**labels, **place}, gpus=GPUS)
            for rack, place in self.racks.items()
            for name in self.names(rack)
        ]


_NVLINK_KEYS = {"zone": ZONE, "clique": CLIQUE}
_SPINE_KEYS = {"spine": SPINE, "rack": RACK}

QUEUED = "queued"
"""The backend, the pool, and the queue of Kueue that the pool names."""
BACKENDS = {"kai": "kai", "native": "kubernetes", "plain": "default", QUEUED: "kueue"}
"""The scheduler's type, by name."""
FOLLOWED = ("kai", "kueue")
"""The schedulers for which gangs of others are followed."""
PLACES = {
    "nvlink": Place(
        backend="kai",
        nvlink=True,
        keys=_NVLINK_KEYS,
        racks={"n-a": {ZONE: "n1", CLIQUE: "n-a.1"}, "n-b": {ZONE: "n1", CLIQUE: "n-b.1"}},
        more={},
    ),
    "zones": Place(
        backend="kai",
        nvlink=True,
        keys=_NVLINK_KEYS,
        racks={
            "z-a": {ZONE: "z1", CLIQUE: "z-a.1"},
            "z-b": {ZONE: "z1", CLIQUE: "z-b.1"},
            "z-c": {ZONE: "z2", CLIQUE: "z-c.1"},
        },
        more={},
    ),
    "spines": Place(
        backend="kai",
        nvlink=False,
        keys=_SPINE_KEYS,
        racks={
            "s-a": {SPINE: "s1", RACK: "s-a"},
            "s-b": {SPINE: "s1", RACK: "s-b"},
            "s-c": {SPINE: "s2", RACK: "s-c"},
        },
        more={},
    ),
    "split": Place(
        backend="kai",
        nvlink=False,
        keys=_SPINE_KEYS,
        racks={"p-a": {SPINE: "p1", RACK: "p-a"}, "p-b": {SPINE: "p2", RACK: "p-b"}},
        more={},
    ),
    "native": Place(
        backend="native",
        nvlink=True,
        keys=_NVLINK_KEYS,
        racks={"k-a": {ZONE: "k1", CLIQUE: "k-a.1"}, "k-b": {ZONE: "k1", CLIQUE: "k-b.1"}},
        more={},
    ),
    QUEUED: Place(
        backend=QUEUED,
        nvlink=True,
        keys=_NVLINK_KEYS,
        racks={"q-a": {ZONE: "q1", CLIQUE: "q-a.1"}, "q-b": {ZONE: "q1", CLIQUE: "q-b.1"}},
        more={"local_queue": QUEUED},
    ),
}
"""The pools of the demo, by name."""


def nvl72(racks: int) -> Place:
    """So many NVL72 racks, with names and labels as they are where clusters are real: long and alike."""
    hall = "us-east-02a"
    return Place(
        backend="kai",
        nvlink=True,
        keys={"zone": ZONE, "block": BLOCK, "rack": RACK, "clique": CLIQUE},
        racks={
            f"rack{number:02}": {
                ZONE: hall,
                BLOCK: f"{hall}-block-{number // RACKS_PER_BLOCK}",
                RACK: f"{hall}-rack{number:02}",
                CLIQUE: f"{uuid5(NAMESPACE_DNS, f'rack{number:02}.{hall}')}.32766",
            }
            for number in range(FIRST_RACK, FIRST_RACK + racks)
        },
        more={},
        hosts=[f"gb200-{{rack}}-node-{number:02}.cluster.example" for number in range(1, 19)],
    )


ALL_PLACES = {**PLACES, "gb200": nvl72(2)}
"""The pools of ``make up``, by name."""


def prepare(
    plane: controlplane.Plane,
    *,
    places: Mapping[str, Place] = PLACES,
    supervisor: Supervisor,
    progress: Callable[[str], None],
) -> None:
    """Create what is missing in the cluster: Kueue and its queue, nodes, and namespaces."""
    progress("creating the nodes of the demo cluster")
    api = Api(plane.access())
    kueue.start(supervisor, plane)
    installations.apply(api, plane)
    existing = {node["metadata"]["name"] for node in api.list(nodes.PATH)[0]}
    all_of_them = all_nodes(places)
    nodes.create(api, [node for node in all_of_them if node.name not in existing])
    for name in BACKENDS:
        if api.find(f"/api/v1/namespaces/{namespace(name)}") is None:
            create_namespace(api, namespace(name))
    kueue_queues.apply(api, _queue())
    nodes.wait_ready(api, all_of_them)
    api.close()


def configure(
    running: stack.Running, *, places: Mapping[str, Place] = PLACES, progress: Callable[[str], None]
) -> None:
    """Create over REST the backends and pools that are missing; the others are their administrator's."""
    progress("creating the backends and the pools")
    client = Rest(api_url=running.api_url, token=running.token)
    backends = {backend["name"] for backend in client.get("/api/configs/backend")["backends"]}
    for name in (name for name in BACKENDS if name not in backends):
        client.put(f"/api/configs/backend/{name}", {"configs": _backend(running, name, BACKENDS[name])})
    pools = client.get("/api/configs/pool")["pools"]
    missing = {name: place for name, place in places.items() if name not in pools}
    for name, place in missing.items():
        client.put(f"/api/configs/pool/{name}", {"configs": pool(name, place)})
    _wait_known(client, missing)
    if "native" in {place.backend for place in missing.values()}:
        _wait_tried(client)


def _queue() -> kueue_queues.Queue:
    return kueue_queues.Queue(
        name=QUEUED,
        local=QUEUED,
        namespace=namespace(QUEUED),
        node_labels={POOL_LABEL: QUEUED},
        levels=list(PLACES[QUEUED].keys.values()),
        more={"cpu": "1000", "memory": "10Ti", "ephemeral-storage": "10Ti"},
        preemption="LowerPriority",
    )


def _wait_known(client: Rest, places: Mapping[str, Place]) -> None:
    """Return once the service knows every node, so that the first answer to a user counts them."""
    deadline = time.monotonic() + KNOWN_SECONDS
    for name, place in places.items():
        while client.get(f"/api/pool/{name}/topology")["nodes"] < len(place.machines({})):
            if time.monotonic() > deadline:
                raise ServerFailed(f"the service does not know the nodes of pool {name}")
            time.sleep(POLL_SECONDS)


def _wait_tried(client: Rest) -> None:
    """Return once a trial has shown that Kubernetes' scheduler holds sets inside sets."""
    deadline = time.monotonic() + KNOWN_SECONDS
    while True:
        conditions = client.get("/api/configs/backend/native")["conditions"]
        if any(entry["type"] == "CompositesHeld" and entry["status"] == "True" for entry in conditions):
            return
        if time.monotonic() > deadline:
            raise ServerFailed(f"the trial of composite pod groups has not ended: {conditions}")
        time.sleep(POLL_SECONDS)


def all_nodes(places: Mapping[str, Place] = PLACES) -> list[nodes.Node]:
    return [node for name, place in places.items() for node in place.machines({POOL_LABEL: name})]


def namespace(backend: str) -> str:
    return f"osmo-{backend}"


def pool(name: str, place: Place) -> dict[str, Any]:
    """A pool's configuration as PUT takes it."""
    return {
        "backend": place.backend,
        "nvlink": place.nvlink,
        "node_selector": {POOL_LABEL: name},
        "topology_keys": [{"key": key, "label": label} for key, label in place.keys.items()],
        "platforms": {"gpu": {}},
        "default_platform": "gpu",
        **place.more,
    }


def curl(*, api_url: str, token: str, pool: str, file: str) -> str:
    """A line that submits a workflow file."""
    workflow = f"python3 -c 'import json,sys; print(json.dumps({{\"file\": sys.stdin.read()}}))' < {file}"
    return (
        f"{workflow} | curl -sS -X POST {api_url}/api/pool/{pool}/workflow "
        f"-H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' -d @-"
    )


QUEUE_SETTINGS = {"parent_quota": "unlimited"}
"""Nobody else uses this KAI, and its nodes come and go faster than a guarantee follows them."""


def _backend(running: stack.Running, name: str, scheduler: str) -> dict[str, Any]:
    return {
        "description": f"the local cluster, scheduled by {scheduler}",
        "kubeconfig": str(running.kubeconfig),
        "k8s_namespace": namespace(name),
        "scheduler_settings": {"scheduler_type": scheduler},
        "queue_settings": QUEUE_SETTINGS,
        "follow_others": scheduler in FOLLOWED,
    }
