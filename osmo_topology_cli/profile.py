"""The pool that a workflow is sent to: the caller's choice, else their default one."""

from typing import TYPE_CHECKING

from osmo_topology_cli.calls import Param, address

if TYPE_CHECKING:
    from osmo_topology_cli.service import Service

ANY = "any"


def destination(service: "Service", pool: str) -> tuple[str, dict[str, Param]]:
    """The address that a workflow is sent to, and the pools that the service chooses from.

    Where neither the option nor the caller's profile names a pool, the workflow itself may.
    """
    if pool == ANY or "," in pool:
        return address("workflow"), {"pools": pool}
    pool = pool or service.get("profile", "settings")["profile"]["pool"] or ""
    return (address("pool", pool, "workflow") if pool else address("workflow")), {}
