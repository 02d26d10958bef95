"""The history in the admin: read, compare, tag, take out, go back; files; and a declared configuration."""

import html

import pytest

from pools import services
from pools.models import ConfigRevision, Pool
from pools.services import declared
from tests.admin.pools.conftest import ADMIN, shown_in_page

pytestmark = pytest.mark.django_db

LIST = "/admin/pools/configrevision/"


@pytest.fixture
def story(pool):
    """POOL 1: two keys. 2: a description that tries to be markup."""
    services.patch_pool(name="train", changes={"description": "<script>x</script>"}, change=ADMIN)


def revision(number, config_type="POOL"):
    return ConfigRevision.objects.get(config_type=config_type, revision=number)


def address(number, action):
    return f"{LIST}{revision(number).pk}/{action}/"


def test_the_list_is_filtered_and_a_revision_shows_what_it_changed(browser, story):
    assert shown_in_page(browser.get(f"{LIST}?config_type__exact=POOL"), "train")
    page = browser.get(f"{LIST}{revision(2).pk}/change/")
    assert shown_in_page(page, "--- train (POOL:1)")
    assert f'href="/admin/pools/pool/{Pool.objects.get().pk}/change/"' in page.content.decode()
    assert all(address(2, action) in page.content.decode() for action in ("go-back", "compare", "tags"))
    assert b"<script>x" not in page.content
    assert b"&lt;script&gt;x" in page.content


def test_a_pool_and_a_backend_show_their_own_history(browser, story, pool):
    page = browser.get(f"/admin/pools/pool/{pool.pk}/change/")
    assert f"{LIST}{revision(1).pk}/change/" in page.content.decode()
    assert shown_in_page(page, "POOL:2")
    assert address(1, "go-back") in page.content.decode()
    assert address(2, "go-back") not in page.content.decode()
    page = browser.get(f"/admin/pools/backend/{pool.backend_id}/change/")
    assert shown_in_page(page, "BACKEND:1")


def test_two_revisions_are_compared(browser, story):
    page = browser.get(address(2, "compare"), {"other": revision(1).pk, "do": "compare"})
    assert shown_in_page(page, "--- train (POOL:1) +++ train (POOL:2)")
    assert b"<script>x" not in page.content


def test_going_back_is_shown_confirmed_and_done(browser, story):
    page = browser.get(address(1, "go-back"))
    assert shown_in_page(page, "+description: ''")
    read = page.context["form"].initial["revision_read"]
    answer = browser.post(address(1, "go-back"), {"reason": "markup", "revision_read": read})
    assert answer.status_code == 302
    assert Pool.objects.get().description == ""
    assert (revision(3).username, revision(3).description) == ("ann", "Rolled back to POOL:1: markup")


def test_going_back_shows_what_no_longer_holds(browser, story):
    services.put_pool(name="train", document={"backend": "kai"}, change=ADMIN)
    plain = {"kubeconfig": "/etc/kai", "scheduler_settings": {"scheduler_type": "default"}}
    services.put_backend(name="kai", document=plain, change=ADMIN)
    answer = browser.post(address(1, "go-back"), {"revision_read": 3})
    assert shown_in_page(answer, "POOL:1.topology_keys")
    assert Pool.objects.get().topology_keys.count() == 0


def test_going_back_is_refused_where_somebody_else_wrote_meanwhile(browser, story):
    answer = browser.post(address(1, "go-back"), {"revision_read": 1})
    assert shown_in_page(answer, "at revision 2")
    assert Pool.objects.get().description != ""


def test_tags_are_written(browser, story):
    assert browser.post(address(1, "tags"), {"tags": "good, first"}).status_code == 302
    assert revision(1).tags == ["good", "first"]
    browser.post(address(1, "tags"), {"tags": "first"})
    assert revision(1).tags == ["first"]
    assert shown_in_page(browser.post(address(1, "tags"), {"tags": "x" * 64}), "at most 63")


def test_a_revision_is_taken_out_but_not_what_holds_now(browser, story):
    assert browser.get(address(1, "take-out")).status_code == 200
    assert browser.post(address(1, "take-out")).status_code == 302
    assert revision(1).deleted_by == "ann"
    assert browser.get(address(1, "go-back")).status_code == 404
    assert shown_in_page(browser.post(address(2, "take-out")), "stays in the history")


