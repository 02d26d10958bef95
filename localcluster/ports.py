"""Free TCP ports on loopback."""

import socket
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Return different ports that were free a moment ago.

    Servers that cannot be handed a socket leave no better way; one that loses the race ends at
    once and its log, shown in the error, says why.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind((LOOPBACK, 0))
        return [listener.getsockname()[1] for listener in sockets]
