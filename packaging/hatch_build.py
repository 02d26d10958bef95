"""The wheel has two packages of the folder above; an editable installation is that folder itself."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("osmo_topology_cli", "osmo_topology_client")


class TwoPackages(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include them in a wheel; copies beside an editable installation would go stale."""
        if version != "editable":
            above = Path(self.root).parent
            build_data["force_include"] |= {str(above / name): name for name in PACKAGES}
