"""Staff see the suspect nodes and may trust one again."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from pools.models import Cluster, NodeFailure, SuspectNode

ADDRESS = "/admin/pools/suspectnode/"


@pytest.fixture
def suspect(kai):
    cluster = kai.cluster or Cluster.objects.create(pk="uid-of-suspects")
    type(kai).objects.filter(pk=kai.pk).update(cluster=cluster)
    now = timezone.now()
    failure = {"node": "node-7", "group_uuid": "7b7c7a1e-0000-4000-8000-000000000001", "fault": "node_lost"}
    NodeFailure.objects.create(cluster=cluster, username="ann", at=now, **failure)
    times = {"since": now, "until": now + timedelta(days=1)}
    return SuspectNode.objects.create(
        cluster=cluster, node="node-7", groups=2, users=2, faults=["node_lost"], **times
    )


def test_the_list_names_suspect_nodes_and_their_backends(browser, suspect):
    page = browser.get(ADDRESS).content.decode()
    assert "node-7" in page
    assert "kai" in page


def test_a_node_whose_suspicion_has_ended_is_not_listed(browser, suspect):
    SuspectNode.objects.update(until=timezone.now())
    assert "node-7" not in browser.get(ADDRESS).content.decode()


def test_a_button_trusts_a_node_again(browser, suspect):
    address = f"{ADDRESS}{suspect.pk}/trust/"
    assert "Trust node node-7 again" in browser.get(address).content.decode()
    assert SuspectNode.objects.exists()
    assert browser.post(address).url == ADDRESS
    assert not SuspectNode.objects.exists()
    assert not NodeFailure.objects.exists()


def test_one_that_no_backend_leads_to_is_left(browser, suspect, kai):
    type(kai).objects.filter(pk=kai.pk).update(deleted_at=timezone.now())
    page = browser.post(f"{ADDRESS}{suspect.pk}/trust/").content.decode()
    assert "No backend leads to its cluster any more." in page
    assert SuspectNode.objects.exists()


def test_a_user_who_is_no_staff_cannot(suspect):
    browser = Client()
    browser.force_login(User.objects.create_user("bob"))
    assert browser.post(f"{ADDRESS}{suspect.pk}/trust/").status_code == 302
    assert SuspectNode.objects.exists()
