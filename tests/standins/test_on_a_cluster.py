"""The stand-ins at work on a real API server, with kwok's nodes."""

import signal
import time

import pytest
import urllib3

from localcluster import build, controlplane
from localcluster.api import Api, ApiError
from localcluster.crds import kai
from localcluster.standins.commands import commands
from localcluster.supervisor import Supervisor
from tests.standins.conftest import LIMIT_SECONDS, settle

VERSIONS = pytest.mark.parametrize("version", ["0.13", "0.17"])


@pytest.fixture
def plane_of(request):
    """The cluster of a version, with its stand-ins; started only when asked for."""
    return lambda version: request.getfixturevalue("standins" if version == "0.13" else "standins_017")


def tree(corner, *, sizes):
    subs = [
        {"name": f"s{number}", "minMember": size, "topologyConstraint": corner.both("rack")}
        for number, size in enumerate(sizes)
    ]
    return {"subGroups": subs, "topologyConstraint": corner.both("zone")}


def reasons_of_pods(corner):
    return {each["reason"] for each in corner.all("events") if each["involvedObject"]["kind"] == "Pod"}


@VERSIONS
def test_a_gang_of_two_racks_in_one_zone_is_bound_and_runs(version, plane_of, make_corner):
    corner = make_corner(plane_of(version), {"a/r1": 2, "b/r2": 2, "b/r3": 2})
    corner.pod_group("g", **tree(corner, sizes=(2, 2)))
    corner.pods("g", 2, prefix="x", subgroup="s0", gpus=8)
    corner.pods("g", 2, prefix="y", subgroup="s1", gpus=8)

    running = corner.until(lambda: len(found := corner.running()) == 4 and found)

    racks = [{running[f"{prefix}{number}"].rsplit("-", 1)[0] for number in range(2)} for prefix in "xy"]
    assert sorted(racks, key=str) == [{f"{corner.name}-r2"}, {f"{corner.name}-r3"}]
    corner.until(lambda: "Scheduled" in reasons_of_pods(corner))  # told after the binding, by the binder


def test_a_gang_that_cannot_be_placed_says_why_and_is_placed_once_there_is_room(standins, make_corner):
    corner = make_corner(standins, {"a/r1": 2, "b/r2": 2})
    corner.pod_group("blocker", minMember=1)
    corner.pods("blocker", 1, prefix="b", gpus=8)
    corner.until(corner.running)
    corner.pod_group("g", minMember=4)
    corner.pods("g", 4, gpus=8)

    def refused():  # the scheduler may have looked while the pods were still being created
        conditions = corner.group("g").get("status", {}).get("schedulingConditions") or [{"message": ""}]
        return "Resources were found for 3 pods while 4 are required" in conditions[-1]["message"]

    corner.until(refused)
    told = corner.until(lambda: corner.api.get(corner.path("pods", "p0"))["status"].get("conditions"))
    assert (told[0]["type"], told[0]["status"], told[0]["reason"]) == (
        "PodScheduled",
        "False",
        "Unschedulable",
    )

    corner.api.delete(corner.path("pods", "b0"))
    corner.until(lambda: len(corner.running()) == 4)
    assert corner.group("g")["status"]["schedulingConditions"], "v0.13 never takes them back"


@VERSIONS
def test_a_running_pod_is_deleted_for_one_that_waits_and_finds_its_place_once_made_again(
    version, plane_of, make_corner
):
    corner = make_corner(plane_of(version), {"a/r1": 2})
    for count, name in enumerate(("x", "filler", "y"), start=1):
        corner.pod_group(name, minMember=1)
        corner.pods(name, 1, prefix=name, gpus=4)
        corner.until(lambda count=count: len(corner.running()) == count)
    corner.api.delete(corner.path("pods", "filler0"))
    corner.until(lambda: corner.running().keys() == {"x0", "y0"})

    corner.pod_group("big", minMember=1)
    corner.pods("big", 1, prefix="big", gpus=8)

    corner.until(lambda: "big0" in corner.running())
    (kept,) = corner.running().keys() - {"big0"}
    gone = "xy".replace(kept[0], "")
    corner.pods(gone, 1, prefix=gone, gpus=4)
    running = corner.until(lambda: len(pods := corner.running()) == 3 and pods)
    assert running["x0"] == running["y0"] != running["big0"]


def test_a_pod_waits_for_its_config_map_and_says_so(standins, make_corner):
    corner = make_corner(standins, {"a/r1": 1})
    corner.pod_group("g", minMember=1)
    container = {"name": "main", "image": "any", "envFrom": [{"configMapRef": {"name": "settings"}}]}
    body = {
        "metadata": {"name": "p0", "annotations": {"pod-group-name": f"{corner.name}-g"}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "nodeSelector": {"corner": corner.name},
            "containers": [container],
        },
    }
    corner.api.create(corner.path("pods"), body)

    def refused():
        conditions = corner.group("g").get("status", {}).get("schedulingConditions") or [{"message": ""}]
        return "ConfigMap: Missing required configmaps: [settings]" in conditions[-1]["message"]

    corner.until(refused)
    config_maps = f"/api/v1/namespaces/{corner.name}/configmaps"
    corner.api.create(config_maps, {"metadata": {"name": "settings"}})
    corner.until(lambda: "p0" in corner.running())


