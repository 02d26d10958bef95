"""The pages on schedulers name every one that is built in and every member that a new one needs."""

from localcluster.directories import CHECKOUT
from scheduling.backends.base import SchedulerBackend, TopologyOwner
from scheduling.backends.registry import BUILT_IN, GROUP

DOCS = CHECKOUT / "docs"
BUILT_IN_PAGE = (DOCS / "reference" / "schedulers.md").read_text()
HOW_TO = (DOCS / "how-to" / "add-a-scheduler.md").read_text()


def test_every_member_of_the_interface_is_told():
    for interface in (SchedulerBackend, TopologyOwner):
        members = [name for name in vars(interface) if not name.startswith("_")]
        assert [name for name in members if f"`{name}`" not in HOW_TO] == []


def test_every_built_in_scheduler_has_a_section():
    assert [make.name for make in BUILT_IN if f"\n## {make.name}\n" not in BUILT_IN_PAGE] == []
    assert GROUP in HOW_TO
