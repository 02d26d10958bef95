"""Free TCP ports on loopback."""

import json
import random
import socket
from contextlib import ExitStack
from pathlib import Path

from localcluster.directories import write_secret

LOOPBACK = "127.0.0.1"
LASTING = range(20000, 30000)  # below those that the kernel gives to connections


def free_ports(count: int) -> list[int]:
    """Return different ports that the kernel gives to nobody else for a minute.

    Servers that cannot be handed a socket bind one of these by its number. Until then each port is in
    TIME_WAIT, by a connection that its listener ended first: no socket that leaves the choice to the kernel
    gets it, and a server may bind it, as all of ours set SO_REUSEADDR.
    """
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(count)]
        for listener in listeners:
            client = stack.enter_context(socket.create_connection(listener.getsockname()))
            accepted, _ = listener.accept()
            accepted.close()
            client.recv(1)  # the end has come, so it is the listener's side that waits
        return [listener.getsockname()[1] for listener in listeners]


def lasting_ports(file: Path, *names: str) -> list[int]:
    """Return the ports that a file gives to these names, for servers that come again under their address.

    A name gets one if it has none, or if another program has it.
    """
    numbers: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    for name in names:
        before = numbers.get(name)
        while name not in numbers or _in_use(numbers[name]):
            unnamed = [port for port in LASTING if port not in numbers.values()]
            numbers[name] = random.choice(unnamed)  # noqa: S311 -- nothing secret
        if before not in {None, numbers[name]}:
            print(f"another program uses port {before} of {name}, which gets {numbers[name]}", flush=True)
    write_secret(file, json.dumps(numbers, indent=2) + "\n")
    return [numbers[name] for name in names]


def _in_use(port: int) -> bool:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError:
        return True
    return False
