"""``make browser``: install the system's Chromium where this process may, which is as root on Debian.

A browser that a package brought of its own would come from no package registry, so Playwright gets the
system's. Where it cannot be installed this says why and is no error: the tests that need it are skipped.
"""

import os
import shutil
import subprocess
import sys

PACKAGES = ("chromium", "fonts-dejavu-core")
SECONDS = 600


def install() -> str:
    """Install Chromium; returns what stood in the way, empty if nothing did."""
    if os.geteuid() != 0:
        return "it takes root to install it"
    if not shutil.which("apt-get"):
        return "there is no apt-get here"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES],
    ):
        try:
            subprocess.run(command, env=environment, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            return str(error)
    return ""


def main() -> int:
    print("[browser] installing Chromium", flush=True)
    if trouble := install():
        print(
            f"[browser] not installed: {trouble}; the tests in tests/browser will be skipped", file=sys.stderr
        )
        return 0
    print("[browser] done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
