"""A worker that is replaced at once when it dies: ``python -m chaos.forking_worker ARGUMENTS-OF-CELERY...``.

Starting Python with Django and Celery takes some seconds of CPU, and the short form lets a worker die at
every crash point. So this process loads the service's code, connects to nothing, and forks a worker; when
that one was killed it lets its leases end in the database (nobody else has any) and forks the next. The full
form does not use it: there a worker starts as it does in production, and leases run out by themselves.
"""

import importlib
import os
import signal
import sys
from functools import partial
from types import FrameType

import psycopg

END_LEASES = "UPDATE workflows_taskgroup SET lease_until = clock_timestamp() WHERE lease_token IS NOT NULL"


def main() -> int:
    app = importlib.import_module("osmo_topology.celery").app
    app.loader.import_default_modules()
    app.finalize()
    while True:
        child = os.fork()
        if child == 0:
            app.worker_main(sys.argv[1:])
            return 0
        signal.signal(signal.SIGTERM, partial(_pass_on, child))
        _, status = os.waitpid(child, 0)
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            return os.waitstatus_to_exitcode(status)
        _end_leases()


def _pass_on(child: int, number: int, _frame: FrameType | None) -> None:
    os.kill(child, number)


def _end_leases() -> None:
    """Whatever the dead worker had sent has been answered by now, or never will be."""
    try:
        with psycopg.connect(os.environ["OSMO_DATABASE_URL"], connect_timeout=5) as connection:
            connection.execute(END_LEASES)
    except psycopg.Error as error:
        print(f"leases not ended: {error}", flush=True)  # noqa: T201 -- they run out by themselves


if __name__ == "__main__":
    sys.exit(main())
