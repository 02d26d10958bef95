"""A field that is accepted at one version of a scheduler is rendered at that version."""

import pytest

from scheduling.backends.by_table import ByTable
from scheduling.backends.default import Default
from scheduling.capabilities import Capability, SchedulerVersion
from scheduling.errors import UnsupportedCapability
from tests.unit.scheduling.build import gang, levels, request

LEVELS = levels("zone rack")
GANG = gang("a b: rack? r1")


class Growing(Default):
    """A scheduler that learned to prefer domains with its second version."""

    name = "growing"
    oldest = SchedulerVersion(1, 0)
    needs = {
        Capability.GANG: SchedulerVersion(1, 0),
        Capability.TOPOLOGY_REQUIRED: SchedulerVersion(1, 0),
        Capability.TOPOLOGY_PREFERRED: SchedulerVersion(2, 0),
    }
    max_levels = 4


@pytest.fixture
def scheduler():
    return Growing()


@pytest.mark.parametrize("version", [SchedulerVersion(2, 0), SchedulerVersion(2, 5)])
def test_a_newer_version_renders_the_fields_that_it_accepts(scheduler: ByTable, version):
    check = scheduler.check(GANG, LEVELS, capabilities=scheduler.capabilities(version))
    assert check.faults == ()
    tree = scheduler.tree(request(GANG, LEVELS, version=version))
    assert tree.root.constraint.preferred == 1


@pytest.mark.parametrize("version", [SchedulerVersion(1, 0), None], ids=["an old one", "none is known"])
def test_a_field_that_an_older_version_lacks_is_never_rendered(scheduler: ByTable, version):
    with pytest.raises(UnsupportedCapability):
        scheduler.tree(request(GANG, LEVELS, version=version))