def test_a_file_is_exported_looked_at_and_imported(browser, story):
    assert b"/admin/pools/pool/export/" in browser.get("/admin/pools/pool/").content
    exported = browser.get("/admin/pools/pool/export/")
    text = exported.content.decode().replace("<script>x</script>", "from a file")
    answer = browser.post("/admin/pools/pool/import/", {"text": text, "do": "look"})
    assert shown_in_page(answer, "+description: from a file")
    assert ConfigRevision.objects.filter(config_type="POOL").count() == 2
    assert browser.post("/admin/pools/pool/import/", {"text": text, "do": "import"}).status_code == 302
    assert Pool.objects.get().description == "from a file"
    broken = text.replace("nvlink:", "nvlin:")
    answer = browser.post("/admin/pools/backend/import/", {"text": broken, "do": "import"})
    assert shown_in_page(answer, 'pools.train.nvlin: There is no field "nvlin" here')


@pytest.mark.parametrize(
    ("action", "form", "sentence"),
    [
        ("import", {"text": "pools: {train: {backend: none}}"}, 'There is no backend "none"'),
        ("import", {"text": "pols: {}"}, 'There is no field "pols" here'),
        ("tags", {"tags": "x" * 64}, "A tag has at most 63 characters"),
    ],
)
def test_a_page_of_the_admin_says_a_fault_once(browser, story, action, form, sentence):
    page = "/admin/pools/pool/import/" if action == "import" else address(1, action)
    refusal = browser.post(page, form | {"do": action}).content.decode()
    assert html.unescape(refusal).count(sentence) == 1


def test_pages_of_history_and_files_are_for_staff(client, django_user_model, story):
    client.force_login(django_user_model.objects.create_user("eve"))
    for page in (address(1, "go-back"), address(1, "compare"), "/admin/pools/pool/export/"):
        assert client.get(page).status_code in {302, 403}
    assert client.post(address(1, "go-back"), {"revision_read": 2}).status_code in {302, 403}
    assert ConfigRevision.objects.filter(config_type="POOL").count() == 2


def test_declared_configuration_is_shown_to_read(browser, pool, tmp_path, settings):
    file = tmp_path / "config.yaml"
    file.write_text("pools: {train: {backend: nowhere}}")
    settings.ENV = settings.ENV.model_copy(update={"topology_config_file": str(file)})
    declared.apply()
    page = browser.get(f"/admin/pools/pool/{pool.pk}/change/")
    assert shown_in_page(page, f"declared in the file {file}")
    assert shown_in_page(page, "pools.train.backend")
    assert b'name="_save"' not in page.content
    assert browser.get("/admin/pools/pool/").status_code == 200
    assert browser.get("/admin/pools/pool/add/").status_code == 403
    assert browser.post(f"/admin/pools/pool/{pool.pk}/change/", {}).status_code == 403
    assert browser.get(f"/admin/pools/backend/{pool.backend_id}/change/").status_code == 200
    answer = browser.post(address(1, "go-back"), {"revision_read": 1})
    assert shown_in_page(answer, "edit the file")


def test_a_pool_is_renamed_on_a_page_of_its_own(browser, pool, running):
    page = f"/admin/pools/pool/{pool.pk}/rename/"
    assert page in browser.get(f"/admin/pools/pool/{pool.pk}/change/").content.decode()
    asked = {"new_name": "drill", "revision_read": pool.revision}
    running.living = 1
    assert shown_in_page(browser.post(page, asked), "has 1 workflow that has not ended")
    assert shown_in_page(browser.post(page, asked | {"force": "on", "new_name": "a name"}), "is no name")
    assert browser.post(page, asked | {"force": "on"}).status_code == 302
    assert Pool.objects.get().name == "drill"


@pytest.mark.parametrize("action", ["go-back", "compare", "tags", "take-out"])
def test_an_address_of_no_revision_is_not_found(browser, story, action):
    assert [browser.get(f"{LIST}{key}/{action}/").status_code for key in ("x", "²", "9" * 30)] == [404] * 3


def test_an_address_of_no_pool_has_no_name_to_change(browser, pool):
    assert browser.get("/admin/pools/pool/x/rename/").status_code == 404


def test_a_reason_without_printable_text_is_kept_without_it(browser, pool):
    sent = {"post": "yes", "change_reason": "a\0b"}
    assert browser.post(f"/admin/pools/pool/{pool.pk}/delete/", sent).status_code == 302
    assert revision(2).description == "ab"
