"""A secret is in no log line, no event, no answer and no error, whether things go well or not.

Every secret here is a distinctive word, so that all that was written and answered can be searched for it.
Not secret from a caller are the token that was just made for them and what they wrote themselves.
"""

import base64
import io
import logging

import pytest
from celery import Celery
from django.contrib.auth.models import User
from django.db import DatabaseError, OperationalError, connections
from django.db.utils import ConnectionHandler
from rest_framework.test import APIClient

from cluster.errors import ClusterUnreachable, Invalid, RequestForbidden
from cluster.kinds import POD, SECRET
from pools.models import Backend, ConfigRevision
from pools.services import recording
from tests.api.workflows.specs import alone, text
from tests.factories import PoolFactory, TaskFactory
from tests.worker.world import World
from web.access.services import make_token
from workflows.models import Event, Task, TaskGroup
from workflows.values.placement import File

pytestmark = pytest.mark.django_db

WORD = "hunter2"
MARK = "xyzzy"  # a secret is both, so that neither half is found by chance


def secret(name):
    return f"{WORD}-{name}-{MARK}"


@pytest.fixture
def logs():
    """All that every logger writes, ours and the libraries', in the shape of production, with DEBUG on."""
    out, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(out)
    handler.setFormatter(next(h.formatter for h in root.handlers if type(h) is logging.StreamHandler))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield out
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.fixture
def nothing_told(logs):
    """Afterwards no secret is in the logs, in any event, or in the history of configuration."""
    yield
    written = logs.getvalue()
    assert "request_finished" in written or "database_away" in written or "notification_not_sent" in written
    assert [line for line in written.splitlines() if WORD in line] == []
    assert not Event.objects.filter(message__contains=WORD).exists()
    assert not [row for row in ConfigRevision.objects.all() if WORD in str(row.content)]


@pytest.fixture
def root():
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(User.objects.create_superuser("root"))
    return client


def told(answer, *, status):
    assert answer.status_code == status, answer.content
    assert WORD not in answer.content.decode() + str(dict(answer.headers))
    return answer


PROOF = {"HTTP_X_OSMO_USER": "ann", "HTTP_X_OSMO_PROXY_SECRET": secret("wrong-proof")}


@pytest.mark.usefixtures("nothing_told")
@pytest.mark.parametrize(
    "headers",
    [
        {"HTTP_AUTHORIZATION": f"Bearer {secret('token')}"},
        {"HTTP_AUTHORIZATION": f"Basic {secret('basic')}"},
        {"HTTP_AUTHORIZATION": f"Bearer {secret('token')} {secret('more')}"},
        {"HTTP_COOKIE": f"sessionid={secret('session')}; csrftoken={secret('csrf')}"},
        PROOF,
        PROOF | {"HTTP_X_FORWARDED_FOR": "not an address"},
    ],
    ids=["a wrong token", "a password", "two tokens", "a wrong session", "a wrong proof", "a wrong address"],
)
def test_credentials_that_are_refused(headers, settings):
    settings.TRUSTED_PROXY_SECRETS = [secret("proxy")]
    settings.DEVELOPMENT_LOGIN = False
    for address in ("/api/workflow", "/api/profile/settings", "/metrics"):
        answer = APIClient().get(address, **headers)
        assert answer.status_code in {401, 403}
        assert WORD not in answer.content.decode()


def test_credentials_that_are_accepted(logs, settings):
    settings.TRUSTED_PROXY_SECRETS = [secret("proxy")]
    settings.DEVELOPMENT_LOGIN = False
    token = make_token(User.objects.create_user("ann"), name="laptop")
    proof = {"HTTP_X_OSMO_USER": "bob", "HTTP_X_OSMO_PROXY_SECRET": secret("proxy")}
    for headers in ({"HTTP_AUTHORIZATION": f"Bearer {token}"}, proof):
        told(APIClient().get("/api/profile/settings", **headers), status=200)
        told(APIClient().get("/api/nothing", **headers), status=404)
    made = APIClient().post(
        "/api/auth/access_token/second", HTTP_AUTHORIZATION=f"Bearer {token}", format="json"
    )
    listed = APIClient().get("/api/auth/access_token", HTTP_AUTHORIZATION=f"Bearer {token}")
    new = made.json()["token"] if isinstance(made.json(), dict) else made.json()
    assert made.status_code == 200
    for kept_token in (token, new):
        assert kept_token not in logs.getvalue() + listed.content.decode()
    assert WORD not in logs.getvalue()