def test_v0_17_takes_the_conditions_back(standins_017, make_corner):
    corner = make_corner(standins_017, {"a/r1": 1, "b/r2": 1})
    corner.pod_group("blocker", minMember=1)
    corner.pods("blocker", 1, prefix="b", gpus=8)
    corner.until(corner.running)
    corner.pod_group("g", minMember=2)
    corner.pods("g", 2, gpus=8)
    corner.until(lambda: corner.group("g").get("status", {}).get("schedulingConditions"))

    corner.api.delete(corner.path("pods", "b0"))

    corner.until(lambda: not corner.group("g")["status"].get("schedulingConditions"))
    corner.until(lambda: len(corner.running()) == 2)


def test_a_stale_gang_is_deleted_after_its_grace_period(standins_017, make_corner):
    corner = make_corner(standins_017, {"a/r1": 2, "b/r2": 2})
    corner.pod_group("g", minMember=4, stalenessGracePeriod="1s")
    corner.pods("g", 4, gpus=8)
    corner.until(lambda: len(corner.running()) == 4)

    orders = {"sim.osmo.local/run-for": "0s", "sim.osmo.local/exit-code": "3"}
    corner.api.patch(corner.path("pods", "p2"), {"metadata": {"annotations": orders}})

    annotation = "kai.scheduler/stale-podgroup-timestamp"
    corner.until(lambda: annotation in corner.group("g")["metadata"].get("annotations", {}))
    corner.until(lambda: {each["metadata"]["name"] for each in corner.all("pods")} == {"p2"})
    corner.until(lambda: {"StaleJob", "Evict"} <= {each["reason"] for each in corner.all("events")})


@VERSIONS
def test_claims_are_allocated_and_a_domain_goes_away_under_running_pods(version, plane_of, make_corner):
    corner = make_corner(plane_of(version), {"a/r1": 4, "b/r2": 4}, cliques=True)
    for number in (1, 2):
        corner.compute_domain(f"cd{number}")
        corner.pod_group(f"g{number}", minMember=4, topologyConstraint=corner.both("rack"))
        corner.pods(f"g{number}", 4, prefix=f"p{number}", gpus=4, template=f"cd{number}-channel")
    corner.until(lambda: len(corner.running()) == 8)

    claims = corner.all("resourceclaims")
    devices = {each["status"]["allocation"]["devices"]["results"][0]["pool"] for each in claims}
    assert devices == set(corner.running().values()), "one channel per node"
    domain = corner.path("computedomains", "cd1")
    status = corner.until(
        lambda: len(found := corner.api.get(domain)["status"].get("nodes", [])) == 4 and found
    )
    assert {each["cliqueID"] for each in status} in ({f"{corner.name}.r1"}, {f"{corner.name}.r2"})
    assert sorted(each["index"] for each in status) == [0, 1, 2, 3]

    corner.api.delete(domain)

    corner.until(lambda: corner.api.find(domain) is None)
    assert corner.api.find(corner.path("resourceclaimtemplates", "cd1-channel")) is None
    assert len(corner.running()) == 8, "the pods run on, without their fabric"
    assert len(corner.all("resourceclaims")) == 8


@pytest.fixture
def mark_daemon(cluster_api):
    """A function that marks the daemon of a node: ``not-ready``, ``absent``, or None for well."""

    def mark(node, word):
        annotations = {"sim.osmo.local/compute-domain-daemon": word}
        cluster_api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}})

    return mark


def test_a_pod_is_created_only_once_its_daemon_is_ready_and_runs_on_when_that_is_lost(
    standins, make_corner, mark_daemon
):
    corner = make_corner(standins, {"a/r1": 2}, cliques=True)
    node = f"{corner.name}-r1-1"
    mark_daemon(node, "not-ready")
    corner.compute_domain("cd")
    corner.pod_group("g", minMember=2)
    corner.pods("g", 2, gpus=4, template="cd-channel")

    def entries():
        nodes = corner.api.get(corner.path("computedomains", "cd")).get("status", {}).get("nodes") or ()
        return {entry["name"]: entry["status"] for entry in nodes}

    def creating():
        pods = (pod for pod in corner.all("pods") if pod["spec"].get("nodeName") == node)
        statuses = [status for pod in pods for status in pod["status"].get("containerStatuses") or ()]
        return [status["state"]["waiting"]["reason"] for status in statuses if "waiting" in status["state"]]

    assert corner.until(creating) == ["ContainerCreating"]
    corner.until(lambda: "FailedPrepareDynamicResources" in reasons_of_pods(corner))
    corner.until(lambda: len(corner.running()) == 1)
    assert entries()[node] == "NotReady"

    mark_daemon(node, None)
    corner.until(lambda: len(corner.running()) == 2)
    corner.until(lambda: set(entries().values()) == {"Ready"})

    mark_daemon(node, "absent")
    corner.until(lambda: node not in entries())
    assert len(corner.running()) == 2


