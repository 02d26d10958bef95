"""The desk: what is wrong with pools and backends at a glance, and what their pages tell."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from localcluster.directories import CHECKOUT
from pools.conditions.advice import GOOD_STATUS, LABELS, TO_DO
from pools.interfaces import ObservedComputeDomain
from tests.admin.pools.conftest import shown_in_page
from tests.factories import LEVELS, BackendFactory, PoolFactory

pytestmark = pytest.mark.django_db

DOCS = CHECKOUT / "docs"


def condition(kind, status, reason, message=""):
    since = "2026-01-01T00:00:00"
    told = {"type": kind, "status": status, "reason": reason, "message": message}
    return told | {"lastTransitionTime": since, "observedRevision": 1}


def test_the_first_page_tells_what_is_wrong_where_and_what_to_do(browser):
    wrong = [condition("TopologyDrift", "True", "Drift", "Topology <t> lists rack.")]
    backend = BackendFactory(name="kai")
    pool = PoolFactory(name="train", backend=backend, conditions=wrong, levels=LEVELS)
    page = browser.get("/admin/")
    assert shown_in_page(page, "wrong: Topology drifts TopologyDrift, Drift")
    assert shown_in_page(page, "set the pool's keys to its levels")
    assert shown_in_page(page, "zone → rack → clique")
    assert shown_in_page(page, "KAI 0.13")
    text = page.content.decode()
    assert "Topology &lt;t&gt; lists rack." in text
    assert f'href="/admin/pools/pool/{pool.pk}/change/#condition-TopologyDrift"' in text
    assert 'href="/ui/pools/train"' in text


def test_what_was_wrong_before_the_pool_was_saved_is_being_checked(browser):
    """Nothing is called wrong, or well, on what the pool was before its correction."""
    wrong = [condition("TopologyDrift", "True", "Drift", "Topology t lists rack.")]
    PoolFactory(name="train", backend=BackendFactory(), conditions=wrong, levels=LEVELS, revision=2)
    page = browser.get("/admin/")
    assert shown_in_page(page, "being checked: Topology in step?")
    assert not shown_in_page(page, "set the pool's keys to its levels")


def test_the_first_page_says_so_if_all_is_well(browser, kai):
    kai.conditions = [condition("Reachable", "True", "Answered")]
    kai.save(update_fields=["conditions"])
    assert shown_in_page(browser.get("/admin/"), "Nothing: every condition is good.")


def test_the_gravest_comes_first(browser):
    backend = BackendFactory()
    PoolFactory(name="a-good-one", backend=backend)
    PoolFactory(name="z-bad-one", backend=backend, conditions=[condition("NodesShared", "True", "X")])
    pools = browser.get("/admin/").content.decode().partition('id="desk-pools"')[2]
    assert pools.index("z-bad-one") < pools.index("a-good-one")


@pytest.mark.parametrize("page", ["/admin/", "/admin/pools/pool/", "/admin/pools/backend/"])
def test_pages_of_many_take_as_many_queries_for_ten_as_for_one(browser, page):
    def made(count):
        for _ in range(count):
            PoolFactory(levels=LEVELS)
        with CaptureQueriesContext(connection) as captured:
            assert browser.get(page).status_code == 200
        return len(captured)

    assert made(1) == made(9) <= 12


def test_a_backends_page_has_its_card_and_its_versions(browser):
    findings = [
        {"name": "spec.subGroups", "purpose": "scheduler", "found": True, "how": "in the served schema"},
        {"name": "ComputeDomain", "purpose": "nvlink", "found": False, "how": "not <served>"},
    ]
    backend = BackendFactory(card={"findings": findings})
    page = browser.get(f"/admin/pools/backend/{backend.pk}/change/")
    assert shown_in_page(page, "spec.subGroups scheduler yes in the served schema")
    assert shown_in_page(page, "ComputeDomain nvlink no not <served>")
    assert shown_in_page(page, "Scheduler KAI 0.13 Kubernetes v1.37.2")
    assert re.search(r"max_levels</th>\s*<td>the most topology keys", page.content.decode())


def test_compute_domains_stand_below_the_flag_the_first_twenty_described(browser, running):
    now = timezone.now()
    running.domains = [
        ObservedComputeDomain("training", f"wf-{number}", "x", "Ready", 4, 4, now - timedelta(hours=2))
        for number in range(21)
    ]
    pool = PoolFactory(nvlink=True)
    page = browser.get(f"/admin/pools/pool/{pool.pk}/change/")
    assert shown_in_page(page, "21 in the cluster , the newest 20")
    assert shown_in_page(page, "wf-0 training good: Ready 4 of 4 ready 2 hours")
    assert not shown_in_page(page, "wf-20")


def test_history_going_back_and_files_are_one_click_from_a_pool(browser, pool):
    text = browser.get(f"/admin/pools/pool/{pool.pk}/change/").content.decode()
    for address in (
        '"#history"',
        "/pools/pool/export/",
        "/pools/pool/import/",
        "/ui/pools/train/map",
    ):
        assert address in text, address


def test_the_manual_has_the_words_of_the_desk():
    page = re.sub(r"\s+", " ", (DOCS / "reference" / "conditions.md").read_text().replace("`", ""))
    assert {key: words for key, words in TO_DO.items() if words not in page} == {}
    assert GOOD_STATUS.keys() == LABELS.keys()


def test_pages_of_the_admin_carry_no_script_of_ours_in_their_text(browser, pool):
    for name in ("keys", "key_row", "row_coverage", "coverage", "preview", "desk", "conditions"):
        text = (DOCS.parent / f"pools/templates/pools/admin/{name}.html").read_text()
        assert "<script" not in text
        assert not re.search(r'\son\w+="|style=', text), name
