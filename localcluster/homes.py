"""Directories under /var/tmp that hold servers which an unprivileged user runs for root."""

import shutil
from pathlib import Path

TEMPORARY = Path("/var/tmp")  # noqa: S108 -- fresh private directories are made in it
PREFIX = "osmo-topology-"


def remove_home(path: Path) -> None:
    """Remove a home under /var/tmp; anything else is refused, whatever a file says."""
    if path.parent != TEMPORARY or not path.name.startswith(PREFIX):
        raise ValueError(f"{path} is not a directory made by this program under {TEMPORARY}")
    shutil.rmtree(path)
