"""``.local/run.json``: what ``make up`` started and how to reach it.

For people and scripts (addresses, login, logs) and for ``make down`` (processes with the moment of
their start, so that a pid that now is another's is left alone). It holds a password and a token and is
readable by its owner only.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from localcluster import stack
from localcluster.directories import LOCAL, write_secret
from localcluster.processes import Process

PATH = LOCAL / "run.json"


def write(running: stack.Running, *, revived: Mapping[str, int]) -> None:
    """Write the file; it appears whole. ``revived`` is how often each part was started again."""
    children = [child for child in running.supervisor.children if child.ending() is None]
    processes = {"supervisor": os.getpid()} | {child.command.name: child.pid for child in children}
    content = {
        "api_url": running.api_url,
        "admin_url": f"{running.api_url}/admin/",
        "admin_user": stack.ADMIN,
        "admin_password": running.admin_password,
        "token": running.token,
        "kubeconfig": str(running.kubeconfig),
        "database_url": running.settings.database_url,
        "redis_url": running.settings.redis_url,
        "pids": processes,
        "processes": {name: asdict(Process.of(pid)) for name, pid in processes.items()},
        "logs": str(running.supervisor.log_dir),
        "data_dirs": [str(folder) for folder in (running.directory, running.home) if folder],
        "revived": dict(revived),
    }
    write_secret(PATH, json.dumps(content, indent=2) + "\n")


def read() -> dict[str, Any] | None:
    """The file's content, or None."""
    return json.loads(PATH.read_text()) if PATH.exists() else None


def processes() -> dict[str, Process]:
    """The processes that are written down, whether they still live or not."""
    content = read()
    return {name: Process(**fields) for name, fields in content["processes"].items()} if content else {}
