"""Where a run of the local cluster keeps its files, and what a killed run has left.

``.local/`` in the checkout, or the directory that ``OSMO_LOCAL`` names: ``make up`` uses it directly and
keeps its data there; a run of the demo, the tests or the bench has ``.local/<kind>-<pid>`` for itself and
removes it at its end. Each such directory holds ``owner.json``: the process it belongs to and the homes it
made elsewhere (``servers.Home``). The next run removes a directory whose owner is gone, with its homes.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from localcluster.homes import remove_home
from localcluster.processes import Process

CHECKOUT = Path(__file__).resolve().parent.parent
LOCAL = Path(os.environ.get("OSMO_LOCAL") or CHECKOUT / ".local").resolve()
OWNER = "owner.json"


@contextmanager
def run_directory(kind: str) -> Iterator[Path]:
    """A directory for one run; it is gone afterwards, except for the logs of a run that failed."""
    sweep()
    directory = LOCAL / f"{kind}-{os.getpid()}"
    directory.mkdir(parents=True, mode=0o700)
    own(directory)
    try:
        yield directory
    except BaseException:
        _keep_logs(directory, kind)
        raise
    finally:
        remove(directory)


def own(directory: Path) -> None:
    """Note this process as the owner of a directory."""
    owner = Process.of(os.getpid())
    (directory / OWNER).write_text(json.dumps({"process": asdict(owner), "homes": []}))


def note_home(directory: Path, home: Path) -> None:
    """Note a home outside the directory, so that it is removed with it."""
    path = directory / OWNER
    content = json.loads(path.read_text())
    content["homes"].append(str(home))
    path.write_text(json.dumps(content))


def remove(directory: Path) -> None:
    """Remove a directory and the homes noted in it."""
    for home in json.loads((directory / OWNER).read_text())["homes"]:
        if Path(home).exists():
            remove_home(Path(home))
    shutil.rmtree(directory)


def sweep() -> None:
    """Remove what runs that were killed have left."""
    for path in LOCAL.glob(f"*-*/{OWNER}"):
        if not Process(**json.loads(path.read_text())["process"]).alive():
            remove(path.parent)


def _keep_logs(directory: Path, kind: str) -> None:
    folder = LOCAL / "failed" / kind
    shutil.rmtree(folder, ignore_errors=True)
    if (directory / "logs").exists():
        shutil.copytree(directory / "logs", folder)


def cache_directory() -> Path:
    """The folder of this project in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "osmo-topology"


def write_secret(path: Path, content: str) -> None:
    """Write a file that only its owner can read; it appears whole, whoever else writes it."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    unfinished.touch(mode=0o600)
    unfinished.write_text(content)
    unfinished.rename(path)