@pytest.mark.usefixtures("nothing_told")
def test_a_password_at_the_admins_login(client):
    User.objects.create_superuser("root", password=secret("right-password"))
    for password, status in ((secret("wrong-password"), 200), (secret("right-password"), 302)):
        told(client.post("/admin/login/", {"username": "root", "password": password}), status=status)


HOLDING = {
    "environment": {"PASSWORD": secret("variable")},
    "files": [{"path": "/etc/key", "contents": secret("file")}],
    "args": ["--token", secret("argument")],
}
SPEC = alone(**HOLDING)
PLAIN = text(SPEC)
SENT = {
    "a workflow that is accepted": (PLAIN + "# {{ v|length }}\n", 200),
    "a variable that the text does not have": (PLAIN, 400),
    "a fault beside it": (text(SPEC | {"resources": {"default": {"gpu": "x"}}}), 400),
    "a field that nobody knows beside it": (text(SPEC | {"unknown": 1}), 400),
    "a resource that nobody knows": (text(alone(**HOLDING, resource="no")), 400),
    "YAML that breaks on it": (PLAIN + f'x: "{secret("quote")}\n', 400),
    "YAML that breaks right behind it": (PLAIN + f"x: {secret('colon')}: y\n", 400),
    "a template that fails on it": (PLAIN + "# {{ missing }}\n", 400),
    "a template that is none": (PLAIN + "# {% if %}\n", 400),
}  # fmt: skip


@pytest.mark.usefixtures("nothing_told")
@pytest.mark.parametrize("case", SENT)
def test_secrets_of_a_spec_stay(case, root):
    PoolFactory(name="h100")
    file, status = SENT[case]
    answer = told(
        root.post(
            f"/api/pool/h100/workflow?env_vars=B={secret('query')}",
            {"file": file, "set_variables": [f"v={secret('set')}"]},
            format="json",
        ),
        status=status,
    )
    if status == 200:
        shown = root.get(f"/api/workflow/{answer.json()['name']}").json()
        assert shown.pop("env_vars") == {"B": secret("query")}  # the caller's own, like the spec
        assert WORD not in str(shown)
        assert WORD not in b"".join(root.get(f"/api/workflow/{shown['name']}/events")).decode()


REFUSALS = {
    "all goes well": [],
    "a pod that is refused": [(POD, Invalid("spec.containers[0].image: Required value", status=422))],
    "a Secret that is refused": [(SECRET, RequestForbidden("exceeded quota", status=403))],
    "a server that does not answer": [(POD, ClusterUnreachable("no connection: refused"))],
}


