"""Move the service account's files, whose path the Kubernetes client has built in, below a container's root.

The kubelet of the local cluster puts this folder on PYTHONPATH. It changes two constants of one module, when
that module is imported.
"""

import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

MODULE = "kubernetes.config.incluster_config"
NAMES = ("SERVICE_TOKEN_FILENAME", "SERVICE_CERT_FILENAME")


class Moved(Loader):
    """The loader of that module, after which its paths lie below the root."""

    def __init__(self, loader: Loader, root: str) -> None:
        self._loader, self._root = loader, root

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for name in NAMES:
            setattr(module, name, self._root + getattr(module, name))


class Finder(MetaPathFinder):
    """Finds that module alone."""

    def __init__(self, root: str) -> None:
        self._root = root

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != MODULE:
            return None
        spec = PathFinder.find_spec(name, path, target)  # type: ignore[arg-type]  # as importlib calls it
        if spec is not None and spec.loader is not None:
            spec.loader = Moved(spec.loader, self._root)
        return spec


if ROOT := os.environ.get("OSMO_KUBELET_ROOT"):
    sys.meta_path.insert(0, Finder(ROOT))
