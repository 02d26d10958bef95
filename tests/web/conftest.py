"""Web's own processes, started as the local cluster starts them, on the database of the tests."""

import http.client
import json
import socket
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from localcluster import service
from localcluster.ports import LOOPBACK, free_ports
from localcluster.supervisor import Supervisor
from tests.builders.certificates import loopback_certificate
from tests.builders.pod_server import PodServer
from tests.builders.waiting import until
from tests.factories import BackendFactory, PoolFactory, TaskGroupFactory
from web.access.services import make_token
from workflows.models import ObservedPod, Task

SECRET = "proxy-" + "s" * 40
SECRET_KEY = "k" * 40
SECONDS = 120


@dataclass
class WebServer:
    port: int
    log: Path
    pid: int = 0

    def connect(self, sent=b"", *, address=LOOPBACK):
        """A connection from one of this machine's addresses, on which something has been sent."""
        client = socket.create_connection((LOOPBACK, self.port), timeout=SECONDS, source_address=(address, 0))
        client.sendall(sent)
        return client

    def send(self, *lines, body=b"", method="GET", path="/api/profile/settings"):
        """(status, headers, body) of a request whose headers are these lines, as they are written.

        Whoever refuses may hang up before everything was sent.
        """
        head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *lines, "", ""]
        with self.connect() as client:
            with suppress(ConnectionError):
                client.sendall("\r\n".join(head).encode("latin-1") + body)
            answer = http.client.HTTPResponse(client, method=method)
            answer.begin()
            return answer.status, answer.headers, answer.read()

    def json(self, *lines, **named):
        status, _, body = self.send(*lines, **named)
        return status, json.loads(body)


@contextmanager
def started_web(directory, redis_url, *, constants="", processes=2, **variables):
    """Web with settings of its own, and with constants that lines of Python change in gunicorn's file."""
    configuration = directory / "gunicorn.conf.py"
    configuration.write_text(f"from web.server.webserver import *\n{constants}\n")
    database = connection.settings_dict
    user, password, host = database["USER"], database["PASSWORD"], database["HOST"]
    settings = service.Settings(
        database_url=f"postgresql://{user}:{password}@{host}:{database['PORT']}/{database['NAME']}",
        redis_url=redis_url,
        secret_key=SECRET_KEY,
        port=free_ports(1)[0],
        pod_logs=directory,
        metrics_token="m" * 40,
        more={
            "OSMO_ENV": "production",
            "OSMO_SERVICE_URL": "",
            "OSMO_TRUSTED_PROXY_SECRETS": json.dumps([SECRET]),
            **variables,
        },
    )
    with Supervisor(log_dir=directory) as supervisor:
        server = WebServer(settings.port, directory / "web.log")
        command = service.commands(settings)["web"]
        argv = [
            str(configuration) if part == "python:web.server.webserver" else part for part in command.argv
        ]
        argv[argv.index("--workers") + 1] = str(processes)
        web = supervisor.start(replace(command, argv=argv))
        server.pid = web.pid
        supervisor.wait_ready(web, lambda: _missing(server), seconds=SECONDS)
        yield server


def process_of(server):
    """The process that serves, below the one that starts it."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    return int(until(lambda: children.read_text().split())[0])  # none between one and the next


def _missing(server):
    try:
        status, *_ = server.send(path="/livez")
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    return None if status == 200 else str(status)


@pytest.fixture(scope="package")
def web_server(django_db_setup, django_db_blocker, tmp_path_factory, redis_url):
    """One for all tests of this folder that a test process runs."""
    with ExitStack() as stack:
        with django_db_blocker.unblock():
            server = stack.enter_context(started_web(tmp_path_factory.mktemp("web"), redis_url))
        yield server


@pytest.fixture
def token(transactional_db):
    """The header of somebody who may use the API."""
    return f"Authorization: Bearer {make_token(User.objects.create_user('ann'), name='t')}"


@pytest.fixture
def pods():
    with PodServer() as server:
        yield server


@pytest.fixture
def tls_pods(tmp_path):
    with PodServer(certificate=loopback_certificate(tmp_path)) as server:
        yield server


@pytest.fixture
def start_web(transactional_db, tmp_path, redis_url):
    with ExitStack() as stack:

        def start(*, constants="", **settings):
            paths = {"OSMO_KUBECONFIG_PATHS": json.dumps([str(tmp_path)])}
            web = started_web(tmp_path, redis_url, constants=constants, processes=1, **paths | settings)
            return stack.enter_context(web)

        yield start


@pytest.fixture(scope="package")
def start_shared(django_db_setup, django_db_blocker, tmp_path_factory, redis_url):
    """A function that starts one process for all tests of this folder that a test process runs."""
    paths = {"OSMO_KUBECONFIG_PATHS": json.dumps([str(tmp_path_factory.getbasetemp())])}
    with ExitStack() as stack:

        def start(**settings):
            directory = tmp_path_factory.mktemp("sessions")
            with django_db_blocker.unblock():
                web = started_web(directory, redis_url, processes=1, **paths, **settings)
                return stack.enter_context(web)

        yield start


@pytest.fixture(scope="package")
def own(start_shared):
    """Web for the tests that need no settings of their own; kubeconfigs are anywhere."""
    return start_shared()


@pytest.fixture(scope="package")
def strict(start_shared):
    """Web whose users have one session each."""
    return start_shared(OSMO_USER_SESSIONS="1")


@pytest.fixture
def group(transactional_db, pods, tmp_path):
    """A group whose two tasks run, in a pool that allows exec."""
    return running_group(pods, tmp_path)


def running_group(pods, tmp_path):
    backend = BackendFactory(kubeconfig=pods.kubeconfig(tmp_path / "kubeconfig"))
    group = TaskGroupFactory(pool=PoolFactory(backend=backend, allow_exec=True), pods=2, status="RUNNING")
    group.workflow.status = "RUNNING"
    group.workflow.save()
    for task in Task.objects.filter(group=group):
        pods.uids[task.pod_name] = f"uid-{task.pod_name}"
        ObservedPod.objects.create(
            cluster=backend.cluster,
            namespace=group.placement["namespace"],
            name=task.pod_name,
            uid=f"uid-{task.pod_name}",
            group_uuid=group.pk,
            phase="Running",
            seen_at=timezone.now(),
        )
    return group


def login(name):
    user, _ = User.objects.get_or_create(username=name)
    return {"Authorization": f"Bearer {make_token(user, name=f't{time.monotonic_ns()}')}"}


@pytest.fixture
def ann(transactional_db):
    return login("ann")
