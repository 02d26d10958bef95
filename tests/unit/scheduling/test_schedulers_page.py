"""The page on schedulers tells whoever adds one of everything that is asked of it."""

from pathlib import Path

from scheduling.backends.base import SchedulerBackend, TopologyOwner
from scheduling.backends.registry import BUILT_IN, GROUP

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "schedulers.md").read_text()


def test_every_member_of_the_interface_is_told():
    for interface in (SchedulerBackend, TopologyOwner):
        members = [name for name in vars(interface) if not name.startswith("_")]
        assert [name for name in members if f"`{name}`" not in PAGE] == []


def test_every_built_in_scheduler_has_a_section():
    assert [make.name for make in BUILT_IN if f"\n## {make.name}\n" not in PAGE] == []
    assert GROUP in PAGE
