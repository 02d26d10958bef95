"""The pages on schedulers name every one that is built in and every member that a new one needs."""

from localcluster.directories import CHECKOUT
from scheduling.backends import facets
from scheduling.backends.registry import BUILT_IN, GROUP

DOCS = CHECKOUT / "docs"
BUILT_IN_PAGE = (DOCS / "reference" / "schedulers.md").read_text()
HOW_TO = (DOCS / "how-to" / "add-a-scheduler.md").read_text()


def test_every_member_of_the_interface_is_told():
    classes = [kind for kind in vars(facets).values() if getattr(kind, "__module__", "") == facets.__name__]
    facets_and_record = [kind for kind in classes if isinstance(kind, type)]
    members = {name for kind in facets_and_record for name in vars(kind) if not name.startswith("_")}
    assert sorted(name for name in members if f"`{name}`" not in HOW_TO) == []
    assert len(facets_and_record) == 11  # eight facets with methods, topology objects, traits, the record


def test_every_built_in_scheduler_has_a_section():
    assert [scheduler.name for scheduler in BUILT_IN if f"\n## {scheduler.name}\n" not in BUILT_IN_PAGE] == []
    assert GROUP in HOW_TO
