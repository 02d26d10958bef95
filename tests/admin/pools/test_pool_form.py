"""The form of a pool: what comes first, what is folded, and how values and names are written."""

import re

import pytest

from pools import services
from pools.models import Pool
from tests.admin.pools.conftest import ADMIN, fields_of, shown_in_page

pytestmark = pytest.mark.django_db


@pytest.fixture
def address(pool):
    return f"/admin/pools/pool/{pool.pk}/change/"


def groups(answer):
    """Whether each group that can be folded is open, by its heading; of rows the last one counts."""
    page = answer.content.decode()
    found = re.findall(
        r'<fieldset class="module[^"]*"[^>]*aria-label="([^"]*)"[^>]*>\s*<details( open)?', page
    )
    return {heading: bool(is_open) for heading, is_open in found}


def test_keys_come_right_after_name_backend_and_description_and_platforms_after_the_keys(browser, address):
    page = browser.get(address).content.decode()
    places = [
        page.index(mark)
        for mark in (
            'name="backend"',
            'name="description"',
            'id="topology_keys-group"',
            'id="platforms-group"',
            'name="nvlink"',
            'name="node_selector"',
        )
    ]
    assert places == sorted(places)


def test_groups_are_folded_where_nothing_in_them_is_set(browser, address):
    services.patch_pool(name="train", changes={"max_num_tasks": 5}, change=ADMIN)
    found = groups(browser.get(address))
    assert {heading for heading, is_open in found.items() if is_open} == {"Nodes", "Quota and limits"}
    assert {"Topology", "Pods", "Access", "Time", "Losses and recovery", "History"} <= found.keys()


def test_all_groups_of_a_new_pool_are_folded(browser, kai):
    assert not any(groups(browser.get("/admin/pools/pool/add/")).values())


def test_a_group_with_a_fault_is_open(browser, address):
    form = fields_of(browser.get(address)) | {"shared_credentials": "a: ["}
    assert groups(browser.post(address, form))["Access"]


def test_a_group_with_a_value_that_is_not_saved_yet_is_open(browser, address):
    form = fields_of(browser.get(address)) | {"shared_credentials": "[a-secret]", "_preview": ""}
    assert groups(browser.post(address, form))["Access"]


def test_a_platform_is_folded_to_what_it_needs_and_open_where_more_is_set(browser, address, pool):
    platform = {"node_selector": {"example.com/gpu": "h100"}, "privileged_allowed": True}
    assert 'name="platforms-0-privileged_allowed"' in browser.get(address).content.decode()
    assert browser.get(address).content.decode().count("<details open>") == 1  # the pool's nodes
    services.patch_pool(name="train", changes={"platforms": {"h100": platform}}, change=ADMIN)
    assert browser.get(address).content.decode().count("<details open>") == 2


def test_defaults_that_a_pool_is_saved_with_are_shown_as_empty_fields(browser, address):
    form = fields_of(browser.get(address))
    assert (form["recovery"], form["resources"]) == ("", "")
    before = Pool.objects.get()
    assert browser.post(address, form | {"description": "new"}).status_code == 302
    after = Pool.objects.get()
    assert (after.recovery, after.resources) == (before.recovery, before.resources)


def test_a_boolean_in_a_list_is_a_word(browser, pool):
    page = browser.get("/admin/pools/pool/")
    assert shown_in_page(page, "kai no zone → rack no")
    assert "close_small" not in page.content.decode()


def test_names_are_written_as_they_are(browser, address):
    heads = browser.get("/admin/pools/pool/").content.decode()
    page = browser.get(address).content.decode()
    for text in (heads, page):
        assert "NVLink" in text
        assert "Nvlink" not in text
    assert re.search(r">\s*train\s*</a>", page)
    assert ">Train<" not in page


def test_a_scheduler_has_the_name_that_its_makers_write(browser, pool):
    assert shown_in_page(browser.get("/admin/"), "KAI 0.13")
    assert shown_in_page(browser.get("/admin/pools/backend/"), "yes KAI 0.13")
    assert '<option value="kai" selected>KAI</option>' in re.sub(
        r"\s+", " ", browser.get(f"/admin/pools/backend/{pool.backend_id}/change/").content.decode()
    )
