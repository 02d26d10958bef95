"""``python -m localcluster.standins.kai --kubeconfig F``: run the stand-in for KAI until SIGTERM."""

import argparse
import sys
from pathlib import Path

from localcluster.api import Access
from localcluster.standins import process
from localcluster.standins.kai.loop import Scheduler, Settings
from localcluster.standins.kai.versions import VERSIONS


def main() -> int:
    parser = argparse.ArgumentParser(prog="localcluster.standins.kai", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--version", choices=tuple(VERSIONS), default="0.13")
    parser.add_argument("--stale-grace", type=float, default=60.0, help="seconds; negative never evicts")
    parser.add_argument("--detailed-fit-errors", action="store_true", help="as KAI's flag of that name")
    parser.add_argument(
        "--update-pod-eviction-condition", action="store_true", help="as KAI's flag of that name"
    )
    parser.add_argument("--no-event-limits", action="store_true", help="let every event arrive")
    options = parser.parse_args()
    settings = Settings(
        stale_grace=options.stale_grace,
        detailed_fit_errors=options.detailed_fit_errors,
        update_pod_eviction_condition=options.update_pod_eviction_condition,
        event_limits=not options.no_event_limits,
    )
    access = Access.from_kubeconfig(options.kubeconfig)
    scheduler = Scheduler(access, version=options.version, settings=settings)
    return process.run("kai", work=scheduler.run, shut_down=scheduler.shut_down)


if __name__ == "__main__":
    sys.exit(main())
