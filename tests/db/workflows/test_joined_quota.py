"""The quota of somebody else's queue in the verdict on a group that joins it."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from tests.builders.joined_queues import put_workload, queued_gang
from workflows.feasibility.verdict.report import feasibility
from workflows.models import ObservedObject
from workflows.selectors import group_values
from workflows.values.placement import GroupPlacement

pytestmark = pytest.mark.django_db
ADMITTED = ("QuotaReserved", "Admitted")


@pytest.fixture
def group():
    """All of the queue's GPUs are reserved."""
    return queued_gang(used=8)


def answers(group):
    """The verdict and its part on quota."""
    values = group_values(group, GroupPlacement.from_json(group.placement))
    root = User.objects.get_or_create(username="root", is_superuser=True)[0]
    (report,) = feasibility([values], cluster=group.backend.cluster_id, user=root, now=timezone.now())
    return str(report.verdict.answer), str(report.verdict.quota.answer)


def test_reservations_of_others_leave_no_quota(group):
    put_workload(group)
    assert answers(group) == ("not_now", "short")


def test_a_reservation_of_the_group_itself_is_not_in_its_way(group):
    put_workload(group, *ADMITTED)
    assert answers(group) == ("now", "admits")


def test_a_workload_in_another_namespace_is_not_the_groups(group):
    put_workload(group, *ADMITTED, namespace="elsewhere")
    assert answers(group) == ("not_now", "short")


RESERVING = {
    "its admission checks are not done": [{"type": "QuotaReserved", "status": "True"}],
    "it is evicted, and its pods are not gone": [
        *({"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")),
        {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "m"},
    ],
}


@pytest.mark.parametrize("case", RESERVING)
def test_flavors_reservation_holds_the_group_from_its_reservation_on(group, case):
    put_workload(group, *ADMITTED)
    ObservedObject.objects.update(digest={"status": {"conditions": RESERVING[case]}})
    assert answers(group) == ("now", "admits")
