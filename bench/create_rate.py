"""Rate of ``create_many`` beside a bare asyncio client, with the same pods on the same API server.

The bare client is the measure because it does nothing else: 8 connections, bodies encoded beforehand, the
reply read and thrown away. Both sides are timed in the client, from the first request sent to the last
reply, in rounds that take turns, so that a machine that slows down slows both. Only the ratio of the
medians is worth anything on another machine.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import aiohttp

from cluster.connection import Access, connection_for
from cluster.gateway import ClusterGateway
from cluster.interface import Doomed, Wrote
from cluster.kinds import NAMESPACE, POD, Kind

CONNECTIONS = 8
PATIENCE_SECONDS = 120.0
SERVICE_ACCOUNT = Kind("ServiceAccount", "", "v1", "serviceaccounts")


@dataclass(frozen=True, slots=True)
class Rates:
    """Pods a second, medians over the rounds, and their ratio."""

    pods: int
    rounds: int
    gateway: float
    bare: float
    ratio: float


def measure(access: Access, bodies: Sequence[dict[str, Any]], *, namespace: str, rounds: int = 3) -> Rates:
    """Create ``bodies`` in ``namespace`` by turns through both clients, deleting them after each turn.

    The bodies' names and namespaces are replaced. Raises RuntimeError if a single create fails.
    """
    gateway = ClusterGateway(access)
    ours: list[float] = []
    bare: list[float] = []
    for turn in range(rounds):
        pods = _renamed(bodies, namespace, f"gateway-{turn}")
        ours.append(_through_gateway(gateway, pods))
        _clear(gateway, pods)
        pods = _renamed(bodies, namespace, f"bare-{turn}")
        bare.append(_through_bare_client(access, pods, namespace))
        _clear(gateway, pods)
    ours_rate = len(bodies) / statistics.median(ours)
    bare_rate = len(bodies) / statistics.median(bare)
    return Rates(
        pods=len(bodies),
        rounds=rounds,
        gateway=round(ours_rate, 1),
        bare=round(bare_rate, 1),
        ratio=round(ours_rate / bare_rate, 3),
    )


def _renamed(bodies: Sequence[dict[str, Any]], namespace: str, stem: str) -> list[dict[str, Any]]:
    return [
        body | {"metadata": body["metadata"] | {"name": f"{stem}-{number}", "namespace": namespace}}
        for number, body in enumerate(bodies)
    ]


def _through_gateway(gateway: ClusterGateway, pods: Sequence[dict[str, Any]]) -> float:
    began = time.perf_counter()
    outcomes = gateway.create_many(POD, pods, deadline=time.monotonic() + PATIENCE_SECONDS)
    took = time.perf_counter() - began
    if bad := [outcome for outcome in outcomes if outcome.wrote is not Wrote.DONE]:
        raise RuntimeError(f"{len(bad)} creates failed, the first with: {bad[0].error}")
    return took


def _through_bare_client(access: Access, pods: Sequence[dict[str, Any]], namespace: str) -> float:
    connection = connection_for(access)
    url = f"{connection.base_url}/api/v1/namespaces/{namespace}/pods"
    headers = {"Content-Type": "application/json"}
    if (token := connection.authorization()) is not None:
        headers["Authorization"] = token
    encoded = [json.dumps(pod).encode() for pod in pods]

    async def send_all() -> float:
        tls = connection.tls()
        connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=True if tls is None else tls)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            bodies = iter(encoded)

            async def worker() -> None:
                for body in bodies:
                    async with session.post(url, data=body) as reply:
                        await reply.read()
                        if reply.status != 201:
                            raise RuntimeError(f"a create was answered with {reply.status}")

            began = time.perf_counter()
            await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))
            return time.perf_counter() - began

    return asyncio.run(send_all())


def _clear(gateway: ClusterGateway, pods: Sequence[dict[str, Any]]) -> None:
    doomed = [Doomed(pod["metadata"]["name"], pod["metadata"]["namespace"]) for pod in pods]
    gateway.delete_many(POD, doomed, deadline=time.monotonic() + PATIENCE_SECONDS, grace_seconds=0)


def sample_pod() -> dict[str, Any]:
    """A pod of the size that a task's is, which no scheduler takes."""
    container = {
        "name": "main",
        "image": "registry.example.com/team/train:1",
        "command": ["python", "-m", "train"],
        "args": ["--epochs", "3", "--data", "/data", "--out", "/out"],
        "env": [{"name": f"OSMO_VARIABLE_{n}", "value": f"value-{n}"} for n in range(12)],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"nvidia.com/gpu": "4"}},
    }
    labels = {f"osmo.nvidia.com/label-{n}": f"value-{n}" for n in range(8)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": labels, "annotations": {"osmo.nvidia.com/task": "worker"}},
        "spec": {"schedulerName": "nobody", "restartPolicy": "Never", "containers": [container]},
    }


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--namespace", default="bench-create-rate")
    given = parser.parse_args(arguments)
    access = Access(given.kubeconfig)
    gateway = ClusterGateway(access)
    gateway.create(NAMESPACE, {"metadata": {"name": given.namespace}})
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while gateway.get(SERVICE_ACCOUNT, "default", namespace=given.namespace) is None:
            if time.monotonic() > until:
                raise RuntimeError(f"namespace {given.namespace} got no service account")
            time.sleep(0.05)
        rates = measure(access, [sample_pod()] * given.pods, namespace=given.namespace, rounds=given.rounds)
    finally:
        gateway.delete(NAMESPACE, given.namespace, uid=None)
    sys.stdout.write(json.dumps(asdict(rates)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
