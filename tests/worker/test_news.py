"""News of workflows: recorded once with the change, sent to real receivers, and failures that harm nobody."""

import hashlib
import hmac
import json
import os
import socket
import subprocess
import sys
import threading
from datetime import timedelta
from ipaddress import ip_address, ip_network

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone
from pydantic import SecretStr

from localcluster.directories import CHECKOUT
from tests.builders.gangs import recovering_gang
from tests.builders.losses import delete_pod
from tests.builders.waiting import until
from tests.factories import CLIQUE, NodeFactory, TaskFactory
from tests.worker.receivers import mail_receiver, web_receiver
from web.env import environment
from workflows.models import Event, NewsItem, TaskGroup, Workflow
from workflows.news import outbox, sending
from workflows.services import follow_up, retention, timeline
from workflows.services.changes import Note
from workflows.services.lease import release, take_lease
from workflows.services.record import record
from workflows.tasks import seek_news, sweep_news


@pytest.fixture
def receiver(monkeypatch):
    with web_receiver() as receiver:
        allow(monkeypatch, receiver)
        yield receiver


def allow(monkeypatch, *receivers):
    origins = [receiver.url.removesuffix("/hook") for receiver in receivers]
    monkeypatch.setattr(environment(), "notify_hosts", origins)
    monkeypatch.setattr(environment(), "notify_networks", [ip_network("127.0.0.0/8")])


def target(receiver, *kinds, **fields):
    return {
        "webhook": getattr(receiver, "url", receiver),
        "email": "",
        "kinds": list(kinds),
        "waits_after": 3600,
        **fields,
    }


def group_with(world, *targets, **changes):
    group = world.group(**changes)
    Workflow.objects.filter(pk=group.workflow_id).update(notify=list(targets))
    return group


def run_to_its_end(world, group):
    world.settle()
    world.finish(group)
    world.settle()


def test_the_end_of_a_workflow_reaches_its_webhook_signed_with_the_users_key(world, receiver):
    group = group_with(world, target(receiver, "ended"))
    run_to_its_end(world, group)
    sweep_news()
    (headers, body), (event,) = receiver.requests[0], receiver.events
    workflow = Workflow.objects.get()
    assert event["specversion"] == "1.0"
    assert event["type"] == "osmo-topology.workflow.ended"
    assert event["id"] == str(NewsItem.objects.get().uuid)
    assert event["data"]["status"] == workflow.status == "COMPLETED"
    assert event["data"]["workflow"]["name"] == workflow.name
    assert event["data"]["groups"] == [{"name": group.name, "status": "COMPLETED", "message": None}]
    assert headers["Content-Type"].startswith("application/cloudevents+json")
    key = sending.user_key(workflow.submitted_by).encode()
    assert headers["X-Osmo-Signature-256"] == "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()
    assert NewsItem.objects.get().state == "sent"


def test_news_is_sent_in_order_and_each_change_once(world, receiver):
    group = group_with(world, target(receiver, "began", "ended"))
    run_to_its_end(world, group)
    follow_up.conclude_left()
    for _ in range(3):
        sweep_news()
    assert receiver.kinds == ["began", "ended"]


def test_a_target_hears_of_the_kinds_that_it_names_alone(world, receiver):
    run_to_its_end(world, group_with(world, target(receiver, "waits", "never", "new_attempt")))
    assert not NewsItem.objects.exists()


def test_a_target_of_the_pool_is_signed_with_the_secret_that_it_names(world, receiver, monkeypatch):
    monkeypatch.setattr(environment(), "notify_secrets", {"ops": SecretStr("k" * 32)})
    run_to_its_end(
        world, group_with(world, pool=world.pool(notify=[target(receiver, "ended", secret="ops")]))
    )
    sweep_news()
    ((headers, body),) = receiver.requests
    assert headers[sending.SIGNATURE] == sending.signature(body, "k" * 32)


