"""Where tests keep what is looked at afterwards: pictures, and tables of what was really seen."""

import os
from pathlib import Path

from localcluster.directories import CHECKOUT


def artefacts(kind: str) -> Path:
    """The directory of one kind, made if it is not there; below ``OSMO_ARTEFACTS``, or the checkout's own."""
    directory = Path(os.environ.get("OSMO_ARTEFACTS") or CHECKOUT / "artefacts") / kind
    directory.mkdir(parents=True, exist_ok=True)
    return directory