@pytest.mark.parametrize("case", REFUSALS)
def test_secrets_that_a_worker_carries_into_the_cluster_stay(case, root, logs):
    world = World()
    group = world.group(pods=0)
    TaskFactory(
        group=group,
        lead=True,
        placement__environment={"PASSWORD": secret("variable")},
        placement__args=("--token", secret("argument")),
        placement__files=(File(path="/etc/key", contents=secret("file")),),
    )
    logs.truncate(0)  # what the factory wrote of what it made
    for kind, error in REFUSALS[case]:
        world.cluster.fail(error, kind=kind, times=3)
    world.settle()
    kept = [base64.b64decode(text) for obj in world.cluster.all(SECRET) for text in obj["data"].values()]
    assert kept in ([], [secret("file").encode()])
    world.finish(group, 1)
    world.settle()
    assert Event.objects.exists()
    found = [
        *Event.objects.values(),
        *TaskGroup.objects.values("failure_message", "waiting_reason", "stop_message", "conditions"),
        *Task.objects.values("failure_message"),
    ]
    assert WORD not in str(found) + logs.getvalue()
    told(root.get(f"/api/workflow/{group.workflow.name}"), status=200)


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "SERVER"}}]
users: [{name: u, user: {USER}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
TOKEN = f"token: {secret('token')}"
BASE64 = f"client-certificate-data: '{secret('cert')}', client-key-data: '{secret('key')}'"
WITH_PASSWORD = f"https://u:{secret('password')}@127.0.0.1:1"
FILES = {
    "a token": KUBECONFIG.replace("USER", TOKEN).replace("SERVER", "https://127.0.0.1:1"),
    "a password in the address": KUBECONFIG.replace("USER", "token: t").replace("SERVER", WITH_PASSWORD),
    "a certificate that is none": KUBECONFIG.replace("USER", BASE64).replace("SERVER", WITH_PASSWORD),
    "no kubeconfig at all": f"root:{secret('shadow')}:0:0\n",
    "a tag": f"a: !{secret('tag')} b",
    "an alias": f"a: *{secret('alias')}",
    "a list": f"- {secret('entry')}",
    "broken YAML": f"users:\n - token: {secret('token')}: x\n",
    "an address that is a list": KUBECONFIG.replace("USER", TOKEN).replace('"SERVER"', "[1]"),
}


@pytest.mark.usefixtures("nothing_told")
@pytest.mark.parametrize("case", FILES)
def test_secrets_of_a_kubeconfig_stay(case, root, tmp_path):
    (tmp_path / "kubeconfig").write_text(FILES[case])
    document = {"kubeconfig": str(tmp_path / "kubeconfig")}
    told(root.put("/api/configs/backend/gpu", {"configs": document}, format="json"), status=200)
    shown = told(root.get("/api/configs/backend/gpu"), status=200).json()
    assert {c["status"] for c in shown["conditions"] if c["type"] == "Reachable"} == {"False"}
    assert WORD not in str(Backend.objects.values().get())


VIEWS = {
    "/api/workflow": "workflows.api.views.selectors",
    "/api/pool": "pools.api.views.selectors",
    "/api/configs/backend": "pools.api.views.selectors",
    "/api/profile/settings": "pools.api.profile.selectors",
}


@pytest.mark.parametrize("address", VIEWS)
@pytest.mark.parametrize("error", [DatabaseError, KeyError, RuntimeError, OperationalError])
def test_a_fault_inside_is_an_id_and_nothing_else(address, error, root, monkeypatch):
    def fail(*_args, **_options):
        raise error(f'duplicate key DETAIL: Failing row contains ({secret("row")}) at "SELECT * FROM x"')

    class Broken:
        def __getattr__(self, _name):
            return fail

    monkeypatch.setattr(VIEWS[address], Broken())
    answer = told(root.get(address), status=503 if error is OperationalError else 500)
    assert answer.json()["request_id"]
    assert answer.json()["details"] == []
    assert error.__name__ not in answer.content.decode()
    assert "SELECT" not in answer.content.decode()


def unreachable():
    """Settings of the database with a password, at an address where nothing listens."""
    own = connections["default"].settings_dict
    return {**own, "HOST": "127.0.0.1", "PORT": "1", "PASSWORD": secret("database"), "USER": "osmo"}


@pytest.mark.usefixtures("nothing_told")
def test_the_password_of_the_database(root, monkeypatch):
    away = ConnectionHandler({"default": unreachable()})["default"]

    def fail(*_args, **_options):
        away.ensure_connection()

    monkeypatch.setattr("workflows.api.views.selectors.workflow_visible_to", fail, raising=False)
    monkeypatch.setattr("pools.api.profile.selectors.pools_allowed_to", fail)
    told(root.get("/api/profile/settings"), status=503)


@pytest.mark.usefixtures("nothing_told")
def test_the_password_of_redis(root, monkeypatch, django_capture_on_commit_callbacks):
    broken = Celery(broker=f"redis://:{secret('redis')}@127.0.0.1:1/0", set_as_current=False)
    broken.conf.update(broker_transport_options={"max_retries": 0}, task_publish_retry=False)
    monkeypatch.setattr(recording, "current_app", broken)
    with django_capture_on_commit_callbacks(execute=True):
        recording.enqueue("pools.sync_backend", 1)
