"""Pools in the admin: the forms a browser posts go through the same checks as REST."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from pools import services
from pools.models import ConfigRevision, Pool
from scheduling.topology.levels import Level
from tests.admin.pools.conftest import ADMIN, errors_of, fields_of, shown_in_page

pytestmark = pytest.mark.django_db

ADD = "/admin/pools/pool/add/"


def change_of(pool):
    return f"/admin/pools/pool/{pool.pk}/change/"


def levels(name="train"):
    rows = Pool.objects.get(name=name).topology_keys.order_by("position")
    return [Level(row.key, row.label) for row in rows]


def with_key(fields, index, **values):
    """The form with one more row of topology keys."""
    fields["topology_keys-TOTAL_FORMS"] = index + 1
    return fields | {f"topology_keys-{index}-{name}": value for name, value in values.items()}


@pytest.fixture
def form(browser, pool):
    return fields_of(browser.get(change_of(pool)))


@pytest.fixture
def save(browser, pool):
    return lambda fields: browser.post(change_of(pool), fields)


def test_every_page_opens(browser, pool):
    for page in ("", "pools/pool/", ADD.removeprefix("/admin/"), "pools/backend/", "pools/configrevision/"):
        assert browser.get(f"/admin/{page}").status_code == 200
    assert browser.get(change_of(pool)).status_code == 200
    assert browser.get(f"/admin/pools/backend/{pool.backend_id}/change/").status_code == 200
    revision = ConfigRevision.objects.first()
    assert browser.get(f"/admin/pools/configrevision/{revision.pk}/change/").status_code == 200


def test_conditions_are_shown_as_a_table(browser, pool):
    told = {"type": "TopologyDrift", "status": "True", "reason": "Drift", "message": "<b>lists</b> rack"}
    pool.conditions = [told | {"lastTransitionTime": "2026-01-01T00:00:00", "observedRevision": 7}]
    pool.save(update_fields=["conditions"])
    page = browser.get(change_of(pool))
    row = re.search(r'<tr id="condition-TopologyDrift">(.*?)</tr>', page.content.decode(), re.DOTALL)[1]
    assert "&lt;b&gt;lists&lt;/b&gt; rack" in row
    for told in (
        "wrong: Topology drifts",
        "True Drift",
        "set the pool's keys to its levels",
        "2026-01-01 00:00 UTC",
    ):
        assert shown_in_page(page, told)


def test_every_row_of_keys_can_be_moved_an_unsaved_one_too(browser, pool):
    page = browser.get(change_of(pool)).content.decode()
    for row in ("topology_keys-0", "topology_keys-2", "topology_keys-__prefix__"):
        part = page[page.index(f'id="{row}-row"') :]
        part = part[: part.index("</tr>")]
        assert 'draggable="true"' in part
        assert 'aria-label="Move up, broader"' in part
        assert f'name="{row}-position"' in part


def test_an_unchanged_form_changes_nothing(form, save, pool):
    assert save(form).status_code == 302
    assert Pool.objects.get().revision == pool.revision


def test_a_pool_is_added_with_keys_platform_and_nvlink(browser, kai):
    fields = fields_of(browser.get(ADD)) | {
        "name": "new",
        "backend": kai.pk,
        "nvlink": "on",
        "node_selector": "example.com/pool: new",
        "tolerations": "[{key: gpu, operator: Exists}]",
        "resources": "gpu: {guarantee: 8, maximum: 16, weight: 1}",
        "platforms-TOTAL_FORMS": 1,
        "platforms-0-name": "h100",
        "platforms-0-node_selector": '{"example.com/gpu": "h100"}',
        "platforms-0-allowed_mounts": "[/data]",
        "default_platform": "h100",
        "change_reason": "because",
    }
    fields = with_key(fields, 0, key="rack", label="example.com/rack")
    fields = with_key(fields, 1, key="host", label="kubernetes.io/hostname")
    answer = browser.post(ADD, fields)
    assert answer.status_code == 302, errors_of(answer)
    pool = Pool.objects.get(name="new")
    assert levels("new") == [Level("rack", "example.com/rack"), Level("host", "kubernetes.io/hostname")]
    assert (pool.nvlink, pool.node_selector) == (True, {"example.com/pool": "new"})
    assert pool.tolerations == [{"key": "gpu", "operator": "Exists"}]
    assert pool.resources["gpu"]["maximum"] == 16
    assert pool.platforms.get().allowed_mounts == ["/data"]
    revision = ConfigRevision.objects.filter(config_type="POOL").get()
    assert (revision.username, revision.description) == ("ann", "because")


def test_two_rows_change_places(form, save):
    form["topology_keys-0-position"], form["topology_keys-1-position"] = 1, 0
    assert save(form).status_code == 302
    assert [level.key for level in levels()] == ["rack", "zone"]


def test_two_keys_change_their_names(form, save):
    form["topology_keys-0-key"], form["topology_keys-1-key"] = "rack", "zone"
    assert save(form).status_code == 302
    assert [level.key for level in levels()] == ["rack", "zone"]


def test_a_row_without_a_number_comes_last_and_a_number_puts_it_between(form, save):
    form = with_key(form, 2, key="host", label="kubernetes.io/hostname")
    assert save(form).status_code == 302
    assert [level.key for level in levels()] == ["zone", "rack", "host"]


def test_a_row_is_deleted(form, save):
    assert save(form | {"topology_keys-0-DELETE": "on"}).status_code == 302
    assert [level.key for level in levels()] == ["rack"]


def test_a_key_twice_is_told_beside_its_row(form, save):
    answer = save(with_key(form, 2, key="rack", label="example.com/other"))
    [(place, messages)] = errors_of(answer).items()
    assert place == "topology_keys-2-key"
    assert "rack" in messages[0]
    assert shown_in_page(answer, "already that of level 1")
    assert len(levels()) == 2


def test_faults_follow_the_order_of_the_numbers(form, save):
    form = with_key(form, 2, position=0, key="host", label="kubernetes.io/hostname")
    form["topology_keys-0-position"], form["topology_keys-1-position"] = 5, 6
    assert list(errors_of(save(form))) == ["topology_keys-2-label"]


def test_keys_on_a_backend_that_cannot_hold_them_are_told_beside_the_keys(form, save, plain):
    answer = save(form | {"backend": plain.pk})
    found = errors_of(answer)
    assert list(found) == ["topology_keys"]
    assert "topology.required" in found["topology_keys"][0]
    assert shown_in_page(answer, "lacks capability")
    assert Pool.objects.get().backend.name == "kai"


@pytest.mark.parametrize(
    ("changes", "place", "text"),
    [
        ({"node_selector": "a: ["}, "node_selector", "line 2"),
        ({"node_selector": "[a]"}, "node_selector", "A mapping is needed."),
        ({"node_selector": "a: 1"}, "node_selector", "A text is needed."),
        ({"node_selector": "a: &x b\nc: *x"}, "node_selector", "Aliases"),
        ({"tolerations": "[{kee: x}]"}, "tolerations", '"kee"'),
        ({"max_exec_timeout": "soon"}, "max_exec_timeout", "no duration"),
        ({"default_platform": "h200"}, "default_platform", "h100"),
        ({"platforms-0-node_selector": "example.com/pool: other"}, "platforms-0-node_selector", "selects"),
        ({"platforms-0-name": "9"}, "platforms-0-name", "letter"),
        ({"resources": "gpu: {guarantee: -5}"}, "resources", "gpu.guarantee"),
    ],
    ids=str,
)
def test_a_fault_is_told_beside_its_field(form, save, changes, place, text):
    before = Pool.objects.get().revision
    found = errors_of(save(form | changes))
    assert list(found) == [place]
    assert text in found[place][0]
    assert Pool.objects.get().revision == before


def test_all_that_is_wrong_is_told_at_once(form, save):
    form = with_key(form, 2, key="rack", label="!")
    found = errors_of(save(form | {"max_exec_timeout": "soon", "default_platform": "x"}))
    assert set(found) == {
        "max_exec_timeout",
        "default_platform",
        "topology_keys-2-key",
        "topology_keys-2-label",
    }


def test_a_form_that_was_opened_before_somebody_elses_change_is_refused(form, save):
    services.patch_pool(name="train", changes={"description": "theirs"}, change=ADMIN)
    found = errors_of(save(form | {"description": "mine"}))
    assert "read it again" in found.get("__all__", [str(found)])[0]
    assert Pool.objects.get().description == "theirs"


def test_an_added_pool_never_replaces_one_of_its_name(browser, pool):
    fields = fields_of(browser.get(ADD)) | {"name": "train", "backend": pool.backend_id}
    found = errors_of(browser.post(ADD, fields))
    assert "absent" in found["__all__"][0]


def test_a_pool_is_deleted_and_leaves_a_revision(browser, pool):
    page = f"/admin/pools/pool/{pool.pk}/delete/"
    assert browser.get(page).status_code == 200
    assert browser.post(page, {"post": "yes"}).status_code == 302
    assert not Pool.objects.exists()
    assert ConfigRevision.objects.filter(config_type="POOL").first().content is None


def test_a_pool_with_living_workflows_is_not_deleted(browser, pool, running):
    running.living = 2
    page = f"/admin/pools/pool/{pool.pk}/delete/"
    answer = browser.post(page, {"post": "yes"}, follow=True)
    assert shown_in_page(answer, "2 workflows that have not ended")
    assert Pool.objects.exists()


def test_a_user_who_is_no_staff_sees_nothing(pool):
    browser = Client()
    browser.force_login(User.objects.create_user("eve"))
    assert browser.get(change_of(pool)).status_code == 302
    assert browser.post(change_of(pool), {}).status_code == 302


def test_history_cannot_be_written(browser, pool):
    revision = ConfigRevision.objects.first()
    assert browser.get("/admin/pools/configrevision/add/").status_code == 403
    assert browser.post(f"/admin/pools/configrevision/{revision.pk}/delete/").status_code == 403