REASONS = {
    "NewAttempt": "new_attempt",
    "PlacementDegraded": "degraded",
    "PlacementViolated": "degraded",
    "NodesRelabelled": "degraded",
    "ReleaseStuck": "release_stuck",
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_happens_to_a_group_is_news_once(world, receiver, reason):
    group = group_with(world, target(receiver, *REASONS.values()))
    note = Note(key="k", reason=reason, message="It happened.", warning=True)
    for _ in range(2):
        lease = take_lease(group.pk)
        record(lease, [note])
        release(lease, failures=0, seconds=0)
    sweep_news()
    ((kind, name, sentence),) = [
        (event["data"]["kind"], event["data"]["group"], event["data"]["sentence"])
        for event in receiver.events
    ]
    assert (kind, name, sentence) == (REASONS[reason], group.name, "It happened.")


def test_a_gang_that_is_tried_again_is_news(world, receiver):
    group = recovering_gang(world)
    Workflow.objects.filter(pk=group.workflow_id).update(notify=[target(receiver, "new_attempt")])
    delete_pod(world, group)
    world.settle()
    sweep_news()
    assert [(event["data"]["kind"], event["data"]["group"]) for event in receiver.events] == [
        ("new_attempt", group.name)
    ]


def test_news_of_one_kind_is_bounded_however_often_it_happens(world, receiver):
    group = group_with(world, target(receiver, "new_attempt"))
    for number in range(50):
        lease = take_lease(group.pk)
        record(lease, [Note(key=f"k{number}", reason="NewAttempt", message="Again.", warning=True)])
        release(lease, failures=0, seconds=0)
    assert NewsItem.objects.count() == outbox.MOST_OF_A_KIND


def test_a_long_wait_is_news_once_its_time_is_over(world, receiver):
    soon, late = target(receiver, "waits", waits_after=600), target(receiver.url + "/late", "waits")
    group = group_with(world, soon, late)
    since = timezone.now() - timedelta(seconds=1200)
    TaskGroup.objects.filter(pk=group.pk).update(
        waiting_why="capacity",
        waiting_reason="There is no room.",
        waiting_since=since,
        processing_start_time=since,
    )
    for _ in range(2):
        seek_news()
        sweep_news()
    assert [event["data"]["sentence"] for event in receiver.events] == [
        f"Group {group.name}: There is no room."
    ]


def test_a_verdict_that_becomes_never_is_news_once(world, receiver):
    pool = world.pool(levels=(CLIQUE,))
    NodeFactory(cluster=pool.backend.cluster, labels={CLIQUE.label: "c1"})
    group = group_with(world, target(receiver, "never"), pool=pool, pods=0)
    TaskFactory(group=group, placement__gpu=64)
    TaskGroup.objects.filter(pk=group.pk).update(waiting_why="capacity", waiting_reason="No room.")
    for _ in range(2):
        seek_news()
        sweep_news()
    (event,) = receiver.events
    assert "can never be placed" in event["data"]["sentence"]


def make_due():
    NewsItem.objects.filter(due_at__isnull=False).update(due_at=Now())


def test_a_target_that_fails_keeps_its_order_and_holds_up_no_other(world, monkeypatch):
    with web_receiver() as bad, web_receiver() as good:
        allow(monkeypatch, bad, good)
        bad.status = 500
        kinds = ("began", "ended")
        run_to_its_end(world, group_with(world, target(bad, *kinds), target(good, *kinds)))
        sweep_news()
        sweep_news()
        assert (good.kinds, bad.kinds) == (["began", "ended"], ["began"])
        make_due()
        sweep_news()
        assert bad.events[0] == bad.events[1]  # the same id, for a receiver that has it already
        bad.status = 200
        make_due()
        sweep_news()
        sweep_news()
        assert bad.kinds[2:] == ["began", "ended"]


def test_what_fails_for_a_day_is_given_up_with_its_reason_and_the_next_is_tried(world, receiver):
    receiver.status = 500
    run_to_its_end(world, group_with(world, target(receiver, "began", "ended")))
    pauses = []
    for _ in range(3):
        make_due()
        sweep_news()
        first = NewsItem.objects.earliest("id")
        pauses.append((first.due_at - timezone.now()).total_seconds())
    assert pauses == sorted(pauses)
    NewsItem.objects.filter(pk=first.pk).update(created_at=Now() - timedelta(days=1, minutes=1))
    make_due()
    sweep_news()
    sweep_news()
    given_up, ended = NewsItem.objects.order_by("id")
    assert (given_up.state, given_up.due_at, given_up.error) == ("given_up", None, "It answers 500.")
    assert (ended.state, ended.tries, ended.error) == ("waiting", 1, "It answers 500.")


ANSWERS = {
    "No answer within 0.3 s.": {"hangs": 60.0},
    "It answers 307: redirects are not followed.": {"status": 307},
    "It answers 404.": {"status": 404},
    "It answers 600.": {"status": 600},
    "It gives no answer in HTTP.": {"garbage": b"\x00\xff no HTTP at all\r\n" * 10_000},
}


@pytest.mark.parametrize("error", ANSWERS)
def test_a_wrong_answer_is_an_error_in_words_and_is_not_waited_for(world, receiver, monkeypatch, error):
    monkeypatch.setattr(sending, "SECONDS", 0.3)
    receiver.headers["Location"] = receiver.url
    vars(receiver).update(ANSWERS[error])
    run_to_its_end(world, group_with(world, target(receiver, "ended")))
    sweep_news()
    assert receiver.answered == (receiver.hangs == 0)
    assert len(receiver.requests) == 1
    assert NewsItem.objects.get().error == error


def test_no_address_within_the_cluster_is_connected_to_by_whatever_name(world, receiver, monkeypatch):
    monkeypatch.setattr(environment(), "notify_networks", [])
    names = [receiver.url, *(receiver.url.replace("127.0.0.1", name) for name in ("localhost", "2130706433"))]
    origins = [name.removesuffix("/hook") for name in names]
    monkeypatch.setattr(environment(), "notify_hosts", origins)
    run_to_its_end(world, group_with(world, *(target(name, "ended") for name in names)))
    sweep_news()
    assert receiver.requests == []
    errors = list(NewsItem.objects.values_list("error", flat=True))
    assert ["is not public" in error for error in errors] == [True, True, False]
    assert not any("/hook" in error for error in errors)


def test_a_host_that_is_listed_no_more_gets_nothing(world, receiver, monkeypatch):
    run_to_its_end(world, group_with(world, target(receiver, "ended")))
    monkeypatch.setattr(environment(), "notify_hosts", [])
    sweep_news()
    assert receiver.requests == []
    assert "not listed" in NewsItem.objects.get().error


def test_a_worker_that_dies_before_it_records_sends_again_with_the_same_id(world, receiver):
    run_to_its_end(world, group_with(world, target(receiver, "ended")))
    list(sending.send(outbox.take_due()))
    sweep_news()  # not before the lease is over
    assert len(receiver.requests) == 1
    make_due()
    sweep_news()
    first, again = receiver.events
    assert first == again
    assert NewsItem.objects.get().state == "sent"


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_killed_while_a_webhook_answers_sends_again_with_the_same_id(world, receiver):
    run_to_its_end(world, group_with(world, target(receiver, "ended")))
    receiver.hangs = 60.0
    with worker_that_sends(receiver) as process:
        until(lambda: receiver.requests, seconds=60)
        process.kill()
    receiver.hangs = 0.0
    assert NewsItem.objects.get().state == "waiting"
    make_due()
    sweep_news()
    first, again = receiver.events
    assert (first["id"], first) == (again["id"], again)
    assert NewsItem.objects.get().state == "sent"


def worker_that_sends(receiver):
    """A process of its own that sends what is due."""
    own = connection.settings_dict
    variables = {
        "OSMO_ENV": "development",
        "OSMO_DATABASE_URL": f"postgresql://{own['USER']}:{own['PASSWORD']}@{own['HOST']}:{own['PORT']}/{own['NAME']}",
        "OSMO_NOTIFY_HOSTS": json.dumps([receiver.url.removesuffix("/hook")]),
        "OSMO_NOTIFY_NETWORKS": '["127.0.0.0/8"]',
    }
    work = "from workflows.tasks import sweep_news; sweep_news()"
    argv = [sys.executable, "manage.py", "shell", "-c", work]
    return subprocess.Popen(argv, cwd=CHECKOUT, env=os.environ | variables)


def test_news_of_a_workflow_that_is_removed_meanwhile_is_still_sent_and_removed_after_a_week(world, receiver):
    group = group_with(world, target(receiver, "ended"))
    run_to_its_end(world, group)
    group.workflow.delete()
    sweep_news()
    assert receiver.kinds == ["ended"]
    retention.remove_old()
    assert NewsItem.objects.exists()
    NewsItem.objects.update(ended_at=Now() - timedelta(days=8))
    retention.remove_old()
    assert not NewsItem.objects.exists()


def test_what_was_sent_is_remembered_for_as_long_as_its_workflow_lives(world, receiver):
    group = group_with(world, target(receiver, "waits", waits_after=600))
    since = timezone.now() - timedelta(days=30)
    TaskGroup.objects.filter(pk=group.pk).update(
        waiting_why="capacity", waiting_reason="No room.", waiting_since=since, processing_start_time=since
    )
    for _ in range(2):
        seek_news()
        sweep_news()
        NewsItem.objects.update(ended_at=Now() - timedelta(days=8))
        retention.remove_old()
    assert receiver.kinds == ["waits"]


@pytest.fixture
def mail_to(settings, monkeypatch):
    """Send e-mail to an SMTP server on this port; gives a target there."""

    def listed(port):
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", port, False
        monkeypatch.setattr(environment(), "email_host", "127.0.0.1")
        monkeypatch.setattr(environment(), "notify_hosts", ["mailto:example.org"])
        return target("", "ended", email="ann@example.org")

    return listed


def test_the_end_of_a_workflow_is_mailed(world, mail_to):
    with mail_receiver() as mailbox:
        group = group_with(world, mail_to(mailbox.port))
        run_to_its_end(world, group)
        sweep_news()
    (message,) = mailbox.messages
    name = Workflow.objects.get().name
    assert f"Subject: {name}: COMPLETED" in message
    assert "To: ann@example.org" in message
    assert str(NewsItem.objects.get().uuid) in message


def test_e_mail_that_its_server_takes_slowly_is_sent_once(world, mail_to, monkeypatch):
    monkeypatch.setattr(sending, "SECONDS", 0.2)
    with mail_receiver(hangs=1.0) as mailbox:
        run_to_its_end(world, group_with(world, mail_to(mailbox.port)))
        for _ in range(2):
            sweep_news()
            make_due()
    assert (len(mailbox.messages), NewsItem.objects.get().state) == (1, "sent")


def test_a_mail_server_that_hangs_holds_up_the_next_batch_for_a_bounded_time(world, mail_to, monkeypatch):
    monkeypatch.setattr(sending, "MAIL_SECONDS", 0.5)
    with mail_receiver(hangs=60.0) as mailbox:
        run_to_its_end(world, group_with(world, mail_to(mailbox.port)))
        sweep_news()
        assert mailbox.answered == 0
    assert NewsItem.objects.get().error == "No answer in time."


def test_a_slow_mail_server_does_not_hold_what_others_answered(world, receiver, mail_to, monkeypatch):
    hosts = list(environment().notify_hosts)
    with mail_receiver(hangs=2.0) as mailbox:
        mail = mail_to(mailbox.port)
        monkeypatch.setattr(environment(), "notify_hosts", [*hosts, "mailto:example.org"])
        run_to_its_end(world, group_with(world, mail, target(receiver, "ended")))
        answered = {item.target["email"]: mailbox.answered for item, _ in sending.send(outbox.take_due())}
    assert answered == {"": 0, "ann@example.org": 1}


def test_a_name_that_does_not_resolve_does_not_hold_what_others_answered(world, receiver, monkeypatch):
    real, slow, answers = socket.getaddrinfo, "slow.example.org", threading.Event()

    def resolve(host, *arguments, **named):
        if host == slow:
            answers.wait(60.0)
        return real("127.0.0.1" if host == slow else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(sending, "SECONDS", 1.0)
    hosts = [*environment().notify_hosts, f"https://{slow}"]
    monkeypatch.setattr(environment(), "notify_hosts", hosts)
    targets = target(f"https://{slow}/", "ended"), target(receiver, "ended")
    run_to_its_end(world, group_with(world, *targets))
    threading.Timer(30.0, answers.set).start()
    sweep_news()
    assert not answers.is_set()
    answers.set()
    errors = {item.target["webhook"]: item.error for item in NewsItem.objects.all()}
    assert errors == {f"https://{slow}/": "No answer within 1 s.", receiver.url: ""}


def test_an_item_that_cannot_be_written_fails_alone(world, receiver):
    run_to_its_end(world, group_with(world, target(receiver, "began"), target(receiver.url + "2", "began")))
    broken, _ = NewsItem.objects.order_by("id")
    NewsItem.objects.filter(pk=broken.pk).update(facts={})
    sweep_news()
    assert receiver.kinds == ["began"]
    broken.refresh_from_db()
    assert broken.error == "It could not be sent: KeyError."


def test_a_target_that_its_pool_has_no_more_gets_nothing_and_is_given_up_at_once(
    world, receiver, monkeypatch
):
    monkeypatch.setattr(environment(), "notify_secrets", {"ops": SecretStr("k" * 32)})
    pool = world.pool(notify=[target(receiver, "ended", secret="ops")])
    run_to_its_end(world, group_with(world, pool=pool))
    pool.notify = []
    pool.save(update_fields=["notify"])
    sweep_news()
    item = NewsItem.objects.get()
    assert (receiver.requests, item.state, item.due_at) == ([], "given_up", None)
    assert item.error == "Its pool has this target no more."


def test_nothing_is_sent_for_a_user_who_is_deactivated(world, receiver):
    group = group_with(world, target(receiver, "ended"))
    run_to_its_end(world, group)
    User.objects.create(username=group.workflow.submitted_by, is_active=False)
    sweep_news()
    item = NewsItem.objects.get()
    assert (receiver.requests, item.state, item.error) == ([], "given_up", "Its user is deactivated.")


def test_targets_of_two_owners_share_each_batch_however_many_of_one_wait(world, receiver, monkeypatch):
    monkeypatch.setattr(outbox, "_TAKE", outbox._TAKE.replace(f"LIMIT {outbox.BATCH}", "LIMIT 2"))
    first = group_with(world, *(target(f"{receiver.url}{n}", "ended") for n in range(8)))
    run_to_its_end(world, first)
    second = group_with(world, target(f"{receiver.url}?of=ben", "ended"), workflow__submitted_by="ben")
    run_to_its_end(world, second)
    owners = {item.owner for item in outbox.take_due()}
    assert owners == {f"user:{first.workflow.submitted_by}", "user:ben"}


def test_a_turn_goes_on_while_items_come(world, receiver):
    targets = [target(f"{receiver.url}{n}", "ended") for n in range(8)]
    for _ in range(4):
        run_to_its_end(world, group_with(world, *targets))
    sweep_news()
    assert len(receiver.requests) == 32 > outbox.OF_AN_OWNER


def test_news_costs_no_statement_more(world, django_assert_num_queries):
    events = [Event(reason="x", dedupe="workflow:RUNNING"), Event(reason="x", dedupe="y")]
    for event in events:
        event.workflow_id, event.time = world.group().workflow_id, timezone.now()
        event.source, event.message, event.warning = timeline.SOURCE, "It runs.", False
        with django_assert_num_queries(1):
            timeline.add([], beside=[event])


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    {
        "93.184.215.14": True,
        "2606:2800:21f:cb07::1": True,
        "10.1.2.3": True,  # listed below
        "10.2.0.1": False,
        "127.0.0.1": False,
        "169.254.169.254": False,
        "168.63.129.16": False,
        "192.0.0.8": False,
        "240.0.0.1": False,
        "224.0.0.1": False,
        "::1": False,
        "fe80::1%eth0": False,
        "fd00:ec2::254": False,
        "::ffff:169.254.169.254": False,
        "64:ff9b::a9fe:a9fe": False,
        "64:ff9b::5db8:d70e": True,
        "2002:7f00:1::": False,
        "64:ff9b:1::a9fe:a9fe": False,
        "64:ff9b:1::a02:1": False,
        "::a02:1": False,
        "::ffff:0:a02:1": False,
        "::ffff:0:5db8:d70e": True,
        "3fff::1": False,
        "5f00::1": False,
        "fc00::1": False,
        "100.64.0.1": True,  # listed below
        "fd01::1": True,  # listed below
        "100.100.100.200": False,
        "192.0.0.192": False,
        "fd00:42::42": False,
        "fd20:ce::254": False,
    }.items(),
)
def test_webhooks_lead_to_public_addresses_and_listed_networks_alone(address, is_allowed):
    listed = ("10.1.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "192.0.0.192/32", "fd00::/8")
    networks = [ip_network(network) for network in listed]
    assert sending.may_connect(ip_address(address), networks=networks) == is_allowed
