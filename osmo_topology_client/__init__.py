"""A client of an osmo-topology service for Python programs: submit, wait, explain, logs, cancel.

``Client`` is all that most programs need, with ``Document`` for what it sends, ``errors`` for what it raises
and ``replies`` for what it returns. The command ``osmo-topology`` is made of it. It imports nothing of the
service (an import contract checks that).

``Client`` is imported when it is first used, since a program may need the errors alone, and HTTP takes longer
to import than most programs to start.
"""

from typing import TYPE_CHECKING, Any

from osmo_topology_client.calls import Document
from osmo_topology_client.errors import Failure, Misused, Refused, ServiceUnreachable

if TYPE_CHECKING:
    from osmo_topology_client.client import Client

__all__ = ["Client", "Document", "Failure", "Misused", "Refused", "ServiceUnreachable"]


def __getattr__(name: str) -> Any:
    if name != "Client":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from osmo_topology_client.client import Client  # noqa: PLC0415 -- HTTP

    return Client
