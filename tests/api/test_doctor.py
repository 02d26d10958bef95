"""Consistency checks over REST: one at a time, run by a worker, for administrators."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework.test import APIClient

from doctor import services
from doctor.models import ConsistencyCheck

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_second_reading(monkeypatch):
    monkeypatch.setattr(services, "CONFIRM_SECONDS", 0)


@pytest.fixture
def operator():
    client = APIClient()
    client.force_authenticate(User.objects.create_user("root", is_staff=True))
    return client


def test_a_request_returns_the_unfinished_check_and_then_its_report(operator):
    first = operator.post("/api/doctor").json()
    assert (first["requested_by"], first["began_at"], first["report"]) == ("root", None, None)
    assert operator.post("/api/doctor").json()["id"] == first["id"]

    services.run_check(first["id"])
    ended = operator.get(f"/api/doctor/{first['id']}").json()
    assert ended["ended_at"]
    assert (ended["failure"], ended["report"]["exit_code"], ended["report"]["findings"]) == (None, 0, [])
    assert operator.post("/api/doctor").json()["id"] > first["id"]


def test_a_message_that_comes_twice_makes_one_check(operator):
    number = operator.post("/api/doctor").json()["id"]
    services.run_check(number)
    (report, ended) = ConsistencyCheck.objects.values_list("report", "ended_at").get()
    services.run_check(number)
    assert list(ConsistencyCheck.objects.values_list("report", "ended_at")) == [(report, ended)]


def test_a_check_that_fails_or_whose_worker_died_is_ended_and_says_so(operator, monkeypatch):
    def fail(**_):
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr(services, "check", fail)
        number = operator.post("/api/doctor").json()["id"]
        with pytest.raises(RuntimeError):
            services.run_check(number)
    assert "failed" in operator.get(f"/api/doctor/{number}").json()["failure"]

    stuck = operator.post("/api/doctor").json()["id"]
    long_ago = timezone.now() - services.ABANDONED_AFTER - timedelta(seconds=1)
    ConsistencyCheck.objects.filter(pk=stuck).update(requested_at=long_ago, began_at=long_ago)
    assert operator.post("/api/doctor").json()["id"] > stuck
    assert "No worker" in operator.get(f"/api/doctor/{stuck}").json()["failure"]


def test_no_more_than_a_few_checks_are_stored(operator, monkeypatch):
    monkeypatch.setattr(services, "MOST_STORED", 2)
    for _ in range(4):
        services.run_check(operator.post("/api/doctor").json()["id"])
    assert ConsistencyCheck.objects.count() == 2


def test_a_report_is_bounded_and_still_counts_everything(monkeypatch):
    monkeypatch.setattr(services, "MOST_FINDINGS", 2)
    report = services.bounded({"findings": [1, 2, 3], "counts": {"lost": 3}})
    assert report == {"findings": [1, 2], "counts": {"lost": 3}, "findings_left_out": 1}


def test_asking_too_often_is_told_when_to_come_back(operator):
    answers = [operator.post("/api/doctor") for _ in range(8)]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert answers[-1].headers["Retry-After"]


@pytest.mark.parametrize("number", [0, 2**31, 2**63, 2**200, "x", "%C2%B2", "-1", "%00"])
def test_a_check_that_does_not_exist_is_a_404(operator, number):
    assert operator.get(f"/api/doctor/{number}").status_code == 404
