"""What every ``Cluster`` promises, held against the one in memory and a real API server alike."""

import asyncio
import itertools
import threading
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from bench.scale import world
from bench.scale.kubelet import Kubelet
from bench.scale.remote import RemoteCluster
from cluster import gateway
from cluster.clock import boot_seconds
from cluster.errors import (
    AlreadyExists,
    DeadlinePassed,
    Expired,
    Invalid,
    NotServed,
    ObjectNotFound,
    WriteConflict,
)
from cluster.gateway import ClusterGateway
from cluster.interface import DeleteTarget, Deletion, WriteResult
from cluster.kinds import COMPUTE_DOMAIN, CONFIG_MAP, CRD, EVENT, NAMESPACE, NODE, POD, SERVICE, Kind
from tests.fakes.cluster import FakeCluster
from tests.fakes.kinds import KAI_POD_GROUP, KAI_QUEUE

UNSERVED = Kind("Nothing", "nothing.example.com", "v1", "nothings")
SERVICE_ACCOUNT = Kind("ServiceAccount", "", "v1", "serviceaccounts")
PATIENCE = 90.0
SERVED = {}  # clusters in memory by the socket at which they are served


def eventually(condition, what):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"waited {PATIENCE} s in vain for {what}"
        time.sleep(0.05)


@pytest.fixture(params=["memory", "remote", "real"])
def cluster(request):
    if request.param == "memory":
        return FakeCluster()
    return request.getfixturevalue(request.param)


@pytest.fixture
def remote(tmp_path):
    """The cluster in memory as the bench's processes reach it: through a socket."""
    memory, empty = FakeCluster(), world.Feed(lambda *_: b"", 0)
    kubelet = Kubelet(memory, nodes=0, run_seconds=0.0)
    feeds = dict.fromkeys(("nodes", "foreign", "groups", "waiting"), empty)
    simulated = world.SimulatedCluster(memory=memory, kubelet=kubelet, **feeds)
    path = str(tmp_path / "socket")
    SERVED[path] = memory
    with world.Server(path, world.World({"one": simulated})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield RemoteCluster(path, "one")
        server.shutdown()


def memory_of(cluster):
    """The cluster in memory itself, for what nobody can do through the interface; None of a real one."""
    if isinstance(cluster, RemoteCluster):
        return SERVED[cluster.path]
    return cluster if isinstance(cluster, FakeCluster) else None


@pytest.fixture
def namespace(cluster):
    name = f"contract-{uuid4().hex[:12]}"
    cluster.create(NAMESPACE, {"metadata": {"name": name}})
    yield name
    cluster.delete(NAMESPACE, name, uid=None)


@pytest.fixture
def within():
    return boot_seconds() + PATIENCE


def config_map(namespace, name="one", *, labels=None, **metadata):
    named = {"name": name, "namespace": namespace} | ({"labels": labels} if labels else {})
    return {"metadata": named | metadata, "data": {"a": "1"}}


def pod(namespace, name, **spec):
    containers = [{"name": "main", "image": "none"}]
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": containers, "schedulerName": "nobody"} | spec,
    }


def pods_allowed(cluster, namespace):
    if isinstance(cluster, ClusterGateway):
        ready = lambda: cluster.get(SERVICE_ACCOUNT, "default", namespace=namespace)  # noqa: E731
        eventually(ready, "the default service account")


def names(listing):
    return [obj["metadata"]["name"] for obj in listing.items]


# get


def test_get_is_none_for_an_object_that_is_not_there(cluster, namespace):
    assert cluster.get(CONFIG_MAP, "nope", namespace=namespace) is None
    assert cluster.get(CONFIG_MAP, "nope", namespace="no-such-namespace") is None
    assert cluster.get(NODE, "nope") is None


