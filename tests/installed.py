"""What tests need of other languages or versions, installed once for all runs of an account."""

import fcntl
import hashlib
import os
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "osmo-topology"


def installed(name, lock, install):
    """A folder that ``install(folder)`` has filled, by the first run that needs it with this ``lock``."""
    folder = CACHE / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as one_installer:
        fcntl.flock(one_installer, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            install(folder)
            (folder / "installed").touch()
    return folder
