"""What the gateway makes of networks, proxies and credentials that misbehave."""

import asyncio
import json
import os
import socket
import time

import pytest
import yaml

from cluster import bulk
from cluster.clock import boot_seconds
from cluster.connection import VERSION_SECONDS, Access, connection_for, forget
from cluster.errors import (
    BadConnectionSettings,
    ClusterUnreachable,
    CredentialProgram,
    DeadlinePassed,
    ServerFault,
    TooManyRequests,
    Unauthorized,
)
from cluster.gateway import ClusterGateway
from cluster.interface import WriteResult
from cluster.kinds import CONFIG_MAP, POD
from tests.cluster.scripted import Reply, ScriptedServer, kubeconfig

MADE = Reply(201, b'{"metadata": {"uid": "u-1"}}')


def status(code, reason):
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": reason}).encode()


def config_map(name):
    return {"metadata": {"name": name, "namespace": "ns"}}


@pytest.fixture
def server():
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def script(server):
    return server.script


@pytest.fixture
def way(tmp_path, server):
    return kubeconfig(tmp_path / "config", server.url)


@pytest.fixture
def cluster(way):
    return ClusterGateway(way, connect_seconds=30, read_seconds=60)


@pytest.fixture
def nowhere(tmp_path):
    """A way to a port on which nobody listens, nor can meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        yield ClusterGateway(kubeconfig(tmp_path / "nowhere", f"http://127.0.0.1:{port}"))


@pytest.fixture
def within():
    return boot_seconds() + 120


def test_an_outage_is_never_an_answer(nowhere):
    with pytest.raises(ClusterUnreachable) as refused:
        nowhere.get(POD, "p", namespace="ns")
    assert not refused.value.maybe_applied
    with pytest.raises(ClusterUnreachable):
        nowhere.list(POD)


def test_a_write_that_was_never_sent_is_not_in_doubt(nowhere):
    with pytest.raises(ClusterUnreachable) as refused:
        nowhere.create(CONFIG_MAP, config_map("a"))
    assert not refused.value.maybe_applied


def test_a_write_without_a_reply_is_in_doubt_and_not_repeated(cluster, script):
    script.replies.append(Reply(drop=True))
    with pytest.raises(ClusterUnreachable) as lost:
        cluster.create(CONFIG_MAP, config_map("a"))
    assert lost.value.maybe_applied
    assert len(script.seen) == 1


def test_a_read_without_a_reply_is_asked_again_once(cluster, script):
    script.replies += [Reply(drop=True), Reply(body=b'{"metadata": {"name": "a"}}')]
    assert cluster.get(CONFIG_MAP, "a", namespace="ns")["metadata"]["name"] == "a"
    script.otherwise = Reply(drop=True)
    with pytest.raises(ClusterUnreachable):
        cluster.get(CONFIG_MAP, "a", namespace="ns")
    assert len(script.seen) == 4


def test_a_server_that_says_nothing_is_given_up(way, script):
    cluster = ClusterGateway(way, connect_seconds=1, read_seconds=0.2)
    script.otherwise = Reply(hang=True)
    with pytest.raises(ClusterUnreachable):
        cluster.get(CONFIG_MAP, "a", namespace="ns")


def test_a_reply_that_trickles_is_given_up(way, script):
    """Each byte restarts the timeout of a read, so only a bound on the whole reply ends it."""
    cluster = ClusterGateway(way, connect_seconds=0.2, read_seconds=2)
    script.otherwise = Reply(body=b"x" * 500, trickle=0.05)
    with pytest.raises(ClusterUnreachable, match="too long"):
        cluster.get(CONFIG_MAP, "a", namespace="ns")


def test_no_call_begins_after_the_deadline_of_a_run(way, script):
    cluster = ClusterGateway(way, until=boot_seconds() - 1)
    for call in (lambda: cluster.get(CONFIG_MAP, "a", namespace="ns"), lambda: cluster.list(CONFIG_MAP)):
        with pytest.raises(DeadlinePassed):
            call()
    assert script.seen == []


def test_a_bulk_write_ends_with_the_time_that_its_machine_slept(cluster, script, monkeypatch):
    """The monotonic clock stands still meanwhile; the clock of deadlines does not."""
    slept = [0.0]
    monkeypatch.setattr(bulk, "boot_seconds", lambda: boot_seconds() + slept[0])
    script.otherwise = Reply(201, b'{"metadata": {"uid": "u"}}', then=lambda: slept.__setitem__(0, 600.0))
    outcomes = cluster.create_many(
        CONFIG_MAP, [config_map(f"m-{n}") for n in range(100)], deadline=boot_seconds() + 300
    )
    sent = [outcome for outcome in outcomes if outcome.wrote != WriteResult.UNSENT]
    assert len(sent) <= bulk.CONNECTIONS


def test_an_address_may_have_a_path(server, tmp_path):
    """As those of Rancher have: one address leads to many clusters."""
    way = kubeconfig(tmp_path / "config", f"{server.url}/k8s/clusters/c-1/")
    ClusterGateway(way).get(CONFIG_MAP, "a", namespace="ns")
    assert [seen.path for seen in server.script.seen] == [
        "/k8s/clusters/c-1/api/v1/namespaces/ns/configmaps/a"
    ]


def test_a_proxy_gets_the_whole_address(server, tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("NO_PROXY", "")
    way = kubeconfig(tmp_path / "config", "http://cluster.test:6443/c-1")
    ClusterGateway(way).get(CONFIG_MAP, "a", namespace="ns")
    assert [seen.path for seen in server.script.seen] == [
        "http://cluster.test:6443/c-1/api/v1/namespaces/ns/configmaps/a"
    ]


def test_a_page_of_a_proxy_is_no_answer(cluster, script):
    script.replies.append(Reply(200, b"<html>please log in</html>"))
    with pytest.raises(ClusterUnreachable, match="not JSON"):
        cluster.get(CONFIG_MAP, "a", namespace="ns")
    script.replies.append(Reply(302, b"", (("Location", "https://login.example.com"),)))
    with pytest.raises(ClusterUnreachable):
        cluster.get(CONFIG_MAP, "a", namespace="ns")
    script.replies.append(Reply(503, b"<html>no healthy upstream</html>"))
    with pytest.raises(ServerFault, match="no healthy upstream"):
        cluster.get(CONFIG_MAP, "a", namespace="ns")


def test_a_refusal_that_breaks_off_is_no_answer(cluster, script):
    """A watch reads its refusal as it comes, so the connection can still be cut under it."""
    script.replies.append(Reply(503, b'{"kind": "Sta', cut=True))
    with (
        pytest.raises(ClusterUnreachable, match="503"),
        cluster.watch(CONFIG_MAP, resource_version="1", timeout_seconds=60),
    ):
        pytest.fail("there is no stream")


def test_every_request_can_be_found_in_the_audit_log(cluster, script):
    cluster.get(CONFIG_MAP, "a", namespace="ns")
    cluster.get(CONFIG_MAP, "b", namespace="ns")
    first, second = (seen.headers for seen in script.seen)
    assert first["audit-id"] != second["audit-id"]
    assert first["user-agent"] == "osmo-topology"
    assert first["authorization"] == "Bearer secret"


def test_a_write_that_a_server_leaves_unanswered_while_it_answers_reads_is_a_fault_of_it(way, script):
    """Most likely a webhook hangs; the cluster itself is there."""
    cluster = ClusterGateway(way, read_seconds=0.3)
    script.replies += [Reply(hang=True), Reply(200, b'{"gitVersion": "v1.37.2"}')]
    with pytest.raises(ServerFault, match="although the API server answers reads") as fault:
        cluster.create(CONFIG_MAP, config_map("a"))
    assert fault.value.maybe_applied


# credentials


def test_a_rejected_token_is_read_anew_before_giving_up(way, cluster, script, server, tmp_path):
    cluster.get(CONFIG_MAP, "a", namespace="ns")
    script.replies.append(Reply(401, status(401, "Unauthorized")))
    cluster.create(CONFIG_MAP, config_map("a"))
    assert [seen.method for seen in script.seen] == ["GET", "POST", "POST"]
    script.otherwise = Reply(401, status(401, "Unauthorized"))
    with pytest.raises(Unauthorized):
        cluster.get(CONFIG_MAP, "a", namespace="ns")


def test_an_edited_kubeconfig_is_used_within_a_second(way, cluster, script, server, tmp_path):
    cluster.get(CONFIG_MAP, "a", namespace="ns")
    fresh = tmp_path / "fresh"
    kubeconfig(fresh, server.url, token="rotated")
    fresh.rename(way.kubeconfig)
    time.sleep(VERSION_SECONDS)
    cluster.get(CONFIG_MAP, "a", namespace="ns")
    assert [seen.headers["authorization"] for seen in script.seen] == ["Bearer secret", "Bearer rotated"]


def test_nothing_is_written_once_a_bulk_write_has_failed(cluster, way, script, within, monkeypatch):
    script.otherwise = MADE
    answers = iter(["Bearer secret"] * 5)
    connection = connection_for(way)

    def authorization():
        if (token := next(answers, None)) is None:
            monkeypatch.undo()
            raise BadConnectionSettings("the token's file is being written")
        return token

    monkeypatch.setattr(connection, "authorization", authorization)
    with pytest.raises(BadConnectionSettings):
        cluster.create_many(CONFIG_MAP, [config_map(f"m-{n}") for n in range(300)], deadline=within)
    time.sleep(1)  # for what might still be sent
    assert len(script.seen) < 6 + bulk.CONNECTIONS


def test_writes_of_few_objects_share_a_connection_until_the_kubeconfig_changes(way, server, script, tmp_path):
    script.otherwise = MADE
    for _ in range(3):
        ClusterGateway(way).create_many(CONFIG_MAP, [config_map("a")], deadline=boot_seconds() + 60)
    assert script.connections == 1
    fresh = tmp_path / "fresh"
    kubeconfig(fresh, server.url, token="rotated")
    fresh.rename(way.kubeconfig)
    time.sleep(VERSION_SECONDS)
    ClusterGateway(way).create_many(CONFIG_MAP, [config_map("a")], deadline=boot_seconds() + 60)
    assert script.connections == 2
    assert script.seen[-1].headers["authorization"] == "Bearer rotated"


def test_gateways_to_one_cluster_share_their_connection(way, script):
    assert connection_for(way) is connection_for(Access(way.kubeconfig))


def test_a_connection_is_not_carried_over_a_fork(way, script):
    before = connection_for(way)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if connection_for(way) is not before else 1)
    _, code = os.waitpid(pid, 0)
    assert code == 0
    assert connection_for(way) is before


BAD = {
    "a file that is not there": (None, "", "cannot be read"),
    "not YAML": (":\n\t- {", "", "."),
    "a character no text holds": ("\x00", "", "not allowed"),
    "an empty file": ("", "", "."),
    "no such context": ("apiVersion: v1\ncontexts: []\nclusters: []\ncurrent-context: main\n", "", "main"),
    "certificates that are none": (
        """{clusters: [{name: c, cluster:
          {server: "https://127.0.0.1:1", certificate-authority-data: bm9uZQ==}}],
        contexts: [{name: main, context: {cluster: c}}], current-context: main}""",
        "",
        "certificates",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_kubeconfig_that_cannot_be_used_says_which_and_why(case, tmp_path):
    content, context, match = BAD[case]
    path = tmp_path / "bad"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadConnectionSettings, match=match) as refused:
        ClusterGateway(Access(str(path), context)).server_version()
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value) or case == "certificates that are none"


def test_an_unknown_context_is_answered_with_those_there_are(way):
    with pytest.raises(BadConnectionSettings, match="its contexts are: main"):
        ClusterGateway(Access(way.kubeconfig, "other")).server_version()


def with_user(user, **more):
    content = {
        "apiVersion": "v1",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "main",
        "users": [{"name": "other", "user": {}}, {"name": "u", "user": user}],
    }
    return yaml.safe_dump(content | more)


@pytest.mark.parametrize("kind", ["exec", "auth-provider"])
def test_a_program_that_would_give_credentials_is_refused_and_never_run(kind, tmp_path):
    mark = tmp_path / "ran"
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(mark)]}
    provider = {"name": "gcp", "config": {"cmd-path": "touch", "cmd-args": str(mark)}}
    path = tmp_path / "kubeconfig"
    path.write_text(with_user({kind: program if kind == "exec" else provider}))
    for context in ("", "main"):
        with pytest.raises(CredentialProgram, match=r"the service runs none: .*remote-cluster\.md"):
            ClusterGateway(Access(str(path), context)).server_version()
    assert not mark.exists()


def test_a_program_of_a_user_that_the_context_does_not_use_hurts_nobody(tmp_path):
    path = tmp_path / "kubeconfig"
    other = {"name": "other", "user": {"exec": {"command": "touch"}}}
    path.write_text(with_user({"token": "t"}, users=[other, {"name": "u", "user": {"token": "t"}}]))
    with pytest.raises(ClusterUnreachable):
        ClusterGateway(Access(str(path))).server_version()


def test_in_cluster_settings_outside_a_cluster_are_refused(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadConnectionSettings, match="in-cluster"):
        ClusterGateway(Access()).server_version()


@pytest.fixture
def two_identities(script):
    """The answers of two clusters, the second in place of the first."""
    bodies = [json.dumps({"metadata": {"name": "kube-system", "uid": uid}}) for uid in ("u-1", "u-2")]
    script.replies += [Reply(body=body.encode()) for body in bodies]


def test_an_identity_may_be_one_that_was_just_read(cluster, two_identities):
    assert [cluster.kube_system_uid(within=60.0) for _ in range(3)] == ["u-1"] * 3
    assert cluster.kube_system_uid() == "u-2"


def test_an_identity_that_was_read_over_an_earlier_connection_counts_no_more(cluster, way, two_identities):
    assert cluster.kube_system_uid(within=60.0) == "u-1"
    forget(way)
    assert cluster.kube_system_uid(within=60.0) == "u-2"


# many at once


def test_each_lost_reply_of_many_is_told(cluster, script, within):
    script.otherwise = MADE
    script.replies += [MADE] * 20 + [Reply(drop=True)] * 3
    outcomes = cluster.create_many(CONFIG_MAP, [config_map(f"m-{n}") for n in range(60)], deadline=within)
    count = {wrote: sum(o.wrote is wrote for o in outcomes) for wrote in WriteResult}
    assert (count[WriteResult.DONE], count[WriteResult.UNKNOWN], len(outcomes)) == (57, 3, 60)
    assert all(o.error.maybe_applied for o in outcomes if o.wrote is WriteResult.UNKNOWN)
    assert len(script.seen) == 60


def test_a_dead_server_is_not_tried_for_every_object(nowhere, within):
    outcomes = nowhere.create_many(CONFIG_MAP, [config_map(f"m-{n}") for n in range(500)], deadline=within)
    assert {o.wrote for o in outcomes} == {WriteResult.UNSENT}
    assert all(isinstance(o.error, ClusterUnreachable) for o in outcomes)


def test_settings_that_cannot_be_used_leave_all_unsent(tmp_path, within):
    cluster = ClusterGateway(Access(str(tmp_path / "none")))
    (outcome,) = cluster.create_many(CONFIG_MAP, [config_map("a")], deadline=within)
    assert outcome.wrote is WriteResult.UNSENT
    assert isinstance(outcome.error, BadConnectionSettings)


def test_being_asked_to_wait_is_heeded(cluster, script, within):
    busy = Reply(429, status(429, "TooManyRequests"), (("Retry-After", "1"),))
    script.replies += [busy, busy]
    script.otherwise = MADE
    outcomes = cluster.create_many(CONFIG_MAP, [config_map(f"m-{n}") for n in range(4)], deadline=within)
    assert [o.wrote for o in outcomes] == [WriteResult.DONE] * 4
    assert len(script.seen) == 6


def test_no_wait_goes_past_the_deadline(cluster, script):
    script.otherwise = Reply(429, status(429, "TooManyRequests"), (("Retry-After", "60"),))
    outcomes = cluster.create_many(CONFIG_MAP, [config_map("a")], deadline=boot_seconds() + 20)
    assert outcomes[0].wrote is WriteResult.REFUSED
    assert isinstance(outcomes[0].error, TooManyRequests)


def test_a_fault_of_the_server_leaves_a_create_in_doubt(cluster, script, within):
    script.otherwise = Reply(500, status(500, "InternalError"))
    (outcome,) = cluster.create_many(CONFIG_MAP, [config_map("a")], deadline=within)
    assert outcome.wrote is WriteResult.UNKNOWN
    assert isinstance(outcome.error, ServerFault)


def test_a_request_that_outlasts_the_deadline_is_in_doubt_and_the_rest_unsent(way, script):
    cluster = ClusterGateway(way)
    script.otherwise = Reply(hang=True)
    outcomes = cluster.create_many(
        CONFIG_MAP, [config_map(f"m-{n}") for n in range(20)], deadline=boot_seconds() + 4
    )
    assert [o.wrote for o in outcomes] == [WriteResult.UNKNOWN] * 8 + [WriteResult.UNSENT] * 12
    assert all(isinstance(o.error, DeadlinePassed) for o in outcomes if o.wrote is WriteResult.UNSENT)


def test_a_good_reply_that_cannot_be_read_is_in_doubt(cluster, script, within):
    script.replies += [Reply(201, b""), Reply(201, b"[]"), Reply(200, b"<html>")]
    script.otherwise = MADE
    outcomes = cluster.create_many(CONFIG_MAP, [config_map(f"m-{n}") for n in range(9)], deadline=within)
    assert sorted(o.wrote for o in outcomes) == ["done"] * 6 + ["unknown"] * 3


def test_an_object_that_is_no_json_sends_nothing(cluster, script, within):
    with pytest.raises(TypeError):
        cluster.create_many(
            CONFIG_MAP, [config_map("a"), config_map("b") | {"data": object()}], deadline=within
        )
    assert script.seen == []


# streams


def test_a_stream_that_is_cut_is_no_end(cluster, script):
    event = b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}\n'
    script.replies.append(Reply(200, event + b'{"type": "AD', cut=True))
    stream = cluster.watch(CONFIG_MAP, namespace="ns", resource_version="5", timeout_seconds=60)
    seen = []
    with stream, pytest.raises(ClusterUnreachable):
        seen.extend(stream)
    assert [e["object"]["metadata"]["name"] for e in seen] == ["a"]


def follow(cluster, **options):
    """The chunks of a followed log, as a list that is filled until it ends or raises."""
    chunks = []

    async def read():
        async with cluster.follow_log("p", namespace="ns", **options) as log:
            chunks.extend([chunk async for chunk in log])

    return chunks, lambda: asyncio.run(read())


def test_a_log_is_followed_on_an_event_loop(cluster, script):
    script.replies.append(Reply(200, b"one\ntwo\n"))
    chunks, read = follow(cluster, tail_lines=5)
    read()
    assert b"".join(chunks) == b"one\ntwo\n"
    assert script.seen[0].path == "/api/v1/namespaces/ns/pods/p/log?follow=true&tailLines=5"


def test_a_followed_log_that_is_cut_is_no_end(cluster, script):
    script.replies.append(Reply(200, b"one\n", cut=True))
    chunks, read = follow(cluster)
    with pytest.raises(ClusterUnreachable):
        read()
    assert chunks in ([], [b"one\n"])


def test_a_log_that_cannot_be_followed_says_why(cluster, script, nowhere):
    script.replies.append(Reply(500, status(500, "InternalError")))
    with pytest.raises(ServerFault):
        follow(cluster)[1]()
    with pytest.raises(ClusterUnreachable):
        follow(nowhere)[1]()


def test_a_rejected_token_is_read_anew_before_a_log_is_given_up(cluster, script):
    script.replies += [Reply(401, status(401, "Unauthorized")), Reply(200, b"one\n")]
    chunks, read = follow(cluster)
    read()
    assert chunks == [b"one\n"]
    script.replies += [Reply(401, status(401, "Unauthorized"))] * 2
    with pytest.raises(Unauthorized):
        read()
