"""Targets of news in a document: what is taken, and what is refused with its place."""

import json

import pytest

from tests.api.workflows.specs import alone, text
from tests.factories import PoolFactory
from web.env import environment
from workflows.models import Workflow

pytestmark = pytest.mark.django_db

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
