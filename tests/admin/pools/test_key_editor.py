"""The editor of keys: what each row finds, live and without a script, and the preview that saves nothing."""

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pools.models import Cluster, ConfigRevision, Node, Pool
from pools.values.completeness import NODES
from tests.admin.pools.conftest import errors_of, fields_of, shown_in_page
from tests.builders.completeness import note_lists

pytestmark = pytest.mark.django_db

ZONE, RACK, CLIQUE = "topology.kubernetes.io/zone", "example.com/rack", "nvidia.com/gpu.clique"


def change_of(pool):
    return f"/admin/pools/pool/{pool.pk}/change/"


def lay(cluster, *, zones=2, racks=2, nodes=4, **more):
    """Nodes of pool "train": each rack in one zone, each clique half a rack; one node more is nobody's."""
    Node.objects.bulk_create(
        Node(
            cluster=cluster,
            name=f"n-{zone}-{rack}-{node}",
            labels={
                "example.com/pool": "train",
                ZONE: f"z{zone}",
                RACK: f"r{zone}-{rack}",
                CLIQUE: f"c{zone}-{rack}-{node // 2}",
                **more,
            },
            seen_at=timezone.now(),
        )
        for zone in range(zones)
        for rack in range(racks)
        for node in range(nodes)
    )
    Node.objects.create(cluster=cluster, name="other", labels={ZONE: "z9"}, seen_at=timezone.now())


@pytest.fixture
def nodes(pool):
    cluster = Cluster.objects.get()
    note_lists({NODES: ""}, heartbeat_at=timezone.now())
    lay(cluster)
    return cluster


@pytest.fixture
def form(browser, pool, nodes):
    return fields_of(browser.get(change_of(pool)))


def live(browser, pool, fields):
    answer = browser.post(f"/admin/pools/pool/{pool.pk}/coverage/", fields)
    assert answer.status_code == 200
    return answer.json()


def counted():
    rows = {model.__name__: model.objects.count() for model in apps.get_app_config("pools").get_models()}
    return rows, Pool.objects.values_list("revision", "description").get()


def test_each_row_has_the_coverage_of_the_pools_own_nodes_beside_it(browser, pool, nodes):
    Node.objects.filter(name="n-1-1-0").update(labels={"example.com/pool": "train", ZONE: "z1"})
    page = browser.get(change_of(pool))
    assert shown_in_page(page, "All 16 nodes carry it 2 domains")
    assert shown_in_page(page, "15 of 16 nodes carry it 4 domains; 1 node invisible to requirements on it")
    assert shown_in_page(page, "The pool has 16 nodes by its node selector")


def test_coverage_follows_the_form_as_it_stands_and_not_what_is_saved(browser, pool, form):
    form["node_selector"] = "{example.com/pool: train, topology.kubernetes.io/zone: z0}"
    form["topology_keys-0-position"], form["topology_keys-1-position"] = 1, 0
    form |= {"topology_keys-2-key": "host", "topology_keys-2-label": "example.com/none"}
    found = live(browser, pool, form)
    assert "All 8 nodes" in found["rows"]["topology_keys-1"]
    assert "stands under rack r0-0, r0-1" in found["rows"]["topology_keys-0"]
    assert "No node" in found["rows"]["topology_keys-2"]
    assert "8 nodes" in found["coverage"]


def test_a_look_alike_is_named_and_taken_by_a_button_without_a_script(browser, pool, form):
    form |= {"topology_keys-2-key": "clique", "topology_keys-2-label": "nvidia.com/gpu-clique"}
    edit = f"label:2:{CLIQUE}"
    assert f'name="_preview" value="{edit}"' in live(browser, pool, form)["rows"]["topology_keys-2"]
    page = browser.post(change_of(pool), form | {"_preview": edit})
    assert fields_of(page)["topology_keys-2-label"] == CLIQUE
    assert shown_in_page(page, "All 16 nodes carry it 8 domains")
    assert Pool.objects.get().topology_keys.count() == 2


def test_a_label_that_nests_is_suggested_and_added_at_its_place(browser, pool, form):
    form["topology_keys-1-DELETE"] = "on"
    edit = f"add:1:rack:{RACK}"
    assert f'value="{edit}"' in live(browser, pool, form)["suggestions"]
    assert f'<option value="{CLIQUE}">16 nodes, 8 values</option>' in live(browser, pool, form)["labels"]
    del form["topology_keys-1-DELETE"]
    form["topology_keys-1-key"], form["topology_keys-1-label"] = "clique", CLIQUE
    shown = fields_of(browser.post(change_of(pool), form | {"_preview": edit}))
    rows = {shown[f"topology_keys-{i}-key"]: shown[f"topology_keys-{i}-position"] for i in range(3)}
    assert rows == {"zone": "0", "rack": "1", "clique": "2"}


def test_another_row_is_had_without_a_script(browser, pool, form):
    shown = fields_of(browser.post(change_of(pool), form | {"_preview": "row"}))
    assert int(shown["topology_keys-TOTAL_FORMS"]) == int(form["topology_keys-TOTAL_FORMS"]) + 1


