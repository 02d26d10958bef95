"""``python -m localcluster.kubelet KUBECONFIG NODE DIRECTORY``; see the package.

``DIRECTORY/images`` has a link for each image, named as ``image_link`` names it; ``DIRECTORY/pods`` gets a
directory for each pod with its logs.
"""

import asyncio
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from localcluster.api import STRATEGIC_PATCH, Access, Api, ApiError
from localcluster.kubelet.cluster import Cluster
from localcluster.kubelet.image import Image, image_link
from localcluster.kubelet.pod import Pod
from localcluster.nodes import KUBELET_LABEL, Node, manifest

POLL_SECONDS = 0.2
HEARTBEAT_SECONDS = 30
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


async def play(cluster: Cluster, directory: Path) -> None:
    """Run what is bound to the node until this task is cancelled; then every process is ended."""
    await _register(cluster)
    next_heartbeat = 0.0
    addresses = _addresses()
    lives: dict[str, tuple[Pod, asyncio.Task[None]]] = {}

    def image(name: str) -> Image | None:
        link = image_link(directory, name)
        return Image.read(link) if link.exists() else None

    try:
        while True:
            if time.monotonic() >= next_heartbeat:
                await _post_ready(cluster)
                next_heartbeat = time.monotonic() + HEARTBEAT_SECONDS
            bodies = {body["metadata"]["uid"]: body for body in await cluster.pods()}
            for uid, body in bodies.items():
                if uid not in lives:
                    own = directory / "pods" / f"{body['metadata']['name']}-{uid[:8]}"
                    pod = Pod(body, cluster, directory=own, address=next(addresses), image=image)
                    lives[uid] = pod, asyncio.create_task(pod.live())
            for uid, (pod, _) in lives.items():
                pod.see(bodies.get(uid))
            await asyncio.sleep(POLL_SECONDS)
    finally:
        for _, life in lives.values():
            life.cancel()
        await asyncio.gather(*(life for _, life in lives.values()), return_exceptions=True)


async def _register(cluster: Cluster) -> None:
    body = manifest(Node(name=cluster.node, labels={KUBELET_LABEL: cluster.node}, gpus=0))
    try:
        await cluster.call("POST", "/api/v1/nodes", body=body)
    except ApiError as error:
        if error.code != 409:
            raise


async def _post_ready(cluster: Cluster) -> None:
    """Post the heartbeat, without which Kubernetes' node controller taints the node in time."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"status": {"conditions": [READY | {"lastHeartbeatTime": now}]}}
    path = f"/api/v1/nodes/{cluster.node}/status"
    await cluster.call("PATCH", path, body=body, content_type=STRATEGIC_PATCH)


def _addresses() -> Iterator[str]:
    """Addresses in a network that another kubelet of this machine hardly has."""
    network = f"10.{16 + secrets.randbelow(230)}.{secrets.randbelow(200)}"
    return (f"{network}.{last}" for last in range(2, 255))


async def _main(kubeconfig: Path, node: str, directory: Path) -> None:
    me = asyncio.current_task()
    assert me is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    await play(Cluster(Api(Access.from_kubeconfig(kubeconfig)), node), directory)


if __name__ == "__main__":
    try:
        asyncio.run(_main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
    except asyncio.CancelledError:
        sys.exit(0)
