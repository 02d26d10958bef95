"""The pool that a workflow is sent to: the caller's choice, else their default one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from osmo_topology_cli.calls import Param, address

if TYPE_CHECKING:
    from osmo_topology_cli.service import Service

ANY = "any"


def check_pools(service: "Service", names: Sequence[str] | None) -> None:
    """Raise Refused for a pool that the caller has not, where a list of what it holds came back empty."""
    for name in names or ():
        service.get("pool", name, "topology")


def destination(service: "Service", pool: str) -> tuple[str, dict[str, Param]]:
    """The address that a workflow is sent to, and the pools that the service chooses from.

    Where neither the option nor the caller's profile names a pool, the workflow itself may.
    """
    if pool == ANY or "," in pool:
        return address("workflow"), {"pools": pool}
    pool = pool or service.get("profile", "settings")["profile"]["pool"] or ""
    return (address("pool", pool, "workflow") if pool else address("workflow")), {}