def test_a_second_gang_waits_for_the_channels_of_the_first(standins, make_corner):
    corner = make_corner(standins, {"a/r1": 2}, cliques=True)
    for name in ("one", "two"):
        corner.compute_domain(name)
    corner.pod_group("one", minMember=2)
    corner.pods("one", 2, prefix="x", gpus=4, template="one-channel")
    corner.until(lambda: len(corner.running()) == 2)
    corner.pod_group("two", minMember=2)
    corner.pods("two", 2, prefix="y", gpus=4, template="two-channel")

    def refused():
        conditions = corner.group("two").get("status", {}).get("schedulingConditions") or [{"message": ""}]
        return "cannot allocate all claims" in conditions[-1]["message"]

    corner.until(refused)
    for number in range(2):
        corner.api.delete(corner.path("pods", f"x{number}"))
    corner.until(lambda: sorted(corner.running()) == ["y0", "y1"])


def test_names_no_label_could_hold_are_accepted_by_v0_13(standins, make_corner):
    corner = make_corner(standins, {"a/r1": 1})

    corner.pod_group(
        "g", subGroups=[{"name": "Upper"}, {"name": "x" * 70, "parent": "Upper", "minMember": 1}]
    )

    assert corner.group("g")["spec"]["subGroups"][1]["name"] == "x" * 70


def test_only_the_webhook_refuses_a_name_that_stands_twice(standins, make_corner):
    corner = make_corner(standins, {"a/r1": 1})
    twice = [{"name": "same", "minMember": 1}, {"name": "same", "minMember": 1}]

    with pytest.raises(ApiError, match="duplicate subgroup names"):
        corner.pod_group("g", subGroups=twice)

    pod_group = kai.definitions("0.13")[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    groups = pod_group["properties"]["spec"]["properties"]["subGroups"]
    assert groups.get("x-kubernetes-list-type") is None
    assert "x-kubernetes-validations" not in groups


def test_the_levels_of_a_topology_cannot_be_changed(standins, make_corner):
    corner = make_corner(standins, {"a/r1": 1})
    path = f"/apis/kai.scheduler/v1alpha1/topologies/{corner.name}-rack"

    with pytest.raises(ApiError) as refusal:
        corner.api.patch(path, {"spec": {"levels": [{"nodeLabel": "other/label"}]}})
    assert refusal.value.code == 422


BAD_LEVELS = {
    "a level twice": ["a.b/c", "a.b/c"],
    "the host anywhere but last": ["kubernetes.io/hostname", "a.b/c"],
    "more than sixteen": [f"a.b/c{number}" for number in range(17)],
}


@pytest.mark.parametrize("case", BAD_LEVELS)
def test_topologies_refuse(case, plane, cluster_api):
    body = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"generateName": "refused-"},
        "spec": {"levels": [{"nodeLabel": each} for each in BAD_LEVELS[case]]},
    }

    with pytest.raises(ApiError) as refusal:
        cluster_api.create("/apis/kai.scheduler/v1alpha1/topologies", body)
    assert refusal.value.code == 422


def test_they_outlive_a_restart_of_the_api_server_and_end_cleanly(tmp_path):
    with Supervisor(log_dir=tmp_path / "logs") as supervisor:
        plane = controlplane.start(supervisor, directory=tmp_path / "cluster", binaries=build.binaries())
        standins = [supervisor.start(command) for command in commands(plane, kai_version="0.13")]
        api = Api(plane.access())
        controlplane.create_namespace(api, "corner")
        corner, _ = settle(api, "corner", {"a/r1": 2, "b/r2": 2}, cliques=True)
        corner.pod_group("before", minMember=2)
        corner.pods("before", 2, prefix="x", gpus=8)
        corner.until(lambda: len(corner.running()) == 2)

        supervisor.start(supervisor.stop_one("kube-apiserver", with_signal=signal.SIGKILL))
        answering(corner)
        corner.compute_domain("cd")
        corner.pod_group("after", minMember=2)
        corner.pods("after", 2, prefix="y", gpus=8, template="cd-channel")
        corner.until(lambda: len(corner.running()) == 4)

        api.close()
        for child in standins:
            child.check()
            supervisor.stop_one(child.command.name)
            assert child.process.returncode == 0, child.log.read_text()
        # started last, so it would be stopped first, and wait for the others' watches
        supervisor.stop_one("kube-apiserver", with_signal=signal.SIGKILL)


def answering(corner):
    """Wait until the API server serves everything again."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        try:
            return corner.all("computedomains")
        except (ApiError, urllib3.exceptions.HTTPError):
            assert time.monotonic() < deadline
            time.sleep(0.1)
