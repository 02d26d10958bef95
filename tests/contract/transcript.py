"""The main flow over HTTP as the client sends it: ``python -m tests.contract.transcript URL POOL TOKEN``.

Login with a personal token, pools, a templated workflow that is rendered, submitted, queried, listed, its
events and spec read, and cancelled; then faults, as their user sees them.
"""

import http.client
import json
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.contract.cases import HEADERS
from tests.contract.client import Outcome, handle_response

TEMPLATE = """\
workflow:
  name: {{ name }}
  resources:
    shard: {gpu: 1, cpu: 1, memory: 1Gi}
  groups:
  - name: all
    tasks:
    - {name: first, lead: true, image: "example.com/train:1", command: [train], resource: shard}
    - {name: second, image: "example.com/train:1", command: [train], resource: shard}
default-values:
  name: hello
"""
FAULTY = TEMPLATE.replace("1Gi}", "1Gi, topology: [{key: no-such-key}]}")
LONGEST = 600


class Client:
    """One command line: a connection, its login, and where it prints."""

    def __init__(self, base: str, *, say: Callable[[str], None]) -> None:
        parts = urlsplit(base)
        assert parts.hostname
        plain = parts.scheme == "http"
        connect = http.client.HTTPConnection if plain else http.client.HTTPSConnection
        self.connection = connect(parts.hostname, parts.port, timeout=60)
        self.headers = {**HEADERS, "Content-Type": "application/json"}
        self.say = say

    def ask(
        self,
        method: str,
        path: str,
        query: dict[str, Any] | None = None,
        body: Any = None,
        *,
        streamed: bool = False,
        submits: bool = False,
    ) -> Outcome:
        """Send one request and print it with its answer, secrets left out."""
        address = f"{path}?{urlencode(query, doseq=True)}" if query else path
        self.connection.request(
            method, address, None if body is None else json.dumps(body), headers=self.headers
        )
        answer = self.connection.getresponse()
        content = answer.read()
        outcome = handle_response(answer.status, content, streamed=streamed, submits=submits)
        secret = path.startswith("/api/auth/")
        self.say(f"> {method} {address}")
        if body is not None and not secret:
            self.say(f"> {json.dumps(body)[:LONGEST]}")
        self.say(f"< {answer.status} {answer.getheader('Content-Type')}; exit {outcome.exit}")
        self.say("< (a token)" if secret else _shown(content.decode()))
        return outcome


def _shown(text: str) -> str:
    more = "..." if len(text) > LONGEST else ""
    return "\n".join(f"< {line}" for line in (text[:LONGEST] + more).splitlines())


def run(base: str, *, pool: str, token: str, say: Callable[[str], None]) -> list[int]:
    """Go through the flow; returns the exit code of each request."""
    client = Client(base, say=say)
    with closing(client.connection):
        return _flow(client, pool=pool, token=token)


def _flow(client: Client, *, pool: str, token: str) -> list[int]:
    exits = []

    def ask(*args: Any, **options: Any) -> Any:
        outcome = client.ask(*args, **options)
        exits.append(outcome.exit)
        return outcome.value

    login = ask("POST", "/api/auth/jwt/access_token", body={"token": token})
    client.headers["Authorization"] = f"Bearer {login['token']}"
    ask("GET", "/api/version")
    ask("GET", "/api/profile/settings")
    ask("GET", "/api/pool_quota", {"all_pools": True})
    body = {
        "file": TEMPLATE,
        "set_variables": ["name=greeting"],
        "set_string_variables": [],
        "uploaded_templated_spec": None,
    }
    submit = f"/api/pool/{pool}/workflow"
    dry = ask("POST", submit, {"dry_run": True}, body, submits=True)
    rendered = {**body, "file": dry["spec"], "uploaded_templated_spec": TEMPLATE}
    name = ask("POST", submit, {"dry_run": False}, rendered, submits=True)["name"]
    ask("GET", f"/api/workflow/{name}", {"verbose": False})
    ask("GET", "/api/workflow", {"order": "DESC", "all_pools": True, "limit": 20, "offset": 0})
    ask("GET", f"/api/workflow/{name}/events", streamed=True)
    ask("GET", f"/api/workflow/{name}/spec", {"use_template": False}, streamed=True)
    ask("POST", f"/api/workflow/{name}/cancel", {"force": False, "message": "seen enough"})
    ask("POST", submit, {"dry_run": True}, {**body, "file": FAULTY}, submits=True)
    ask("POST", f"/api/workflow/{name}/exec/task/first", {"entry_command": "bash"})
    return exits


if __name__ == "__main__":
    address, pool_name, personal_token = sys.argv[1:]
    run(address, pool=pool_name, token=personal_token, say=print)
