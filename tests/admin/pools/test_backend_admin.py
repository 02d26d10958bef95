"""Backends in the admin."""

import pytest

from pools.models import Backend
from tests.admin.pools.conftest import errors_of, fields_of, shown_in_page
from tests.fakes.kai import kai_cluster

pytestmark = pytest.mark.django_db

ADD = "/admin/pools/backend/add/"


def change_of(backend):
    return f"/admin/pools/backend/{backend.pk}/change/"


def test_a_backend_is_added_and_probed(browser):
    fields = fields_of(browser.get(ADD)) | {"name": "kai", "kubeconfig": "/etc/kai"}
    answer = browser.post(ADD, fields)
    assert answer.status_code == 302, errors_of(answer)
    backend = Backend.objects.get()
    assert (backend.scheduler_version, backend.enabled) == ("0.13", True)


def test_an_unchanged_form_changes_nothing(browser, kai):
    fields = fields_of(browser.get(change_of(kai)))
    assert browser.post(change_of(kai), fields).status_code == 302
    assert Backend.objects.get().revision == kai.revision


def test_settings_written_as_yaml_are_saved(browser, kai):
    written = {"queue_settings": "parent: research", "start_barrier": "image: example.com/osmo:1\nlimit: 5m"}
    answer = browser.post(change_of(kai), fields_of(browser.get(change_of(kai))) | written)
    assert answer.status_code == 302, errors_of(answer)
    backend = Backend.objects.get()
    assert backend.queue_settings["parent"] == "research"
    assert backend.start_barrier["image"] == "example.com/osmo:1"
    browser.post(change_of(kai), fields_of(browser.get(change_of(kai))) | {"description": "of all"})
    kept = Backend.objects.get()
    assert (kept.description, kept.queue_settings) == ("of all", backend.queue_settings)
    assert kept.start_barrier == backend.start_barrier


def test_a_scheduler_that_cannot_hold_a_pools_keys_is_told_beside_the_field(browser, pool):
    page = change_of(pool.backend)
    fields = fields_of(browser.get(page)) | {"scheduler_type": "default"}
    found = errors_of(browser.post(page, fields))
    assert list(found) == ["scheduler_type"]
    assert '"train"' in found["scheduler_type"][0]
    assert Backend.objects.get().scheduler_type == "kai"


def test_an_old_kai_is_told_beside_the_scheduler(browser, clusters):
    clusters["/etc/kai"] = kai_cluster(parent=False)
    fields = fields_of(browser.get(ADD)) | {"name": "kai", "kubeconfig": "/etc/kai"}
    found = errors_of(browser.post(ADD, fields))
    assert "0.13" in found["scheduler_type"][0]


def test_an_unreachable_cluster_is_saved_with_a_warning(browser, cluster):
    fields = fields_of(browser.get(ADD)) | {"name": "kai", "kubeconfig": "/etc/kai"}
    with cluster.unreachable():
        answer = browser.post(ADD, fields, follow=True)
    assert Backend.objects.get().conditions[0]["status"] == "False"
    assert shown_in_page(answer, Backend.objects.get().conditions[0]["message"])


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"namespace": "Osmo"}, "namespace"),
        ({"kubeconfig": "relative"}, "kubeconfig"),
        ({"scheduler_timeout": "0"}, "scheduler_timeout"),
        ({"node_conditions": "rule: {}"}, "node_conditions"),
        ({"start_barrier": "limit: 1s"}, "start_barrier"),
        ({"start_barrier": "image: 'a b'"}, "start_barrier"),
    ],
    ids=str,
)
def test_a_fault_is_told_beside_its_field(browser, kai, changes, place):
    fields = fields_of(browser.get(change_of(kai))) | changes
    assert list(errors_of(browser.post(change_of(kai), fields))) == [place]


def test_a_backend_in_use_is_not_deleted(browser, pool):
    page = f"/admin/pools/backend/{pool.backend_id}/delete/"
    answer = browser.post(page, {"post": "yes"}, follow=True)
    assert shown_in_page(answer, "is used by pool train: move or delete it first")
    assert Backend.objects.get().deleted_at is None


def test_a_deleted_backend_is_no_longer_shown(browser, kai):
    page = f"/admin/pools/backend/{kai.pk}/delete/"
    assert browser.post(page, {"post": "yes"}).status_code == 302
    assert Backend.objects.get().deleted_at is not None
    assert not shown_in_page(browser.get("/admin/pools/backend/"), "kai-scheduler")
    assert browser.get(change_of(kai)).status_code == 302
