"""A real API server and kwok's kubelet that end in the middle of sessions, and are started anew."""

import secrets
import time

import pytest
from django.utils import timezone
from websockets.exceptions import ConnectionClosed

from localcluster import build, controlplane, nodes
from localcluster.api import Api
from localcluster.supervisor import Supervisor
from scheduling import names
from tests.builders.osmo_forward import announce, ask_ports, exchanged, minted, socket
from tests.builders.waiting import until
from tests.factories import BackendFactory, PoolFactory, TaskGroupFactory
from tests.web.session_callers import shell
from workflows.models import Event, ObservedPod, Task

API_SERVER = "kube-apiserver"
SECONDS = 120


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A control plane of these tests, and the supervisor of its servers."""
    home = tmp_path_factory.mktemp("sessions-cluster")
    with Supervisor(log_dir=home / "logs") as supervisor:
        plane = controlplane.start(supervisor, directory=home / "cluster", binaries=build.binaries())
        yield plane, supervisor
        supervisor.stop_one(API_SERVER, with_signal=9)  # it would wait for its watches


@pytest.fixture
def servers(started):
    """The same; what a test that failed has left dead is started for the next one."""
    yield started
    plane, supervisor = started
    if supervisor.find(API_SERVER).ending():
        restart_api_server(supervisor)
    if supervisor.find(controlplane.KWOK).ending():
        controlplane.restart_kwok(supervisor, plane)


def restart_api_server(supervisor):
    """Start it again, and wait until it serves: users may open no more than so many sessions a minute."""
    probe = supervisor.find(API_SERVER).probe
    supervisor.wait_ready(supervisor.restart(API_SERVER), probe, seconds=SECONDS)


@pytest.fixture
def running(servers, transactional_db):
    """A group whose task runs there, in a pool that allows everything."""
    plane, _ = servers
    api = Api(plane.access())
    backend = BackendFactory(kubeconfig=str(plane.kubeconfig("admin")))
    pool = PoolFactory(backend=backend, allow_exec=True, allow_port_forward=True)
    group = TaskGroupFactory(pool=pool, pods=1, status="RUNNING")
    group.workflow.status = "RUNNING"
    group.workflow.save()
    task, namespace = Task.objects.get(group=group), group.placement["namespace"]
    made = nodes.rack(f"n{secrets.token_hex(3)}", count=1, gpus=0, labels={})
    nodes.create(api, made)
    nodes.wait_ready(api, made)
    if not api.find(f"/api/v1/namespaces/{namespace}"):
        controlplane.create_namespace(api, namespace)
    path = f"/api/v1/namespaces/{namespace}/pods"
    container = {"name": names.container(task.name), "image": "i"}
    pod = {
        "metadata": {"name": task.pod_name},
        "spec": {"nodeName": made[0].name, "containers": [container]},
    }
    uid = api.create(path, pod)["metadata"]["uid"]
    until(lambda: api.get(f"{path}/{task.pod_name}")["status"]["phase"] == "Running")
    ObservedPod.objects.create(
        cluster=backend.cluster,
        namespace=namespace,
        name=task.pod_name,
        uid=uid,
        group_uuid=group.pk,
        phase="Running",
        seen_at=timezone.now(),
    )
    yield group
    api.close()


def test_an_api_server_that_is_started_anew_in_the_middle(servers, own, running, ann):
    _, supervisor = servers
    with shell(own, running, ann, "cat") as session:
        begin_typing(session)
        supervisor.kill(API_SERVER)
        assert session.wait_closed()[0] == 1011
        assert b"cut off" in session.output
    with shell(own, running, ann, "cat") as session:
        assert session.wait_closed()[0] == 1011
        assert b"cut off: no reply" in session.output
    restart_api_server(supervisor)
    until(lambda: can_type(own, running, ann))
    ended = Event.objects.filter(reason="Session").exclude(message__endswith="in the task.")
    until(lambda: ended.count() == Event.objects.filter(reason="Session").count())


def begin_typing(session):
    """Until the command answers, the API server may still open streams to the kubelet, for up to 30 s."""
    session.type(b"typed\n")
    session.wait_for(b"typed")


def can_type(server, group, who):
    time.sleep(1)  # so that a minute's sessions are not used up
    with shell(server, group, who, "cat") as session:
        try:
            session.type(b"typed\n")
        except ConnectionClosed:  # it is not there yet
            return False
        until(lambda: session.close or b"typed" in session.output)
        return b"typed" in session.output


def test_a_kubelet_that_is_away_is_told_and_serves_again_when_it_is_back(servers, own, running, ann):
    """The session in the middle ends, but without a word: the API server says that its command ended well."""
    plane, supervisor = servers
    with shell(own, running, ann, "cat") as session:
        begin_typing(session)
        supervisor.kill(controlplane.KWOK)
        session.wait_closed()
    with shell(own, running, ann, "cat") as session:
        session.wait_closed()
        assert b"connection refused" in session.output
    controlplane.restart_kwok(supervisor, plane)
    until(lambda: can_type(own, running, ann))


def test_connections_of_a_forward_end_with_the_api_server_and_others_open_behind_it(
    servers, own, running, ann
):
    _, supervisor = servers
    name = running.workflow.name
    answer = ask_ports(f"http://127.0.0.1:{own.port}", name, "task-0", [controlplane.ECHO_PORT], ann)[0]
    with socket(answer, name, ann) as control:

        def connection():
            key = minted()
            announce(control, key)
            return socket(answer, name, ann, key=key)

        with connection() as data:
            assert exchanged(data, b"before") == b"before"
            supervisor.kill(API_SERVER)
            until(lambda: closes(data))
        restart_api_server(supervisor)
        until(lambda: carries(connection))


def closes(data):
    try:
        data.recv(timeout=0.5)
    except TimeoutError:
        return False
    except ConnectionClosed:
        return True
    return False


def carries(connection):
    with connection() as data:
        try:
            return exchanged(data, b"x") == b"x"
        except (ConnectionClosed, TimeoutError):
            return False