def test_a_kind_that_is_not_served_is_no_missing_object(cluster, namespace):
    with pytest.raises(NotServed):
        cluster.get(UNSERVED, "x", namespace=namespace)
    with pytest.raises(NotServed):
        cluster.list(UNSERVED, namespace=namespace)
    with pytest.raises(NotServed):
        cluster.create(UNSERVED, {"metadata": {"name": "x", "namespace": namespace}})
    with pytest.raises(NotServed):
        cluster.delete(UNSERVED, "x", namespace=namespace, uid=None)


# create


def test_create_answers_with_the_object_as_it_is_now(cluster, namespace):
    made = cluster.create(CONFIG_MAP, config_map(namespace))
    assert made["metadata"]["uid"]
    assert made == cluster.get(CONFIG_MAP, "one", namespace=namespace)


def test_creating_a_name_twice_is_told_apart_from_other_conflicts(cluster, namespace):
    cluster.create(CONFIG_MAP, config_map(namespace))
    with pytest.raises(AlreadyExists):
        cluster.create(CONFIG_MAP, config_map(namespace))


def test_creating_in_a_missing_namespace_says_so(cluster):
    with pytest.raises(ObjectNotFound, match="no-such-namespace"):
        cluster.create(CONFIG_MAP, config_map("no-such-namespace"))


def test_a_dry_run_makes_nothing(cluster, namespace):
    cluster.create(CONFIG_MAP, config_map(namespace), dry_run=True)
    assert cluster.get(CONFIG_MAP, "one", namespace=namespace) is None


def test_a_field_that_the_server_does_not_know_is_refused_not_dropped(real):
    name = f"strict-{uuid4().hex[:8]}"
    with pytest.raises(Invalid, match="placement"):
        real.create(KAI_QUEUE, {"metadata": {"name": name}, "spec": {"placement": "here"}}, dry_run=True)
    with pytest.raises(Invalid, match="placement"):
        real.apply(KAI_QUEUE, {"metadata": {"name": name}, "spec": {"placement": "here"}})


# texts that cannot be stored


def test_a_text_that_no_database_stores_comes_as_one_that_it_does(cluster, namespace):
    """A container that ends with a NUL in its termination message is enough to make one."""
    stored = {"a": "x\N{REPLACEMENT CHARACTER}y"}
    version = cluster.list(CONFIG_MAP, namespace=namespace).resource_version
    assert cluster.create(CONFIG_MAP, config_map(namespace) | {"data": {"a": "x\0y"}})["data"] == stored
    assert cluster.get(CONFIG_MAP, "one", namespace=namespace)["data"] == stored
    listing = cluster.list(CONFIG_MAP, namespace=namespace)
    assert [obj["data"] for obj in listing.items if obj["metadata"]["name"] == "one"] == [stored]
    with cluster.watch(
        CONFIG_MAP, resource_version=version, namespace=namespace, timeout_seconds=60
    ) as stream:
        event = next(event for event in stream if event["object"]["metadata"].get("name") == "one")
    assert event["object"]["data"] == stored


# list


def test_a_list_holds_what_the_selectors_choose(cluster, namespace):
    for name, labels in {"a": {"app": "x"}, "b": {"app": "y"}, "c": {"tier": "x"}}.items():
        cluster.create(CONFIG_MAP, config_map(namespace, name, labels=labels))
    want = {
        "app=x": ["a"],
        "app!=x": ["b", "c"],
        "app in (x,y)": ["a", "b"],
        "app notin (x)": ["b", "c"],
        "app": ["a", "b"],
        "!app": ["c"],
        "app,app!=y": ["a"],
    }
    for selector, chosen in want.items():
        found = names(cluster.list(CONFIG_MAP, namespace=namespace, label_selector=selector))
        assert [name for name in found if name in {"a", "b", "c"}] == chosen, selector
    only = cluster.list(CONFIG_MAP, namespace=namespace, field_selector="metadata.name=b")
    assert names(only) == ["b"]


