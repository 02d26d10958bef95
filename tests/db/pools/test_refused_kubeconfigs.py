"""A kubeconfig that would run a program, or is no file, is refused at every door, which says what to give."""

import os
from io import StringIO

import pytest
import yaml
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from rest_framework.test import APIClient

from cluster.connection import Access
from cluster.gateway import ClusterGateway
from pools import services, tasks
from pools.models import Backend
from pools.services import declared
from scheduling.errors import InvalidSpec

pytestmark = pytest.mark.django_db

ADMIN = services.ConfigChange(username="root")
SENTENCES = {
    "program": "the service runs none: give a kubeconfig with a service account's token",
    "pipe": "is a named pipe and no regular file: give a regular file of at most 1 MiB below one of",
}


@pytest.fixture
def ran(tmp_path):
    """A file that the program would make."""
    return tmp_path / "ran"


@pytest.fixture(params=SENTENCES)
def kind(request):
    return request.param


@pytest.fixture
def kubeconfig(tmp_path, clusters, ran, kind):
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(ran)]}
    content = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "main",
        "users": [{"name": "u", "user": {"exec": program}}],
    }
    path = tmp_path / "kubeconfig"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text(yaml.safe_dump(content))
    clusters[str(path)] = ClusterGateway(Access(str(path)))
    return str(path)


@pytest.fixture
def file(tmp_path, kubeconfig):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"backends": {"east": {"kubeconfig": kubeconfig}}}))
    return path


@pytest.fixture
def root(db):
    return User.objects.create_superuser("root", password="root")


@pytest.fixture
def given(kubeconfig, file, root, settings):
    return {"kubeconfig": kubeconfig, "file": file, "root": root, "settings": settings}


def by_services(kubeconfig, **_):
    with pytest.raises(InvalidSpec) as refused:
        services.put_backend(name="east", document={"kubeconfig": kubeconfig}, change=ADMIN)
    (fault,) = refused.value.faults
    return f"{fault.code} {fault.message}"


def by_a_change(kubeconfig, **_):
    services.put_backend(name="other", document={"kubeconfig": "/etc/kai"}, change=ADMIN)
    with pytest.raises(InvalidSpec) as refused:
        services.post_backend(name="other", changes={"kubeconfig": kubeconfig}, change=ADMIN)
    assert Backend.objects.get(name="other").kubeconfig == "/etc/kai"
    return refused.value.message


def by_rest(kubeconfig, root, **_):
    client = APIClient()
    client.force_authenticate(root)
    configs = {"configs": {"kubeconfig": kubeconfig}}
    dry_run = client.put("/api/configs/backend/east?dry_run=true", configs, format="json")
    assert dry_run.status_code == 400
    answers = [
        send("/api/configs/backend/east", configs, format="json") for send in (client.put, client.post)
    ]
    assert [answer.status_code for answer in answers] == [400, 400]
    return answers[0].json()["message"]


def by_the_admin(kubeconfig, root, **_):
    client = Client()
    client.force_login(root)
    data = {"name": "east", "kubeconfig": kubeconfig, "namespace": "osmo", "scheduler_type": "kai"}
    more = {"scheduler_timeout": 30, "enabled": "on"}
    answer = client.post("/admin/pools/backend/add/", data | more)
    assert answer.status_code == 200
    return answer.content.decode().replace("&#x27;", "'")


def by_import(file, **_):
    with pytest.raises(CommandError) as refused:
        call_command("import_config", str(file), stdout=StringIO(), stderr=StringIO())
    return str(refused.value)


def by_the_declared_file(file, settings, **_):
    settings.ENV = settings.ENV.model_copy(update={"topology_config_file": str(file)})
    condition = declared.apply()
    assert condition["status"] == "False"
    return condition["message"]


DOORS = [by_services, by_a_change, by_rest, by_the_admin, by_import, by_the_declared_file]


@pytest.mark.parametrize("door", DOORS)
def test_no_door_takes_it(door, given, ran, kind):
    told = door(**given)
    assert SENTENCES[kind] in told
    assert not Backend.objects.filter(name="east").exists()
    assert not ran.exists()


def test_a_file_that_changes_under_a_backend_is_refused_when_it_is_used(kubeconfig, clusters, ran, kind):
    working = clusters["/etc/kai"]
    gateway, clusters[kubeconfig] = clusters[kubeconfig], working
    backend = services.put_backend(name="east", document={"kubeconfig": kubeconfig}, change=ADMIN).value
    clusters[kubeconfig] = gateway
    saved = services.post_backend(name="east", changes={"description": "x"}, change=ADMIN).value
    assert saved.description == "x"  # what is saved about it otherwise is not at fault
    tasks.probe_backend(backend.pk)
    (reachable,) = [c for c in Backend.objects.get().conditions if c["type"] == "Reachable"]
    assert reachable["status"] == "False"
    assert SENTENCES[kind].partition(":")[0] in reachable["message"]
    assert not ran.exists()
