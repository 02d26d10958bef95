"""News of workflows: recorded once with the change, sent to real receivers, and failures that harm nobody."""

import hashlib
import hmac
from ipaddress import ip_network

import pytest

from tests.worker.receivers import mail_receiver, web_receiver
from web.env import environment
from workflows.models import NewsItem, Workflow
from workflows.news import sending
from workflows.tasks import sweep_news


@pytest.fixture
def receiver(monkeypatch):
    with web_receiver() as receiver:
        allow(monkeypatch, receiver)
        yield receiver


def allow(monkeypatch, *receivers):
    origins = [receiver.url.removesuffix("/hook") for receiver in receivers]
    monkeypatch.setattr(environment(), "notify_hosts", origins)
    monkeypatch.setattr(environment(), "notify_networks", [ip_network("127.0.0.0/8")])


def target(receiver, *kinds, **fields):
    return {
        "webhook": getattr(receiver, "url", receiver),
        "email": "",
        "kinds": list(kinds),
        "waits_after": 3600,
        **fields,
    }


def group_with(world, *targets, **changes):
    group = world.group(**changes)
    Workflow.objects.filter(pk=group.workflow_id).update(notify=list(targets))
    return group


def run_to_its_end(world, group):
    world.settle()
    world.finish(group)
    world.settle()


def test_the_end_of_a_workflow_reaches_its_webhook_signed_with_the_users_key(world, receiver):
    group = group_with(world, target(receiver, "ended"))
    run_to_its_end(world, group)
    sweep_news()
    (headers, body), (event,) = receiver.requests[0], receiver.events
    workflow = Workflow.objects.get()
    assert event["specversion"] == "1.0"
    assert event["type"] == "osmo-topology.workflow.ended"
    assert event["id"] == str(NewsItem.objects.get().uuid)
    assert event["data"]["status"] == workflow.status == "COMPLETED"
    assert event["data"]["workflow"]["name"] == workflow.name
    assert event["data"]["groups"] == [{"name": group.name, "status": "COMPLETED"}]
    assert headers["Content-Type"].startswith("application/cloudevents+json")
    key = sending.user_key(workflow.submitted_by).encode()
    assert headers["X-Osmo-Signature-256"] == "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()
    assert NewsItem.objects.get().state == "sent"