@pytest.mark.parametrize("place", ["²", "9" * 5000, "9" * 30, "-1", ""])
def test_an_edit_that_no_button_makes_breaks_nothing(browser, pool, form, place):
    for edit in (f"add:{place}:rack:{RACK}", f"label:{place}:{RACK}"):
        assert browser.post(change_of(pool), form | {"_preview": edit}).status_code == 200
    many = form | {"topology_keys-TOTAL_FORMS": place}
    assert browser.post(change_of(pool), many | {"_preview": "row"}).status_code == 200
    assert browser.post(f"/admin/pools/pool/{pool.pk}/coverage/", many).status_code == 200


def test_a_fault_of_a_row_is_told_while_it_is_typed(browser, pool, form):
    form |= {"topology_keys-2-key": "rack", "topology_keys-2-label": "no label!"}
    told = live(browser, pool, form)["rows"]["topology_keys-2"]
    assert "is already that of level 1" in told
    assert "is no Kubernetes label key" in told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"node_selector": "a: ["}, "The node selector cannot be read"),
        ({"node_selector": "[a]"}, "The node selector is invalid"),
        ({"node_selector": 'a: "x\\0y"'}, "The node selector cannot be read"),
        ({"backend": "9" * 30}, "Choose a backend"),
        ({"backend": ""}, "Choose a backend"),
        ({"topology_keys-0-label": "\0", "topology_keys-0-position": "9" * 40}, "16 nodes"),
        ({"topology_keys-TOTAL_FORMS": "many"}, "16 nodes"),
    ],
    ids=str,
)
def test_an_unreadable_field_is_named_and_breaks_nothing(browser, pool, form, changes, told):
    assert told in live(browser, pool, form | changes)["coverage"]


def test_an_unlisted_cluster_is_not_taken_for_an_empty_one(browser, pool):
    note_lists({NODES: None})
    assert shown_in_page(browser.get(change_of(pool)), 'nodes of backend "kai" have not been listed yet')


def test_coverage_is_for_staff_and_asked_by_post(browser, client, pool, django_user_model):
    address = f"/admin/pools/pool/{pool.pk}/coverage/"
    assert browser.get(address).status_code == 405
    assert browser.post("/admin/pools/pool/999999/coverage/").status_code == 404
    assert browser.post("/admin/pools/pool/coverage/").status_code == 200
    client.force_login(django_user_model.objects.create_user("eve"))
    assert client.post(address).status_code in {302, 403}


def test_coverage_takes_as_many_queries_for_many_nodes_as_for_few(browser, pool, form):
    address = f"/admin/pools/pool/{pool.pk}/coverage/"
    with CaptureQueriesContext(connection) as few:
        browser.post(address, form)
    Node.objects.all().delete()
    lay(Cluster.objects.get(), zones=4, racks=8, nodes=8)
    with CaptureQueriesContext(connection) as many:
        browser.post(address, form)
    assert len(many) == len(few) <= 12


def test_a_preview_tells_what_would_change_and_writes_nothing(browser, pool, form, running):
    running.living, running.unreleased = 2, 3
    before = counted()
    form["topology_keys-0-position"], form["topology_keys-1-position"] = 1, 0
    page = browser.post(change_of(pool), form | {"description": "new", "_preview": ""})
    assert errors_of(page) == {}
    assert counted() == before
    for told in (
        "Preview: nothing was saved",
        "The order changes from zone, rack to rack, zone",
        "+description: new",
        "2 workflows of the pool have not ended",
        "3 task groups stay as accepted",
        "this change of topology_keys does not affect them",
    ):
        assert shown_in_page(page, told), told
    assert fields_of(page)["description"] == "new"
    shown = fields_of(page) | {"change_reason": "looked at"}
    assert browser.post(change_of(pool), shown).status_code == 302
    assert [row.key for row in Pool.objects.get().topology_keys.all()] == ["rack", "zone"]


def test_a_preview_tells_every_refusal_beside_its_field(browser, pool, form):
    before = counted()
    form |= {"topology_keys-2-key": "rack", "topology_keys-2-label": "!", "max_exec_timeout": "soon"}
    page = browser.post(change_of(pool), form | {"_preview": ""})
    assert set(errors_of(page)) == {"topology_keys-2-key", "topology_keys-2-label", "max_exec_timeout"}
    assert shown_in_page(page, "Would be refused for 3 reasons")
    assert counted() == before


def test_a_preview_tells_which_nodes_come_into_sight(browser, pool, form):
    Node.objects.filter(name__startswith="n-1-1-").update(labels={"example.com/pool": "train", ZONE: "z1"})
    form["node_selector"] = "{example.com/pool: train, topology.kubernetes.io/zone: z0}"
    page = browser.post(change_of(pool), form | {"_preview": ""})
    assert shown_in_page(page, 'Requirements on "rack" will see 8 of 8 nodes; now they see 12 of 16.')


def test_a_preview_of_a_new_pool_makes_none(browser, kai):
    add = "/admin/pools/pool/add/"
    fields = fields_of(browser.get(add)) | {"name": "new", "backend": kai.pk, "_preview": ""}
    page = browser.post(add, fields)
    assert shown_in_page(page, "Would be saved")
    assert not Pool.objects.exists()
    assert not ConfigRevision.objects.filter(config_type="POOL").exists()


def test_an_unchanged_form_previews_as_no_change(browser, pool, form):
    assert shown_in_page(browser.post(change_of(pool), form | {"_preview": ""}), "No change")


def test_a_form_that_somebody_else_overtook_is_told_so_in_the_preview(browser, pool, form):
    page = browser.post(change_of(pool), form | {"revision_read": 99, "_preview": ""})
    assert shown_in_page(page, "read it again")
