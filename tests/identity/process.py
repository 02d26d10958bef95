"""The identity provider of the tests as a process of its own: npm's ``oidc-provider``, which speaks TLS.

Its packages are those of ``package-lock.json`` with their hashes, installed once into the user's cache. A
test that needs it is skipped where node, npm or the packages cannot be had, and says so; where ``OSMO_NODE``
is ``needed`` it fails instead.
"""

import json
import selectors
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.identity.certificates import write_certificates
from tests.identity.keys import SigningKey
from tests.installed import npm_packages

HERE = Path(__file__).parent
START_SECONDS = 60

DEVICE_CLIENT, BROWSER_CLIENT, PAGES_CLIENT = "osmo-device", "osmo-browser", "osmo-pages"
PAGES_SECRET = "secret of the pages"
ACCOUNTS = {
    "ann": {"groups": ["everybody", "trainers"]},
    "root": {"groups": ["administrators"]},
    "bob": {},
}


@dataclass
class ProviderProcess:
    """The running provider."""

    issuer: str
    authority: Path
    key: SigningKey
    process: subprocess.Popen

    def publish(self, *keys):
        """Sign with the first of these keys from now on."""
        self.process.stdin.write(json.dumps({"keys": [key.jwk() for key in keys]}) + "\n")
        self.process.stdin.flush()
        assert _line(self.process) == self.issuer


@contextmanager
def provider_process(directory, *, redirects, pages_redirects, logout_redirects=()):
    """Run the provider; ``redirects`` are the addresses to which it sends OSMO's client back."""
    authority, certificate, key_file = write_certificates(directory)
    key = SigningKey("first")
    configuration = {
        "certificate": str(certificate),
        "key": str(key_file),
        "jwks": {"keys": [key.jwk()]},
        "accounts": ACCOUNTS,
        "clients": _clients(redirects, pages_redirects, list(logout_redirects)),
    }
    packages = npm_packages("identity-provider", HERE)
    log = (directory / "provider.log").open("w")
    process = subprocess.Popen(
        [shutil.which("node"), str(HERE / "provider.mjs")],
        cwd=packages,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        process.stdin.write(json.dumps(configuration) + "\n")
        process.stdin.flush()
        yield ProviderProcess(_line(process), authority, key, process)
    finally:
        process.stdin.close()
        process.terminate()
        process.wait(10)
        process.stdout.close()
        log.close()


def _clients(redirects, pages_redirects, logout_redirects):
    public = {"token_endpoint_auth_method": "none", "application_type": "native"}
    return [
        {
            **public,
            "client_id": DEVICE_CLIENT,
            "grant_types": ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
            "response_types": [],
            "redirect_uris": [],
        },
        {
            **public,
            "client_id": BROWSER_CLIENT,
            "grant_types": ["authorization_code", "refresh_token"],
            "redirect_uris": redirects,
        },
        {
            "client_id": PAGES_CLIENT,
            "client_secret": PAGES_SECRET,
            "grant_types": ["authorization_code"],
            "redirect_uris": pages_redirects,
            "post_logout_redirect_uris": logout_redirects,
        },
    ]


def _line(process):
    """The next line that the process prints. Raises AssertionError if it prints none in time."""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        assert selector.select(START_SECONDS), "the identity provider did not start"
    line = process.stdout.readline().strip()
    assert line.startswith("https://"), f"the identity provider ended: {line!r}"
    return line
