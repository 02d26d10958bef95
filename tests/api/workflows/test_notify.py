"""Targets of news in a document: what is taken, and what is refused with its place."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pydantic import SecretStr

from pools.models import ConfigRevision, Pool
from tests.api.pools.keepers import keeper_of, write
from tests.api.workflows.specs import alone, text
from tests.factories import PoolFactory
from web.env import environment
from workflows.models import NewsItem, Workflow
from workflows.news.outbox import NewsChange, announce, settle, take_due
from workflows.news.sending import user_key

pytestmark = pytest.mark.django_db

TARGET = {"webhook": "", "email": "", "kinds": ["ended"], "waits_after": 3600, "secret": ""}
HOOK = "https://hooks.example.org/osmo?team=a"


@pytest.fixture
def submit(api, monkeypatch):
    PoolFactory(name="h100")
    monkeypatch.setattr(environment(), "notify_hosts", ["https://hooks.example.org", "mailto:example.org"])
    monkeypatch.setattr(environment(), "email_host", "mail.example.org")

    def post(notify):
        document = {**alone(), "notify": notify}
        return api.post("/api/pool/h100/workflow", {"file": text(document)}, format="json")

    return post


def test_the_targets_of_a_document_are_written_with_the_workflow(submit):
    answer = submit(
        [{"webhook": HOOK, "kinds": ["ended", "waits"], "waits_after": "30m"}, {"email": "ann@example.org"}]
    )
    assert answer.status_code == 200, answer.json()
    hook, mail = Workflow.objects.get().notify
    assert hook == {"webhook": HOOK, "email": "", "kinds": ["ended", "waits"], "waits_after": 1800.0}
    assert mail == {"webhook": "", "email": "ann@example.org", "kinds": ["ended"], "waits_after": 3600}


REFUSED = {
    "an unknown kind": ([{"webhook": HOOK, "kinds": ["exploded"]}], "kinds[0]", "exploded"),
    "no kind": ([{"webhook": HOOK, "kinds": []}], "kinds", "At least one"),
    "neither address": ([{"kinds": ["ended"]}], "notify[0]", "either"),
    "both addresses": ([{"webhook": HOOK, "email": "ann@example.org"}], "notify[0]", "either"),
    "an unknown field": ([{"webhook": HOOK, "secret": "s"}], "secret", "secret"),
    "a host that is not listed": ([{"webhook": "https://evil.example"}], "webhook", "https://evil.example"),
    "http": ([{"webhook": HOOK.replace("https", "http")}], "webhook", "not listed"),
    "another port": ([{"webhook": "https://hooks.example.org:8443/"}], "webhook", "not listed"),
    "a user in the address": ([{"webhook": "https://hooks.example.org@evil.example/"}], "webhook", "form"),
    "no address": ([{"webhook": "file:///etc/passwd"}], "webhook", "form"),
    "a port beyond all": ([{"webhook": "https://hooks.example.org:99999/"}], "webhook", "form"),
    "brackets around no address": ([{"webhook": "https://[::::]/"}], "webhook", "form"),
    "brackets around IPv4": ([{"webhook": "https://[1.2.3.4]/"}], "webhook", "form"),
    "a line end in a webhook": ([{"webhook": HOOK + "\r\nX: y"}], "webhook", "form"),
    "a line end in an e-mail": ([{"email": "ann@example.org\r\nBcc: all@example.org"}], "email", "form"),
    "a domain that is not listed": ([{"email": "ann@evil.example"}], "email", "not listed"),
    "the same target twice": ([{"webhook": HOOK}, {"webhook": HOOK}], "notify[1].webhook", "before"),
    "too many": ([{"webhook": f"{HOOK}{i}"} for i in range(9)], "notify", "At most 8"),
    "a megabyte of targets": (
        [{"webhook": f"{HOOK}{'x' * 1000}{i}"} for i in range(1000)],
        "notify",
        "At most 8",
    ),
    "a megabyte of address": ([{"webhook": HOOK + "x" * 1_000_000}], "webhook", "form"),
    "no list": ({"webhook": HOOK}, "notify", "list"),
    "no duration": ([{"webhook": HOOK, "waits_after": "soon"}], "waits_after", "duration"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_target_is_refused_at_its_place(submit, case):
    notify, place, word = REFUSED[case]
    answer = submit(notify)
    assert answer.status_code == 400, answer.json()
    (fault,) = answer.json()["details"]
    assert fault["path"].endswith(place), fault
    assert word in fault["message"], fault
    assert fault["line"] > 1
    assert len(json.dumps(answer.json())) < 4000


def test_no_e_mail_is_accepted_where_no_server_sends_any(submit, monkeypatch):
    monkeypatch.setattr(environment(), "email_host", "")
    assert "OSMO_EMAIL_HOST" in submit([{"email": "ann@example.org"}]).json()["message"]


@pytest.fixture
def failed(submit):
    """A workflow with news that failed: to its own target, and to one of its pool."""
    Pool.objects.update(notify=[{**TARGET, "webhook": f"{HOOK}pool", "secret": "ops"}])
    assert submit([{"webhook": HOOK}]).status_code == 200
    workflow = Workflow.objects.get()
    change = NewsChange(
        workflow=workflow.pk, kind="ended", key="k", time=timezone.now(), sentence="It ended."
    )
    announce([change])
    for item in take_due():
        settle(item, "It answers 500.")
    return workflow


def test_a_failure_is_on_the_reply_and_the_page_of_the_workflow_without_its_address(failed, api, browser):
    (entry,) = api.get(f"/api/workflow/{failed.name}").json()["notifications"]
    assert {**entry, "time": ""} == {
        "kind": "ended",
        "target": "webhook hooks.example.org",
        "state": "waiting",
        "tries": 1,
        "error": "It answers 500.",
        "time": "",
    }
    page = browser.get(f"/ui/workflows/{failed.name}").content.decode()
    assert "webhook hooks.example.org" in page
    assert "It answers 500." in page


def test_a_failure_of_a_pools_target_is_on_the_pools_reply_and_form(failed, ann, api, browser):
    (entry,) = api.get("/api/configs/pool/h100").json()["notify_problems"]
    assert (entry["target"], entry["error"]) == ("webhook hooks.example.org", "It answers 500.")
    form = browser.get(f"/admin/pools/pool/{Pool.objects.get().pk}/change/").content.decode()
    assert "It answers 500." in form


def test_targets_of_a_pool_are_hidden_from_its_users(failed, as_user):
    reply = as_user("ben").get("/api/pool").content.decode()
    assert "h100" in reply
    assert "hooks.example.org" not in reply


@pytest.fixture
def put(browser, monkeypatch):
    backend = PoolFactory(name="b200").backend.name
    monkeypatch.setattr(environment(), "notify_secrets", {"ops": SecretStr("k" * 32)})

    def write(**target):
        document = {"configs": {"backend": backend, "notify": [target]}}
        return browser.put("/api/configs/pool/b200", document, content_type="application/json")

    return write


def test_a_pool_keeps_the_name_of_a_secret_and_never_the_secret(put, browser):
    assert put(webhook=HOOK, secret="ops").status_code == 200
    reply = browser.get("/api/configs/pool/b200").content.decode()
    history = json.dumps(list(ConfigRevision.objects.values_list("content", flat=True)))
    assert '"secret":"ops"' in reply.replace(" ", "")
    assert "k" * 32 not in reply + history


def test_a_keeper_who_may_not_read_workflows_has_no_news_of_them_sent(put):
    assert put(webhook=HOOK, secret="ops").status_code == 200
    keeper = keeper_of("pool/b200")
    for changes, status in (
        ({"notify": [TARGET | {"webhook": HOOK + "2", "secret": "ops"}]}, 403),
        ({"nvlink": False}, 200),
    ):
        assert write(keeper, "patch", "pool/b200", changes).status_code == status


def test_a_pool_with_targets_gets_its_new_name_from_who_may_read_its_workflows(put, browser):
    assert put(webhook=HOOK, secret="ops").status_code == 200
    keeper = keeper_of("pool/*", "backend/*")
    rename = {"new_name": "other", "description": "better"}
    assert keeper.put("/api/configs/pool/b200/rename", rename, format="json").status_code == 403
    assert write(keeper, "patch", "pool/b200", {"notify": []}).status_code == 200
    assert keeper.put("/api/configs/pool/b200/rename", rename, format="json").status_code == 200


def test_targets_that_stay_are_not_judged_anew(put, browser, monkeypatch):
    assert put(webhook=HOOK, secret="ops").status_code == 200
    monkeypatch.setattr(environment(), "notify_secrets", {})
    for changes, status in (({"enable_maintenance": True}, 200), ({"notify": [{"webhook": HOOK}]}, 400)):
        answer = browser.patch(
            "/api/configs/pool/b200", {"configs_dict": changes}, content_type="application/json"
        )
        assert answer.status_code == status, answer.json()


def test_the_problems_of_many_pools_take_one_query(failed, api):
    with CaptureQueriesContext(connection) as of_one:
        api.get("/api/configs/pool")
    for name in ("b", "c"):
        PoolFactory(name=name, notify=[TARGET | {"email": "ann@example.org"}])
        NewsItem.objects.update_or_create(
            workflow_uuid=failed.pk,
            kind="ended",
            change=name,
            owner=f"pool:{name}",
            error="It answers 404.",
            target={"webhook": "", "email": "ann@example.org", "secret": ""},
            defaults={"facts": {}, "created_at": timezone.now()},
        )
    with CaptureQueriesContext(connection) as of_three:
        pools = api.get("/api/configs/pool").json()["pools"]
    assert pools["c"]["notify_problems"][0]["error"] == "It answers 404."
    assert sum("newsitem" in query["sql"] for query in of_three) == 1
    assert sum("newsitem" in query["sql"] for query in of_one) == 1


@pytest.mark.parametrize(
    "target",
    [
        {"webhook": HOOK},
        {"webhook": HOOK, "secret": "unknown"},
        {"webhook": "http://hooks.example.org/", "secret": "ops"},
        {"email": "ops@example.org"},
        {"webhook": HOOK, "secret": "ops", "kinds": ["exploded"]},
    ],
)
def test_a_wrong_target_of_a_pool_is_refused(put, target):
    assert put(**target).status_code == 400


def test_users_see_the_key_of_their_own_webhooks_alone(api, as_user):
    keys = {client.get("/api/profile/news_key").json()["key"] for client in (api, as_user("ben"))}
    assert len(keys) == 2
    assert user_key("ann") in keys
