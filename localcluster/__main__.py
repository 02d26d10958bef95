"""``python -m localcluster COMMAND``: what the Makefile calls."""

import argparse
import sys
import time
from functools import partial

from localcluster import build, controlplane, directories, kueue, stack, up
from localcluster.lease_watch import LeaseWatch
from localcluster.supervisor import ServerFailed, Supervisor

COMMANDS = {
    "build": "build the control plane, kwok and Kueue unless this machine has them",
    "up": "start the service on a local cluster in the background",
    "down": "stop it; its data stay",
    "clean": "stop it and remove its data",
    "cluster": "run the control plane alone, in the foreground, and print its kubeconfig",
    "own": "fail if a variable names a server that this run would not have started",
    "serve": "supervise what `up` starts (internal)",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="localcluster",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{name:10}{text}" for name, text in COMMANDS.items()),
    )
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--kai-version", choices=("0.13", "0.17"), default="0.13")
    parser.add_argument("--kueue", action="store_true", help="`cluster` with Kueue too")
    parser.add_argument(
        "--forget", action="store_true", help="`clean` even where data say what is in somebody's cluster"
    )
    options = parser.parse_args()
    servers = stack.Options.from_environment()
    actions: dict[str, partial[int]] = {
        "build": partial(build.main),
        "up": partial(up.up, servers),
        "serve": partial(up.serve, servers),
        "down": partial(up.down),
        "clean": partial(up.clean, forget=options.forget),
        "own": partial(own),
        "cluster": partial(cluster, options.kai_version, with_kueue=options.kueue),
    }
    return actions[options.command]()


def own() -> int:
    """Refuse servers of somebody else's: the demo, the tests and the bench write as they please."""
    if named := stack.Options.from_environment().names():
        print(
            f"{' and '.join(named)} can be given to `make up` only: "
            "demo, test and bench touch no server that they did not start",
            file=sys.stderr,
        )
        return 2
    return 0


def cluster(kai_version: str, *, with_kueue: bool) -> int:
    """Run a control plane until Ctrl-C."""
    with (
        directories.run_directory("cluster") as directory,
        Supervisor(log_dir=directory / "logs") as supervisor,
    ):
        plane = controlplane.start(
            supervisor,
            directory=directory / "cluster",
            binaries=build.binaries(),
            kai_version="0.17" if kai_version == "0.17" else "0.13",
        )
        if with_kueue:
            kueue.start(supervisor, plane)
        print(f"export KUBECONFIG={plane.kubeconfig('admin')}", flush=True)
        try:
            leases = LeaseWatch(supervisor, plane)
            while True:
                supervisor.check()
                leases.check()
                time.sleep(0.5)
        except KeyboardInterrupt:
            print("stopping")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (build.BuildFailed, ServerFailed, stack.GivenUnusable) as error:
        sys.exit(str(error))
