"""``python -m localcluster.standins.kueue --kubeconfig F``: run the stand-in for Kueue until SIGTERM."""

import argparse
import sys
from pathlib import Path

from localcluster.api import Access
from localcluster.standins import process
from localcluster.standins.kueue.loop import Manager


def main() -> int:
    parser = argparse.ArgumentParser(prog="localcluster.standins.kueue", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    manager = Manager(Access.from_kubeconfig(parser.parse_args().kubeconfig))
    return process.run("kueue", work=manager.run, shut_down=manager.shut_down)


if __name__ == "__main__":
    sys.exit(main())
