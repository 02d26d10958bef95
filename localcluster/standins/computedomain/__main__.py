"""``python -m localcluster.standins.computedomain --kubeconfig F``: run until SIGTERM."""

import argparse
import sys
from pathlib import Path

from localcluster.api import Access
from localcluster.standins import process
from localcluster.standins.computedomain.controller import Controller
from localcluster.standins.computedomain.plan import Faults


def main() -> int:
    parser = argparse.ArgumentParser(prog="localcluster.standins.computedomain", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--stuck-finalizer", action="store_true", help="never finish a deletion")
    parser.add_argument("--absent-template", action="store_true", help="never make the workload's template")
    options = parser.parse_args()
    faults = Faults(stuck_finalizer=options.stuck_finalizer, absent_template=options.absent_template)
    controller = Controller(Access.from_kubeconfig(options.kubeconfig), faults=faults)
    return process.run("computedomain", work=controller.run, shut_down=controller.shut_down)


if __name__ == "__main__":
    sys.exit(main())
