"""The real command as a process: on the whole service, and on answers that no service gives on demand."""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from localcluster.directories import CHECKOUT


@dataclass
class Ended:
    code: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def json(self):
        return json.loads(self.out)


@dataclass
class Command:
    """``osmo-topology`` with an environment of its own; nothing of the caller's login reaches it."""

    environment: dict

    def __call__(self, *words, given=None, **environment):
        return self.end(self.start(*words, **environment), given)

    def end(self, process, given=None):
        out, err = process.communicate(given, timeout=250)
        return Ended(process.returncode, out, err)

    def start(self, *words, **environment):
        return subprocess.Popen(
            [sys.executable, "-m", "osmo_topology_cli", *words],
            cwd=CHECKOUT,
            env=self.environment | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # a run in the background of a shell ignores interrupts, and so would what it starts
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 -- sets it, no more
        )


@pytest.fixture
def bare(tmp_path):
    """The command of somebody who never logged in."""
    return Command({"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONWARNINGS": "error"})


@pytest.fixture
def command(bare, running_service, own_token):
    """The command of an administrator of the running service, who is also the one of ``world``."""
    login = {"OSMO_URL": running_service["api_url"], "OSMO_TOKEN": own_token}
    return Command(bare.environment | login)


@dataclass
class Answers:
    """A server that gives these answers, (status, headers, text), in turn and the last for ever."""

    answers: list
    asked: list = field(default_factory=list)
    url: str = ""


@pytest.fixture
def answering():
    """Start a server with answers; returns it, with what it was asked."""
    servers = []

    def start(*answers):
        played = Answers(list(answers))

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                length = int(self.headers.get("Content-Length") or 0)
                played.asked.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
                status, headers, text = (
                    played.answers.pop(0) if len(played.answers) > 1 else played.answers[0]
                )
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_POST = do_GET  # noqa: N815 -- http.server's

            def log_message(self, *_):
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        played.url = f"http://127.0.0.1:{server.server_port}"
        return played

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
