"""The process behind one part of ``shared``: ``python -m localcluster.part_process PART DIRECTORY``.

It supervises its servers, says in ``<part>.json`` how they are reached, and watches the directory's
owner.
"""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, cast, get_args

from localcluster import build, controlplane, kueue, servers, stack
from localcluster.directories import CHECKOUT, OWNER, note_home, write_secret
from localcluster.kubelet import image
from localcluster.lease_watch import LeaseWatch
from localcluster.ports import free_ports
from localcluster.processes import Process
from localcluster.shared import POLL_SECONDS, REDIS_DATABASES, Part, join, plane_of
from localcluster.standins.commands import commands
from localcluster.supervisor import Command, ServerFailed, Supervisor

SERVICE_DATABASE = "service"
CHECKOUT_IMAGE = "osmo-topology:checkout"
SERVICE_REDIS = REDIS_DATABASES  # test workers count up from 0


def hold(part: Part, *, directory: Path) -> None:
    """Start the servers of a part, say so, and keep them until told to end or the owner is gone."""
    owner = Process(**json.loads((directory / OWNER).read_text())["process"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who then ends us
    signal.signal(signal.SIGTERM, _leave)
    home = None
    try:
        with Supervisor(log_dir=directory / "logs") as supervisor:
            if part == "databases":
                home = servers.Home.make(directory / "databases")
                note_home(directory, home.data)
                record: dict[str, Any] = _databases(supervisor, home)
            elif part == "service":
                record = _service(supervisor, directory)
            elif part == "workloads":
                record = _workloads(supervisor, directory)
            elif part == "kueue":
                record = _kueue(supervisor, directory)
            elif part.startswith("standins"):
                record = _standins(supervisor, directory, part)
            else:
                record = _cluster(supervisor, directory, part)
            me = Process.of(os.getpid())
            record |= {"process": {"pid": me.pid, "started": me.started}}
            write_secret(directory / f"{part}.json", json.dumps(record))
            leases = LeaseWatch(supervisor, plane_of(record)) if "server" in record else None
            while owner.alive():
                supervisor.check()
                if leases:
                    leases.check()
                time.sleep(POLL_SECONDS)
    finally:
        if home:
            home.remove()


def _databases(supervisor: Supervisor, home: servers.Home) -> dict[str, Any]:
    return {
        "database_url": servers.start_postgres(supervisor, home, durable=False),
        "redis_url": servers.start_redis(supervisor, home),
    }


def _cluster(supervisor: Supervisor, directory: Path, part: Part) -> dict[str, Any]:
    plane = controlplane.start(
        supervisor,
        directory=directory / part,
        binaries=build.binaries(),
        kai_version="0.17" if part == "cluster-0.17" else "0.13",
    )
    return _record(plane)


def _record(plane: controlplane.Plane) -> dict[str, Any]:
    return {"directory": str(plane.directory), "server": plane.server, "tokens": plane.tokens}


def _workloads(supervisor: Supervisor, directory: Path) -> dict[str, Any]:
    """A cluster of its own with stand-ins, with Deployments and Jobs, and with a node that runs processes."""
    plane = controlplane.start(
        supervisor, directory=directory / "workloads", binaries=build.binaries(), workloads=True
    )
    for command in commands(plane, kai_version="0.13"):
        supervisor.start(command)
    home = directory / "kubelet"
    (home / "images").mkdir(parents=True, mode=0o700)
    checkout = image.build(CHECKOUT, home / "checkout")
    image.image_link(home, CHECKOUT_IMAGE).symlink_to(checkout)
    arguments = (str(plane.kubeconfig("admin")), "processes", str(home))
    argv = [sys.executable, "-m", "localcluster.kubelet", *arguments]
    supervisor.start(Command(name="kubelet", argv=argv, cwd=CHECKOUT, stop_seconds=30))
    return _record(plane) | {"kubelet": str(home)}


def _standins(supervisor: Supervisor, directory: Path, part: Part) -> dict[str, Any]:
    """The stand-ins on the cluster of the same version, which is started if nobody has."""
    newer = part == "standins-0.17"
    plane = plane_of(join("cluster-0.17" if newer else "cluster-0.13", directory=directory))
    for command in commands(plane, kai_version="0.17" if newer else "0.13"):
        supervisor.start(command)
    return {}


def _kueue(supervisor: Supervisor, directory: Path) -> dict[str, Any]:
    """Kueue on the cluster of KAI 0.13, for the tests that ask for it."""
    kueue.start(supervisor, plane_of(join("cluster-0.13", directory=directory)))
    return {}


def _service(supervisor: Supervisor, directory: Path) -> dict[str, Any]:
    """Web, worker, beat and observer, on the run's databases and its cluster with stand-ins."""
    databases = join("databases", directory=directory)
    plane = plane_of(join("cluster-0.13", directory=directory))
    join("standins-0.13", directory=directory)
    options = stack.Options(
        database_url=servers.create_database(databases["database_url"], SERVICE_DATABASE),
        redis_url=f"{databases['redis_url'].rpartition('/')[0]}/{SERVICE_REDIS}",
        kubeconfig=plane.kubeconfig("admin"),
    )
    home = directory / "service"
    home.mkdir(mode=0o700)
    (news_port,) = free_ports(1)
    running = stack.start(
        supervisor,
        directory=home,
        options=options,
        durable=False,
        progress=print,
        more={
            "OSMO_NOTIFY_HOSTS": f'["http://127.0.0.1:{news_port}"]',  # where a test receives news
            "OSMO_NOTIFY_NETWORKS": '["127.0.0.1/32"]',
            "OSMO_KUBECONFIG_PATHS": '["/"]',  # tests write them into directories of their own
            "OSMO_SCHEDULER_DISAGREES_SECONDS": "15",  # every test shows that no scheduler is blamed in vain
        },
    )
    return {
        "api_url": running.api_url,
        "metrics_token": running.settings.metrics_token,
        "metrics_urls": running.settings.metrics_urls(),
        "token": running.token,
        "admin_user": stack.ADMIN,
        "admin_password": running.admin_password,
        "kubeconfig": str(running.kubeconfig),
        "environment": running.settings.environment(),
        "news_port": news_port,
        "processes": str(running.settings.processes),
    }


def _leave(*_: object) -> None:
    raise SystemExit(0)


def main() -> int:
    part, directory = sys.argv[1:]
    assert part in get_args(Part), part
    os.setsid()
    try:
        hold(cast("Part", part), directory=Path(directory))
    except ServerFailed:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
