"""``python -m localcluster.standins.computedomain --kubeconfig F``: run until SIGTERM."""

import argparse
import sys
from pathlib import Path

from localcluster.api import Access
from localcluster.standins import process
from localcluster.standins.computedomain.controller import Controller
from localcluster.standins.computedomain.pace import FAST, REAL
from localcluster.standins.computedomain.plan import Faults


def main() -> int:
    parser = argparse.ArgumentParser(prog="localcluster.standins.computedomain", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--stuck-finalizer", action="store_true", help="never finish a deletion")
    parser.add_argument("--absent-template", action="store_true", help="never make the workload's template")
    parser.add_argument("--real-pace", action="store_true", help="one worker, 5 requests a second, burst 10")
    parser.add_argument(
        "--restore-after",
        type=float,
        default=0.0,
        help="seconds until a template removed by hand comes back; with the original 600 to 3600",
    )
    parser.add_argument(
        "--no-dns-names", action="store_true", help="the driver's gate IMEXDaemonsWithDNSNames is off"
    )
    options = parser.parse_args()
    faults = Faults(
        stuck_finalizer=options.stuck_finalizer,
        absent_template=options.absent_template,
        restore_after=options.restore_after,
        dns_names=not options.no_dns_names,
    )
    pace = REAL if options.real_pace else FAST
    controller = Controller(Access.from_kubeconfig(options.kubeconfig), faults=faults, pace=pace)
    return process.run("computedomain", work=controller.run, shut_down=controller.shut_down)


if __name__ == "__main__":
    sys.exit(main())
