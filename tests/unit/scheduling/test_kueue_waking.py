"""Waking a waiting Workload: where Kueue does not look again by itself, bounded, and above any timeout."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduling.backends.kueue import Kueue
from scheduling.backends.kueue.waking import FIRST_AFTER, FOREVER, MOST
from scheduling.capabilities import SchedulerVersion

KUEUE = Kueue()
BEGAN = datetime(2026, 11, 28, 12, tzinfo=UTC)
ASLEEP = SchedulerVersion(0, 17)
NO_ROOM = 'couldn\'t assign flavors to pod set s-1: topology "t" allows to fit only 1 out of 2 pod(s)'
NO_QUOTA = (
    "couldn't assign flavors to pod set s-1: insufficient unused quota for cpu in flavor f, 1 more needed"
)


def workload(message=NO_ROOM, *, status="False", wakes=0, generation=1, observed=1):
    condition = {
        "type": "QuotaReserved",
        "status": status,
        "reason": "Pending",
        "message": message,
        "lastTransitionTime": "2026-11-28T12:00:00Z",
        "observedGeneration": observed,
    }
    spec = {"maximumExecutionTimeSeconds": FOREVER + wakes} if wakes else {}
    return {"metadata": {"generation": generation}, "spec": spec, "status": {"conditions": [condition]}}


def wake(obj, *, version=ASLEEP, seconds=FIRST_AFTER):
    return KUEUE.wake(obj, version=version, now=BEGAN + timedelta(seconds=seconds))


def test_a_workload_without_room_is_changed_by_a_field_that_means_nothing():
    assert wake(workload()) == {"spec": {"maximumExecutionTimeSeconds": FOREVER + 1}}
    assert timedelta(seconds=FOREVER) > timedelta(days=60 * 365)
    assert FOREVER + MOST < 2**31


@pytest.mark.parametrize("version", ["0.15", "0.17", "0.18"])
def test_these_versions_do_not_look_again(version):
    assert wake(workload(), version=SchedulerVersion.parse_known(version)) is not None


@pytest.mark.parametrize("version", ["0.18.5", "0.19", ""])
def test_a_version_that_looks_again_by_itself_is_never_woken(version):
    assert wake(workload(), version=SchedulerVersion.parse_known(version)) is None


LEFT_ALONE = {
    "short of quota": workload(NO_QUOTA),
    "with room": workload("", status="True"),
    "not considered yet": {"spec": {}, "status": {}},
    "not looked at since the last wake": workload(generation=2, observed=1),
    "woken often enough": workload(wakes=MOST),
}


@pytest.mark.parametrize("phrase", LEFT_ALONE)
def test_a_workload_is_left_alone(phrase):
    assert wake(LEFT_ALONE[phrase], seconds=10**9) is None


def test_each_wake_needs_twice_the_wait_of_the_last():
    assert wake(workload(), seconds=FIRST_AFTER - 1) is None
    assert wake(workload(wakes=3), seconds=FIRST_AFTER * 8 - 1) is None
    assert wake(workload(wakes=3), seconds=FIRST_AFTER * 8) == {
        "spec": {"maximumExecutionTimeSeconds": FOREVER + 4}
    }
