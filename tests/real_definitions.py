"""Where the real CustomResourceDefinitions of KAI and NVIDIA's driver are, if somebody has them.

The repository holds none of them: its own definitions (``localcluster/crds``) say what must hold. To compare
the two, set OSMO_REAL_DEFINITIONS to a folder with ``kai-v0.13``, ``kai-v0.17``, ``kueue-v0.19`` and
``nvidia-dra``, each with the project's ``GROUP_PLURAL.yaml`` files.
"""

import os
from pathlib import Path

VARIABLE = "OSMO_REAL_DEFINITIONS"


def _folder() -> Path | None:
    if not (name := os.environ.get(VARIABLE)):
        return None
    path = Path(name).resolve()
    if not path.is_dir():
        raise FileNotFoundError(f"{VARIABLE} names {path}, which is no folder")
    return path


FOLDER = _folder()
