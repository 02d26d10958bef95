"""How a supervisor starts the stand-ins on a local cluster."""

import sys
from collections.abc import Sequence
from pathlib import Path

from localcluster.controlplane import Plane
from localcluster.crds import kai
from localcluster.supervisor import Command

EVICTION_FLAG = "--update-pod-eviction-condition"
"""KAI's flag, and the stand-in's."""
ROOT = Path(__file__).resolve().parent.parent.parent


def commands(plane: Plane, *, kai_version: kai.Version, flags: Sequence[str] = ()) -> tuple[Command, ...]:
    """One command per stand-in, KAI's with ``flags``; they may start in any order, and before the cluster."""
    access = ["--kubeconfig", str(plane.kubeconfig("standins"))]
    return (
        _command("standin-kai", "localcluster.standins.kai", [*access, "--version", kai_version, *flags]),
        _command("standin-computedomain", "localcluster.standins.computedomain", access),
    )


def _command(name: str, module: str, arguments: Sequence[str]) -> Command:
    return Command(name=name, argv=[sys.executable, "-m", module, *arguments], cwd=ROOT)