def test_listed_objects_say_what_they_are(cluster, namespace):
    cluster.create(CONFIG_MAP, config_map(namespace))
    (found,) = cluster.list(CONFIG_MAP, namespace=namespace, field_selector="metadata.name=one").items
    assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")


def test_no_namespace_means_all_of_them(cluster, namespace):
    cluster.create(CONFIG_MAP, config_map(namespace, labels={"only": namespace}))
    assert names(cluster.list(CONFIG_MAP, label_selector=f"only={namespace}")) == ["one"]


def test_a_list_of_many_pages_is_whole(cluster, namespace, within, monkeypatch):
    monkeypatch.setattr(gateway, "PAGE", 7)
    want = [f"m-{number:02d}" for number in range(23)]
    made = [config_map(namespace, name, labels={"many": "yes"}) for name in want]
    cluster.create_many(CONFIG_MAP, made, deadline=within)
    listing = cluster.scan(
        CONFIG_MAP, lambda obj: obj["metadata"]["name"], namespace=namespace, label_selector="many"
    )
    assert listing.items == tuple(want)
    assert int(listing.resource_version) > 0


def test_a_list_of_metadata_has_nothing_else(cluster, namespace):
    cluster.create(CONFIG_MAP, config_map(namespace, labels={"a": "b"}))
    scanned = cluster.scan(CONFIG_MAP, dict, namespace=namespace, label_selector="a=b", metadata_only=True)
    (found,) = scanned.items
    whole = cluster.get(CONFIG_MAP, "one", namespace=namespace)
    assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")
    assert found.keys() == {"apiVersion", "kind", "metadata"}
    assert found["metadata"]["labels"] == {"a": "b"}
    assert found["metadata"]["uid"] == whole["metadata"]["uid"]
    assert int(scanned.resource_version) > 0


# apply


def test_apply_creates_changes_and_leaves_alone(cluster, namespace):
    first = cluster.apply(CONFIG_MAP, config_map(namespace))
    assert first["data"] == {"a": "1"}
    changed = cluster.apply(CONFIG_MAP, config_map(namespace) | {"data": {"a": "2"}})
    assert changed["data"] == {"a": "2"}
    again = cluster.apply(CONFIG_MAP, config_map(namespace) | {"data": {"a": "2"}})
    assert again["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


def test_apply_removes_what_it_applied_before_and_no_more(cluster, namespace):
    cluster.apply(CONFIG_MAP, config_map(namespace) | {"data": {"a": "1", "b": "2"}})
    cluster.patch(CONFIG_MAP, "one", {"data": {"theirs": "3"}}, namespace=namespace)
    left = cluster.apply(CONFIG_MAP, config_map(namespace) | {"data": {"a": "1"}})
    assert left["data"] == {"a": "1", "theirs": "3"}


def test_apply_takes_over_what_another_manager_has_set(cluster, namespace):
    cluster.create(CONFIG_MAP, config_map(namespace))
    ours = config_map(namespace) | {"data": {"a": "ours"}}
    assert cluster.apply(CONFIG_MAP, ours)["data"] == {"a": "ours"}


def test_apply_with_the_uid_of_something_gone_makes_nothing(cluster, namespace):
    gone = cluster.create(CONFIG_MAP, config_map(namespace))["metadata"]["uid"]
    cluster.delete(CONFIG_MAP, "one", namespace=namespace, uid=gone)
    with pytest.raises(WriteConflict):
        cluster.apply(CONFIG_MAP, config_map(namespace, uid=gone))
    assert cluster.get(CONFIG_MAP, "one", namespace=namespace) is None


# patch


def test_a_patch_merges(cluster, namespace):
    cluster.create(CONFIG_MAP, config_map(namespace))
    merged = cluster.patch(CONFIG_MAP, "one", {"data": {"a": None, "b": "2"}}, namespace=namespace)
    assert merged["data"] == {"b": "2"}


def test_a_patch_that_does_not_apply_changes_nothing(cluster, namespace):
    cluster.create(CONFIG_MAP, config_map(namespace))
    with pytest.raises(ObjectNotFound):
        cluster.patch(CONFIG_MAP, "nope", {}, namespace=namespace)
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"a": "9"}}
    with pytest.raises(WriteConflict):
        cluster.patch(CONFIG_MAP, "one", stale, namespace=namespace)
    assert cluster.get(CONFIG_MAP, "one", namespace=namespace)["data"] == {"a": "1"}


