"""Probes, asked as a kubelet asks them."""

import asyncio
import http.client
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from localcluster.api import Json
from localcluster.kubelet.container_files import local_address

Run = Callable[[list[str], float], Awaitable[bool]]


def port_of(container: Json, port: int | str) -> int:
    """A port by its number or by its name."""
    if isinstance(port, int):
        return port
    return next(int(own["containerPort"]) for own in container["ports"] if own.get("name") == port)


async def ask(probe: Json, container: Json, *, address: str, run: Run) -> bool:
    """Ask once, within the probe's time limit; ``run`` runs a command in the container."""
    seconds = float(probe.get("timeoutSeconds", 1))
    if command := probe.get("exec"):
        return await run(command["command"], seconds)
    if own := probe.get("httpGet"):
        return await asyncio.to_thread(_http, own, address, port_of(container, own["port"]), seconds)
    return await _connects(local_address(address), port_of(container, probe["tcpSocket"]["port"]), seconds)


def _http(own: Mapping[str, Any], address: str, port: int, seconds: float) -> bool:
    """Whether the answer is a success or a redirection; Host is the pod's address in the cluster."""
    connection = http.client.HTTPConnection(local_address(address), port, timeout=seconds)
    headers = {"Host": f"{address}:{port}", "User-Agent": "kube-probe/1.36", "Accept": "*/*"}
    headers |= {header["name"]: header["value"] for header in own.get("httpHeaders") or []}
    try:
        connection.request("GET", own.get("path", "/"), headers=headers)
        return 200 <= connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


async def _connects(host: str, port: int, seconds: float) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), seconds)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def until_change(
    probe: Json, once: Callable[[], Awaitable[bool]], *, good: bool, first: bool = True
) -> bool:
    """Ask at the probe's pace until its threshold is met in the other direction; returns the new state.

    ``good`` is the state so far: successes count while it is bad, failures while it is good. A startup probe
    ends with the first of either.
    """
    if first:
        await asyncio.sleep(float(probe.get("initialDelaySeconds", 0)))
    limit = probe.get("failureThreshold", 3) if good else probe.get("successThreshold", 1)
    row = 0
    while True:
        began = time.monotonic()
        row = 0 if await once() is good else row + 1
        if row >= limit:
            return not good
        await asyncio.sleep(max(0.0, float(probe.get("periodSeconds", 10)) - (time.monotonic() - began)))
