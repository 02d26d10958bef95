"""The page of capabilities is the table that refusals read."""

from localcluster.directories import CHECKOUT
from scheduling.backends.registry import collect
from scheduling.capabilities import Capability
from tests.arch.capability_page import page, rows

RENDERINGS = [scheduler.rendering for scheduler in collect(()).values()]
PAGE = CHECKOUT / "docs" / "reference" / "capabilities.md"


def test_the_page_is_the_one_that_is_generated():
    """Write it anew with ``python -m tests.arch.capability_page > docs/reference/capabilities.md``."""
    assert PAGE.read_text() == page(RENDERINGS)


def test_there_is_a_row_for_everything_that_can_refuse():
    table = {row.capability: row.since for row in rows(RENDERINGS)}
    assert list(table) == [*(str(capability) for capability in Capability), "max_levels"]
    assert table["topology.relax_pending"] == {
        "kai": "0.13",
        "kubernetes": "no",
        "kueue": "no",
        "default": "no",
    }
    assert table["max_levels"] == {"kai": "16", "kubernetes": "16", "kueue": "15", "default": "0"}
