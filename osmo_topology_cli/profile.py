"""The caller's default pool."""

from typing import TYPE_CHECKING

from osmo_topology_cli.outcomes import Misused

if TYPE_CHECKING:
    from osmo_topology_cli.service import Service


def pool_or_default(service: "Service", pool: str) -> str:
    """The given pool, or the caller's default one. Raises Misused where there is neither."""
    if pool:
        return pool
    profile = service.get("profile", "settings")
    if default := profile["profile"]["pool"]:
        return str(default)
    offered = ", ".join(profile["pools"]) or "none that you may use"
    raise Misused(f"Which pool? You have no default pool; give --pool. There is {offered}.")
