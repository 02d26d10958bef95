"""A submission's start barrier: frozen with the group, or a warning for who asks in vain."""

import pytest
from celery import current_app

from tests.api.workflows.specs import gang, text
from tests.factories import BackendFactory, NodeFactory, PoolFactory
from workflows.models import TaskGroup
from workflows.services import queue
from workflows.values.placement import GroupPlacement

pytestmark = pytest.mark.django_db
IMAGE = "registry.example.com/osmo:1"


@pytest.fixture
def submit(api, monkeypatch):
    """Submit a gang of two; the warnings of the reply, and the barrier that is frozen."""
    monkeypatch.setattr(queue, "length", lambda: 0)
    queue.forget()
    monkeypatch.setattr(current_app, "send_task", lambda *_, **__: None)

    def post(*, settings=None, scheduler="kai", **fields):
        backend = BackendFactory(scheduler_type=scheduler, start_barrier=settings or {})
        PoolFactory(name="h100", backend=backend)
        NodeFactory(cluster=backend.cluster)
        workflow = gang(2)
        workflow["groups"][0] |= fields
        reply = api.post("/api/pool/h100/workflow", {"file": text(workflow)}, format="json")
        assert reply.status_code == 200, reply.json()
        row = TaskGroup.objects.get()
        frozen = GroupPlacement.from_json(row.placement).start_barrier
        return [w for w in reply.json()["warnings"] if "barrier" in w], frozen

    return post


def test_a_gang_of_a_backend_with_an_image_gets_one(submit):
    warnings, frozen = submit(settings={"image": IMAGE, "limit": "2m"})
    assert (warnings, frozen.image, frozen.limit) == ([], IMAGE, 120.0)
    assert frozen.command == ("python", "-S", "-m", "barrier")


def test_the_image_of_the_installation_is_the_default(submit, settings, monkeypatch):
    monkeypatch.setattr(settings.ENV, "barrier_image", IMAGE)
    assert submit()[1].image == IMAGE


def test_a_backend_may_have_none_where_the_installation_has_one(submit, settings, monkeypatch):
    monkeypatch.setattr(settings.ENV, "barrier_image", IMAGE)
    assert submit(settings={"enabled": False}) == ([], None)


def test_a_spec_that_does_not_ask_for_a_barrier_gets_no_warning(submit):
    assert submit() == ([], None)


def test_a_spec_that_asks_for_a_barrier_in_vain_is_warned(submit):
    (warning,), frozen = submit(barrier=True)
    assert frozen is None
    assert "has no image for a start barrier" in warning


def test_a_spec_that_declines_the_barrier_gets_none(submit):
    assert submit(settings={"image": IMAGE}, barrier=False) == ([], None)


def test_a_scheduler_without_gangs_has_a_barrier_only_for_a_spec_that_asks(submit):
    assert submit(settings={"image": IMAGE}, scheduler="default") == ([], None)


def test_a_spec_that_asks_a_scheduler_without_gangs_is_warned(submit):
    (warning,), frozen = submit(settings={"image": IMAGE}, scheduler="default", barrier=True)
    assert frozen.image == IMAGE
    assert "does not place all tasks" in warning
