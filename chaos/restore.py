"""A database that is put back to an earlier moment while the service runs, and an operator who takes over.

The backup is taken in the middle of the storm. When everything is healed and one more workflow runs, which
the backup does not know, the database is replaced by the backup under all processes, which go on. From then
on the service must write nothing in the cluster: the proxy may see no write for some time. Then an operator
adopts the cluster, and the service must come to rest as ever: with what the backup knows, and with nothing
left of what it does not know.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from chaos.site import Progress, Site
from localcluster.directories import CHECKOUT
from localcluster.servers import postgres_program
from localcluster.supervisor import clean_environment

LASTING = """workflow:
  name: lasting
  labels: {sim.osmo.local/run-for: 3600s}
  tasks: [{name: t, image: busybox, command: [train], resource: one}]
  resources:
    one: {gpu: 1}
"""
POOL = "spines"
PROGRAM_SECONDS = 300  # adopting compares each cluster, which takes minutes on a busy machine
RUNNING_SECONDS = 600.0  # a thousand groups that are due take minutes
REFUSAL_SECONDS = 120.0
SETTLE_SECONDS = 10.0  # a worker may act on what it read a few seconds ago
QUIET_SECONDS = 25.0
POLL_SECONDS = 0.5
REFUSED = (
    "SELECT count(*) FROM pools_backend WHERE deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM "
    "jsonb_array_elements(conditions) AS c WHERE c->>'type' = 'WritesAllowed' AND c->>'status' = 'False')"
)
RUNNING = "SELECT status FROM workflows_workflow WHERE base_name = 'lasting'"


@dataclass(slots=True)
class Restore:
    """The backup of one run: when it was taken, when it was put back, and what went wrong then."""

    site: Site
    progress: Progress
    began: float = 0.0
    ended: float = 0.0
    adopted: bool = False
    faults: list[str] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.site.directory / "backup.dump"

    def lost(self, answered_at: float) -> bool:
        """Whether what was accepted then may be unknown to the database that was put back."""
        return bool(self.ended) and self.began <= answered_at <= self.ended

    def take(self) -> None:
        """Back up the database as it is; may be done again if it fails."""
        self.began = time.monotonic()
        self._run("pg_dump", "--format=custom", f"--file={self.file}", "--dbname", self._name)
        self.progress("the database was backed up")

    def put_back(self, submit: Callable[[str, str, str], None], *, configure: Callable[[], None]) -> None:
        """Put the backup in the database's place, see that nothing is written, and adopt.

        ``configure`` mends what was broken in the configuration when the backup was taken.
        """
        submit(POOL, LASTING, "HIGH")  # before what the storm left waiting
        _until(lambda: self._answer(RUNNING) == "RUNNING", RUNNING_SECONDS, awaited="a workflow that lasts")
        self._replace()
        self.ended = time.monotonic()
        self.progress("the database was put back; nothing may be written")
        configure()
        _until(lambda: self._answer(REFUSED) == 0, REFUSAL_SECONDS, awaited="every backend to refuse writes")
        time.sleep(SETTLE_SECONDS)
        before = len(self.site.proxy.writes)
        time.sleep(QUIET_SECONDS)
        self.faults += self.site.proxy.writes[before:]
        self._adopt()
        self.adopted = True

    def _replace(self) -> None:
        """Restore beside the database, then exchange both; sessions are ended and come back to the other."""
        with psycopg.connect(self._url("postgres"), autocommit=True) as server:
            server.execute("CREATE DATABASE earlier TEMPLATE template0")
            self._run("pg_restore", "--no-owner", "--exit-on-error", "--dbname", "earlier", str(self.file))
            name = sql.Identifier(self._name)
            server.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
            server.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s",
                [self._name],
            )
            server.execute(sql.SQL("ALTER DATABASE {} RENAME TO later").format(name))
            server.execute(sql.SQL("ALTER DATABASE earlier RENAME TO {}").format(name))

    def _adopt(self) -> None:
        """Adopt the cluster, as an operator does."""
        done = subprocess.run(
            [sys.executable, "manage.py", "adopt", "--yes"],
            cwd=CHECKOUT,
            env=clean_environment() | self.site.running.settings.environment(),
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
            check=False,
        )
        self.progress(f"adopted: {done.stdout.strip().splitlines()[-1:]}")
        if done.returncode:
            self.faults.append(f"it could not adopt: {done.stdout[-500:]}{done.stderr[-500:]}")

    def _run(self, program: str, *arguments: str) -> None:
        parts = conninfo_to_dict(self.site.database_url)
        login = {
            "PGHOST": str(parts["host"]),
            "PGPORT": str(parts["port"]),
            "PGUSER": str(parts["user"]),
            "PGPASSWORD": str(parts["password"]),
        }
        done = subprocess.run(
            [postgres_program(program), *arguments],
            env=clean_environment() | login,
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
            check=False,
        )
        if done.returncode:
            raise OSError(f"{program}: {done.stderr[-500:]}")

    @property
    def _name(self) -> str:
        return str(conninfo_to_dict(self.site.database_url)["dbname"])

    def _url(self, database: str) -> str:
        return f"{self.site.database_url.rpartition('/')[0]}/{database}"

    def _answer(self, question: str) -> object:
        try:
            with psycopg.connect(self.site.database_url) as connection:
                row = connection.execute(question.encode()).fetchone()
        except psycopg.OperationalError:
            return None
        return row[0] if row else None


def _until(condition: Callable[[], bool], seconds: float, *, awaited: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain for {awaited}")
        time.sleep(POLL_SECONDS)
