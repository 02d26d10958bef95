"""Cancelling a workflow and submitting it again from its page: asked first, and only by whom REST lets."""

import re
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client

from pools.clusters import connect
from tests.api.workflows.specs import gang, text
from tests.factories import PoolFactory, TaskGroupFactory, WorkflowFactory
from tests.fakes.cluster import FakeCluster
from web.models import Role
from workflows.models import TaskGroup, Workflow

pytestmark = pytest.mark.django_db


@pytest.fixture
def strict():
    """A browser of Ann's whose forms are checked as in production."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_user("ann"))
    return client


@pytest.fixture
def workflow():
    pool = PoolFactory(name="train")
    return TaskGroupFactory(pool=pool, workflow=WorkflowFactory(pool=pool, spec=text(gang(2)))).workflow


def send(client, address, **fields):
    """Send a form as a browser does."""
    return client.post(address, urlencode(fields), content_type="application/x-www-form-urlencoded")


def token(client, address):
    page = client.get(address).content.decode()
    return re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[-1]


def test_a_workflow_is_cancelled_after_asking(strict, workflow):
    address = f"/ui/workflows/{workflow.name}/cancel"
    assert f'href="{address}"' in strict.get(f"/ui/workflows/{workflow.name}").content.decode()
    answer = send(strict, address, csrfmiddlewaretoken=token(strict, address), message="wrong data")
    assert (answer.status_code, answer["Location"]) == (303, f"/ui/workflows/{workflow.name}")
    group = TaskGroup.objects.get(workflow=workflow)
    assert (group.stop_status, group.stop_message) == ("FAILED_CANCELED", "Cancelled by ann: wrong data")


@pytest.mark.parametrize("what", ["cancel", "again"])
def test_a_form_of_another_site_does_nothing(strict, workflow, what):
    answer = send(strict, f"/ui/workflows/{workflow.name}/{what}", message="x")
    assert answer.status_code == 403
    assert Workflow.objects.count() == 1
    assert not TaskGroup.objects.exclude(stop_status="").exists()


@pytest.mark.parametrize("what", ["cancel", "again"])
def test_a_gateways_word_does_not_make_up_for_the_form(workflow, settings, what):
    settings.TRUSTED_PROXY_SECRETS = ["s" * 32]
    headers = {"x-osmo-user": "eve", "x-osmo-roles": "osmo-user", "x-osmo-proxy-secret": "s" * 32}
    client = Client(enforce_csrf_checks=True, headers=headers)
    assert client.get(f"/ui/workflows/{workflow.name}").status_code == 200
    assert send(client, f"/ui/workflows/{workflow.name}/{what}").status_code == 403


def test_a_reader_is_not_offered_the_actions_that_are_refused_to_them(strict, workflow, settings):
    settings.DEFAULT_ROLES = []
    policies = [{"actions": ["workflow:Read"], "resources": ["pool/train"]}]
    Role.objects.create(name="reader", policies=policies)
    User.objects.get(username="ann").role_assignments.create(role="reader")
    page = strict.get(f"/ui/workflows/{workflow.name}").content.decode()
    for what in ("cancel", "again"):
        address = f"/ui/workflows/{workflow.name}/{what}"
        assert address not in page
        assert strict.get(address).status_code == 403


def test_a_workflow_that_has_ended_is_not_cancelled(strict, workflow):
    address = f"/ui/workflows/{workflow.name}/cancel"
    said = token(strict, address)
    Workflow.objects.filter(pk=workflow.pk).update(status="COMPLETED")
    workflow.groups.update(status="COMPLETED")
    answer = send(strict, address, csrfmiddlewaretoken=said)
    assert answer.status_code == 409
    assert "has already ended" in answer.content.decode()
    assert address not in strict.get(f"/ui/workflows/{workflow.name}").content.decode()


def test_a_workflow_is_submitted_again_as_a_new_one_of_whoever_asks(strict, workflow, monkeypatch):
    monkeypatch.setattr(connect, "connect", lambda *args: FakeCluster())
    address = f"/ui/workflows/{workflow.name}/again"
    answer = send(strict, address, csrfmiddlewaretoken=token(strict, address))
    assert answer.status_code == 303, answer.content.decode()
    made = Workflow.objects.exclude(pk=workflow.pk).get()
    assert answer["Location"] == f"/ui/workflows/{made.name}"
    assert (made.submitted_by, made.spec) == ("ann", workflow.spec)


def test_a_form_that_is_sent_twice_submits_once(strict, workflow, monkeypatch):
    monkeypatch.setattr(connect, "connect", lambda *args: FakeCluster())
    address = f"/ui/workflows/{workflow.name}/again"
    said = token(strict, address)
    answers = [send(strict, address, csrfmiddlewaretoken=said, key="once") for _ in range(2)]
    assert answers[0]["Location"] == answers[1]["Location"]
    assert Workflow.objects.count() == 2


def test_a_form_with_more_than_it_has_is_refused(strict, workflow):
    address = f"/ui/workflows/{workflow.name}/cancel"
    answer = send(strict, address, csrfmiddlewaretoken=token(strict, address), user="bob")
    assert answer.status_code == 400
