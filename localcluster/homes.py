"""Directories that hold servers which an unprivileged account runs for root.

Those of a run that ends lie under /var/tmp. The one of ``make up`` lasts: it is in ``.local`` where that
account can enter it, and otherwise (a checkout under /root) under /var/lib, named by a hash of that path.
"""

import hashlib
import shutil
from pathlib import Path

TEMPORARY = Path("/var/tmp")  # noqa: S108 -- fresh private directories are made in it
PREFIX = "osmo-topology-"
LASTING = Path("/var/lib/osmo-topology")
ENTER = 0o001


def remove_home(path: Path) -> None:
    """Remove a home under /var/tmp; anything else is refused, whatever a file says."""
    if path.parent != TEMPORARY or not path.name.startswith(PREFIX):
        raise ValueError(f"{path} is not a directory made by this program under {TEMPORARY}")
    shutil.rmtree(path)


def lasting_home(directory: Path) -> Path:
    """Where the data of a directory last: there, or in the place that anybody's account can enter."""
    if all(parent.stat().st_mode & ENTER for parent in directory.parents if parent.exists()):
        return directory
    return LASTING / hashlib.sha256(str(directory).encode()).hexdigest()[:16]


def remove_lasting(directory: Path) -> None:
    """Remove a directory's data, wherever they are."""
    shutil.rmtree(lasting_home(directory), ignore_errors=True)
