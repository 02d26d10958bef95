"""``python -m chaos``: one run with one seed; exit status 0 only if every count is zero."""

import argparse
import random
import sys
import time

from chaos import table
from chaos.run import Options, run
from chaos.site import started_site
from localcluster.build import BuildFailed, binaries
from localcluster.supervisor import ServerFailed

SHORT = {"groups": 40, "wide": 100, "gangs": 9, "seconds": 25.0}
FULL = {"groups": 400, "wide": 600, "gangs": 200, "seconds": 200.0}
MOST_SKEW = 300.0


def options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="repeats the mix of faults and workflows")
    parser.add_argument("--groups", type=int, help="task groups to submit")
    parser.add_argument("--seconds", type=float, help="how long faults go on")
    parser.add_argument("--short", action="store_true", help="the form that is part of the deep tests")
    arguments = parser.parse_args()
    size = SHORT if arguments.short else FULL
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    return Options(
        seed=seed,
        groups=int(arguments.groups or size["groups"]),
        wide=int(size["wide"]),
        gangs=int(size["gangs"]),
        seconds=float(arguments.seconds or size["seconds"]),
        short=arguments.short,
        skew=random.Random(seed).choice((-MOST_SKEW, MOST_SKEW)),
    )


def progress(text: str) -> None:
    sys.stderr.write(f"[chaos] {time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def main() -> int:
    chosen = options()
    progress(f"seed {chosen.seed}")
    binaries()
    with started_site(seed=str(chosen.seed), progress=progress) as site:
        outcome = run(site, chosen, progress=progress)
        for line in table.lines(outcome):
            print(line)  # noqa: T201 -- the result
        if not outcome.good:
            raise SystemExit(1)  # keeps the logs
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BuildFailed, ServerFailed) as failure:
        sys.exit(str(failure))