# delete


def test_delete_takes_the_object_with_the_uid_and_no_other(cluster, namespace):
    uid = cluster.create(CONFIG_MAP, config_map(namespace))["metadata"]["uid"]
    other = str(uuid4())
    assert cluster.delete(CONFIG_MAP, "one", namespace=namespace, uid=other) is Deletion.ABSENT
    assert cluster.get(CONFIG_MAP, "one", namespace=namespace) is not None
    assert cluster.delete(CONFIG_MAP, "one", namespace=namespace, uid=uid) is Deletion.REMOVED
    assert cluster.get(CONFIG_MAP, "one", namespace=namespace) is None
    assert cluster.delete(CONFIG_MAP, "one", namespace=namespace, uid=uid) is Deletion.ABSENT


def test_a_service_is_gone_with_the_reply_to_its_delete(cluster, namespace):
    """Unlike other objects it comes back in the reply."""
    body = {"metadata": {"name": "s", "namespace": namespace}, "spec": {"clusterIP": "None"}}
    uid = cluster.create(SERVICE, body)["metadata"]["uid"]
    assert cluster.delete(SERVICE, "s", namespace=namespace, uid=uid) is Deletion.REMOVED
    assert cluster.get(SERVICE, "s", namespace=namespace) is None


def test_delete_of_a_version_that_is_no_more_is_a_conflict(cluster, namespace):
    made = cluster.create(CONFIG_MAP, config_map(namespace))["metadata"]
    cluster.patch(CONFIG_MAP, "one", {"data": {"b": "2"}}, namespace=namespace)
    with pytest.raises(WriteConflict):
        cluster.delete(
            CONFIG_MAP,
            "one",
            namespace=namespace,
            uid=made["uid"],
            resource_version=made["resourceVersion"],
        )


def test_an_object_with_a_finalizer_stays_until_it_is_taken_off(cluster, namespace):
    held = config_map(namespace, finalizers=["example.com/held"])
    uid = cluster.create(CONFIG_MAP, held)["metadata"]["uid"]
    for _ in range(2):  # asking twice changes nothing
        assert cluster.delete(CONFIG_MAP, "one", namespace=namespace, uid=uid) is Deletion.ACCEPTED
        assert cluster.get(CONFIG_MAP, "one", namespace=namespace)["metadata"]["deletionTimestamp"]
    with pytest.raises(AlreadyExists):
        cluster.create(CONFIG_MAP, config_map(namespace))
    cluster.patch(CONFIG_MAP, "one", {"metadata": {"finalizers": None}}, namespace=namespace)
    assert cluster.get(CONFIG_MAP, "one", namespace=namespace) is None


def test_a_custom_object_lives_and_dies_like_any_other(cluster, namespace):
    spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "t"}, "allocationMode": "Single"}}
    body = {
        "metadata": {"name": "d", "namespace": namespace, "finalizers": ["example.com/held"]},
        "spec": spec,
    }
    uid = cluster.create(COMPUTE_DOMAIN, body)["metadata"]["uid"]
    assert names(cluster.list(COMPUTE_DOMAIN, namespace=namespace)) == ["d"]
    assert cluster.delete(COMPUTE_DOMAIN, "d", namespace=namespace, uid=uid) is Deletion.ACCEPTED
    cluster.patch(COMPUTE_DOMAIN, "d", {"metadata": {"finalizers": []}}, namespace=namespace)
    eventually(lambda: cluster.get(COMPUTE_DOMAIN, "d", namespace=namespace) is None, "the end of it")


