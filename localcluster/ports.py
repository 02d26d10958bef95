"""Free TCP ports on loopback."""

import socket
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"


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
