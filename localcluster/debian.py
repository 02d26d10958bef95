"""``make debian``: servers that administrators have and no Python wheel brings, from Debian's packages.

PgBouncer, nginx, dnsmasq, and a Redis that speaks TLS and has Sentinel. Nothing is installed: the packages,
and those that this machine lacks for them, are unpacked below the user's cache, so no service starts and no
file of the machine changes. Where that cannot be done this says why and is no error: the tests that need one
are skipped.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from localcluster.directories import cache_directory

PACKAGES = ("dnsmasq-base", "nginx", "pgbouncer", "redis-sentinel", "redis-server")
SECONDS = 300


def folder() -> Path:
    """Where the packages are unpacked."""
    content = " ".join((*PACKAGES, *_release()))
    return cache_directory() / f"debian-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def program(name: str) -> Path | None:
    """A program of these packages, or None where it was not unpacked."""
    places = (folder() / "usr" / place / name for place in ("sbin", "bin"))
    return next((path for path in places if path.exists()), None)


def library_path() -> str:
    """The ``LD_LIBRARY_PATH`` that such a program needs."""
    return ":".join(str(path) for path in (folder() / "usr/lib").glob("*-linux-gnu"))


def unpack() -> str:
    """Fetch and unpack the packages; returns what stood in the way, empty if nothing did."""
    if os.geteuid() != 0:
        return "it takes root to fetch them with what they depend on"
    if not shutil.which("apt-get"):
        return "there is no apt-get here"
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "debian.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder().exists():
            return ""
        with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
            try:
                _fetch(Path(scratch))
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                return str(error)
    return ""


def _fetch(scratch: Path) -> None:
    archives, root = scratch / "archives", scratch / "root"
    (archives / "partial").mkdir(parents=True)
    _run("apt-get", "update", "-q")
    _run(
        *("apt-get", "install", "-y", "-q", "--download-only", "--reinstall", "--no-install-recommends"),
        *("-o", f"Dir::Cache::archives={archives}", "-o", "APT::Sandbox::User=root", *PACKAGES),
    )
    for archive in sorted(archives.glob("*.deb")):
        _run("dpkg-deb", "-x", str(archive), str(root))
    root.rename(folder())


def _run(*command: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, env=environment, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL)


def _release() -> list[str]:
    """This system's release, whose packages fit its libraries."""
    path = Path("/etc/os-release")
    lines = path.read_text().splitlines() if path.exists() else []
    return sorted(line for line in lines if line.startswith(("ID=", "VERSION_ID=")))


def main() -> int:
    print("[debian] unpacking " + ", ".join(PACKAGES), flush=True)
    if trouble := unpack():
        print(f"[debian] not unpacked: {trouble}; the tests that need them will be skipped", file=sys.stderr)
    else:
        print("[debian] done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