def test_a_pod_without_a_node_goes_at_once(cluster, namespace):
    pods_allowed(cluster, namespace)
    uid = cluster.create(POD, pod(namespace, "p"))["metadata"]["uid"]
    assert cluster.delete(POD, "p", namespace=namespace, uid=uid) is Deletion.REMOVED
    assert cluster.get(POD, "p", namespace=namespace) is None


def test_a_pod_on_a_node_waits_for_its_kubelet_unless_told_not_to(cluster, namespace):
    pods_allowed(cluster, namespace)
    held = pod(namespace, "p", nodeName="no-such-node")
    uid = cluster.create(POD, held)["metadata"]["uid"]
    assert cluster.delete(POD, "p", namespace=namespace, uid=uid) is Deletion.ACCEPTED
    assert cluster.get(POD, "p", namespace=namespace)["metadata"]["deletionTimestamp"]
    assert cluster.delete(POD, "p", namespace=namespace, uid=uid, grace_seconds=0) is Deletion.REMOVED
    assert cluster.get(POD, "p", namespace=namespace) is None


def test_a_pod_with_a_finalizer_is_not_gone_with_the_reply_to_its_delete(cluster, namespace, within):
    pods_allowed(cluster, namespace)
    held = pod(namespace, "p")
    held["metadata"]["finalizers"] = ["example.com/held"]
    uid = cluster.create(POD, held)["metadata"]["uid"]
    for _ in range(2):  # the second finds it without time left
        (outcome,) = cluster.delete_many(POD, [DeleteTarget("p", namespace, uid)], deadline=within)
        assert outcome.wrote is WriteResult.DONE
        assert cluster.get(POD, "p", namespace=namespace) is not None


def test_delete_many_tells_pods_that_are_gone_from_those_that_a_kubelet_ends(cluster, namespace, within):
    pods_allowed(cluster, namespace)
    bodies = {
        "ended": pod(namespace, "ended", nodeName="no-such-node"),
        "running": pod(namespace, "running", nodeName="no-such-node"),
        "unplaced": pod(namespace, "unplaced"),
    }
    uids = {name: cluster.create(POD, body)["metadata"]["uid"] for name, body in bodies.items()}
    cluster.patch_status(POD, "ended", {"status": {"phase": "Succeeded"}}, namespace=namespace)
    doomed = [DeleteTarget(name, namespace, uid) for name, uid in uids.items()]
    outcomes = cluster.delete_many(POD, doomed, deadline=within)
    assert {outcome.name: outcome.wrote for outcome in outcomes} == {
        "ended": WriteResult.REMOVED,
        "running": WriteResult.DONE,
        "unplaced": WriteResult.REMOVED,
    }
    assert names(cluster.list(POD, namespace=namespace)) == ["running"]


def test_an_owned_object_goes_with_its_owner(cluster, namespace):
    owner = cluster.create(CONFIG_MAP, config_map(namespace, "owner"))["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    cluster.create(CONFIG_MAP, config_map(namespace, "owned", ownerReferences=[reference]))
    cluster.delete(CONFIG_MAP, "owner", namespace=namespace, uid=owner["uid"])
    eventually(lambda: cluster.get(CONFIG_MAP, "owned", namespace=namespace) is None, "the owned object")


# many at once


def test_create_many_reports_each_object_in_order(cluster, namespace, within):
    cluster.create(CONFIG_MAP, config_map(namespace, "m-1"))
    outcomes = cluster.create_many(
        CONFIG_MAP, [config_map(namespace, f"m-{n}") for n in range(4)], deadline=within
    )
    assert [(o.name, o.wrote) for o in outcomes] == [
        ("m-0", WriteResult.DONE),
        ("m-1", WriteResult.EXISTS),
        ("m-2", WriteResult.DONE),
        ("m-3", WriteResult.DONE),
    ]
    made = cluster.get(CONFIG_MAP, "m-2", namespace=namespace)["metadata"]
    assert outcomes[2].uid == made["uid"]
    assert isinstance(outcomes[1].error, AlreadyExists)


def test_create_many_says_why_an_object_was_refused(cluster, within):
    (outcome,) = cluster.create_many(CONFIG_MAP, [config_map("no-such-namespace")], deadline=within)
    assert outcome.wrote is WriteResult.REFUSED
    assert isinstance(outcome.error, ObjectNotFound)


def test_nothing_is_begun_after_the_deadline(cluster, namespace):
    made = [config_map(namespace, f"m-{n}") for n in range(3)]
    outcomes = cluster.create_many(CONFIG_MAP, made, deadline=boot_seconds() - 1)
    assert {o.wrote for o in outcomes} == {WriteResult.UNSENT}
    assert all(isinstance(o.error, DeadlinePassed) for o in outcomes)
    assert cluster.get(CONFIG_MAP, "m-0", namespace=namespace) is None


def test_nothing_to_do_is_done(cluster, within):
    assert list(cluster.create_many(CONFIG_MAP, [], deadline=within)) == []
    assert list(cluster.delete_many(CONFIG_MAP, [], deadline=within)) == []


def test_delete_many_spares_objects_with_another_uid(cluster, namespace, within):
    made = cluster.create_many(
        CONFIG_MAP, [config_map(namespace, f"m-{n}") for n in range(3)], deadline=within
    )
    doomed = [
        DeleteTarget("m-0", namespace, made[0].uid),
        DeleteTarget("m-1", namespace, str(uuid4())),
        DeleteTarget("nope", namespace, str(uuid4())),
    ]
    outcomes = cluster.delete_many(CONFIG_MAP, doomed, deadline=within)
    assert [o.wrote for o in outcomes] == [WriteResult.REMOVED, WriteResult.ABSENT, WriteResult.ABSENT]
    left = [n for n in range(3) if cluster.get(CONFIG_MAP, f"m-{n}", namespace=namespace)]
    assert left == [1, 2]


def test_delete_many_spares_objects_that_changed_since_they_were_read(cluster, namespace, within):
    kept, doomed = (cluster.create(CONFIG_MAP, config_map(namespace, name)) for name in ("kept", "doomed"))
    cluster.patch(CONFIG_MAP, "kept", {"data": {"x": "2"}}, namespace=namespace)
    targets = [
        DeleteTarget(
            obj["metadata"]["name"], namespace, obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
        )
        for obj in (kept, doomed)
    ]
    outcomes = cluster.delete_many(CONFIG_MAP, targets, deadline=within)
    assert [outcome.wrote for outcome in outcomes] == [WriteResult.REFUSED, WriteResult.REMOVED]
    assert isinstance(outcomes[0].error, WriteConflict)
    assert cluster.get(CONFIG_MAP, "kept", namespace=namespace) is not None


# watch


def followed(cluster, namespace, version, *, kind=CONFIG_MAP, **options):
    given = {"namespace": namespace, "resource_version": version, "timeout_seconds": 60} | options
    return cluster.watch(kind, **given)


def heard(stream, count):
    found = []
    for event in stream:
        if event["type"] != "BOOKMARK":
            found.append((event["type"], event["object"]["metadata"]["name"]))
        if len(found) == count:
            break
    return found


def test_a_watch_tells_what_came_after_the_list(cluster, namespace):
    listing = cluster.list(CONFIG_MAP, namespace=namespace)
    mine = {"labels": {"mine": "yes"}}
    cluster.create(CONFIG_MAP, config_map(namespace, "a", **mine))
    cluster.create(CONFIG_MAP, config_map(namespace, "other"))
    cluster.patch(CONFIG_MAP, "a", {"data": {"b": "2"}}, namespace=namespace)
    cluster.delete(CONFIG_MAP, "a", namespace=namespace, uid=None)
    with followed(cluster, namespace, listing.resource_version, label_selector="mine=yes") as stream:
        assert heard(stream, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_an_object_that_leaves_a_selector_is_told_as_deleted(cluster, namespace):
    listing = cluster.list(CONFIG_MAP, namespace=namespace)
    cluster.create(CONFIG_MAP, config_map(namespace, "a", labels={"mine": "yes"}))
    labels = {"metadata": {"labels": {"mine": "no"}}}
    cluster.patch(CONFIG_MAP, "a", labels, namespace=namespace)
    cluster.patch(CONFIG_MAP, "a", {"data": {"b": "2"}}, namespace=namespace)
    with followed(cluster, namespace, listing.resource_version, label_selector="mine=yes") as stream:
        assert heard(stream, 2) == [("ADDED", "a"), ("DELETED", "a")]


def test_a_watch_ends_at_its_time(cluster, namespace):
    version = cluster.list(CONFIG_MAP, namespace=namespace).resource_version
    with followed(cluster, namespace, version, timeout_seconds=1) as stream:
        assert heard(stream, 1000) is not None


def test_a_version_too_old_is_told(cluster, namespace):
    """Asked of a kind that was installed later: a young server still remembers all of the others."""
    if memory := memory_of(cluster):
        memory.compact()
    said = []
    try:
        with followed(cluster, namespace, "1", kind=KAI_POD_GROUP) as stream:
            said = [(event["type"], event["object"].get("code")) for event in itertools.islice(stream, 1)]
    except Expired:
        said = [("ERROR", 410)]
    assert said == [("ERROR", 410)]


# the cluster itself


def test_logs_of_a_missing_pod_say_so(cluster, namespace):
    with pytest.raises(ObjectNotFound):
        cluster.logs("nope", namespace=namespace, tail_lines=5)


def test_the_log_of_a_pod_of_several_containers_needs_the_name_of_one(cluster, namespace):
    pods_allowed(cluster, namespace)
    several = [{"name": name, "image": "registry.k8s.io/pause:3.9"} for name in ("task", "injected")]
    cluster.create(POD, pod(namespace, "two", containers=several))
    with pytest.raises(Invalid, match="container name must be specified"):
        list(cluster.logs("two", namespace=namespace))


def test_a_log_of_a_missing_pod_cannot_be_followed(cluster, namespace):
    async def follow():
        async with cluster.follow_log("nope", namespace=namespace, tail_lines=5) as log:
            assert [chunk async for chunk in log] == []

    with pytest.raises(ObjectNotFound):
        asyncio.run(follow())


def test_a_cluster_has_an_identity_and_a_version(cluster):
    assert cluster.kube_system_uid() == cluster.get(NAMESPACE, "kube-system")["metadata"]["uid"]
    assert cluster.server_version().startswith("v1.")


def test_a_cluster_gives_its_time(cluster):
    before = datetime.now(UTC) - timedelta(seconds=2)  # it comes in whole seconds
    assert before <= cluster.server_time() <= datetime.now(UTC) + timedelta(seconds=1)


def test_discovery_tells_what_is_served(cluster):
    assert "podgroups" in cluster.discover("scheduling.run.ai", "v2alpha2")
    assert {"pods", "events"} <= cluster.discover("", "v1")
    assert cluster.discover("nothing.example.com", "v1") is None


def test_the_schema_of_a_served_custom_kind_can_be_read(cluster):
    if memory := memory_of(cluster):
        version = {
            "name": "v2alpha2",
            "served": True,
            "schema": {"openAPIV3Schema": {"properties": {"spec": {}}}},
        }
        memory.put(
            CRD, {"metadata": {"name": "podgroups.scheduling.run.ai"}, "spec": {"versions": [version]}}
        )
    assert "spec" in cluster.read_crd_schema(KAI_POD_GROUP)["properties"]
    assert cluster.read_crd_schema(UNSERVED) is None


def test_events_can_be_listed(cluster, namespace):
    assert cluster.list(EVENT, namespace=namespace).items == ()
