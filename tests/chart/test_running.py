"""A release whose pods run as processes, on real servers, with the rights of the chart alone."""

import compileall
import http.client
import io
import json
import os
import shutil
import subprocess
import tarfile
from contextlib import closing

import pytest
import redis

from localcluster.api import Api
from localcluster.directories import CHECKOUT
from localcluster.kubelet import image
from localcluster.kubelet.container_files import local_address
from tests.chart import running
from tests.chart.running import PAIR, Load, wait
from web.env import REFUSED

pytestmark = [
    pytest.mark.deep,
    pytest.mark.timeout(600),
]  # a release starts some ten processes, several times

INSTALL = ("install", "--wait", "--timeout", "4m")
EARLIER = "0.0.9"
EARLIER_COMMIT = "3ab0b0853ce1de7f5b1397b38cf861f95e22de0b"
"""Before web waited for workers and they reported; its schema lacks what later migrations add."""


@pytest.fixture
def site(helm, workloads, postgres_url, redis_url):
    api = Api(workloads[0].access())
    with (
        redis.Redis.from_url(redis_url) as broker,
        running.release(helm, api, workloads, postgres_url, redis_url) as made,
    ):
        broker.flushdb()
        yield made
        broker.flushdb()
    api.close()


@pytest.fixture(scope="session")
def earlier_checkout(tmp_path_factory):
    """The files of an earlier commit of this repository."""
    command = ("git", "-C", str(CHECKOUT), "archive", EARLIER_COMMIT)
    packed = subprocess.run(command, check=False, capture_output=True)
    if packed.returncode != 0:
        pytest.skip(f"there is no commit {EARLIER_COMMIT} (git fetch --unshallow): {packed.stderr.decode()}")
    directory = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(directory, filter="data")
    compileall.compile_dir(directory, quiet=2)
    return directory


@pytest.fixture
def earlier(workloads, earlier_checkout):
    """The tag of an image of that commit, which calls itself an earlier release."""
    home = workloads[1]
    tag = f"earlier-{os.getpid()}"
    directory = image.build(earlier_checkout, home / tag, version=EARLIER)
    link = image.image_link(home, f"osmo-topology:{tag}")
    link.symlink_to(directory)
    yield tag
    link.unlink()
    shutil.rmtree(directory)


def test_from_installation_to_removal_with_the_rights_of_the_chart(site, tmp_path):
    others = of_others(site)
    site.run(*INSTALL, changes={})
    site.note_pods()
    assert [probed(pod) for pod in site.processes()] == [200] * 4
    wait(lambda: "jobs" not in {plural for plural, _ in site.owned()})

    rest = site.log_in()
    site.make_pool()
    site.note("logged in, made a token, backend default and pool train")
    name = submitted(site)
    site.end_pods(name)
    wait(lambda: rest.workflow(name)["status"], lambda status: status == "COMPLETED", why=site.report)
    site.note(f"{name}: COMPLETED", *rest.events(name))
    site.run("test", "--timeout", "2m")
    site.note(*site.log_of("preflight").splitlines())

    refuse_what_does_not_fit(site, tmp_path)
    refuse_removal_while_work_runs(site)
    remove_with_its_work(site)
    assert of_others(site, make=False) == others
    site.note(*(f"  of others: {path}" for path in others))


def refuse_what_does_not_fit(site, directory):
    """A second release in the namespace, and a release that is not the next one."""
    second = site.command("install", "other", str(running.CHART), values=site.values)
    assert f"namespace {site.namespace} has release train of this chart already" in second.stderr
    words = site.refusal("upgrade", changes={}, chart=site.chart_of("0.9.0", directory))
    assert "0.9.0 is not the next one: upgrade one minor release at a time" in words


def refuse_removal_while_work_runs(site):
    name = submitted(site)
    before = {entry for entry in site.owned() if entry[0] not in {"jobs", "pods", "serviceaccounts"}}
    assert "removal" in site.refusal("uninstall")
    assert site.owned() >= before
    assert site.rest.workflow(name)["status"] == "RUNNING"


def remove_with_its_work(site):
    """Of the release stay the namespace of tasks and the pod of the test, of the service its mark."""
    words = site.refusal("upgrade", changes={})  # helm takes the release for half removed
    assert "has no deployed releases" in words
    site.run("rollback", "1")
    site.run("upgrade", "--wait", changes={"cleanup": {"enabled": True, "seconds": 120}})
    site.run("uninstall", "--wait", "--timeout", "4m")
    remaining = {("namespaces", site.tasks), ("pods", f"{site.full_name}-preflight")}
    wait(site.owned, lambda left: left == remaining)
    assert of_installation(site) == {"osmo-topology-installations"}
    site.note("what remains:", *(f"  of the release: {kind} {name}" for kind, name in sorted(remaining)))
    site.note(f"  of the service: configmap osmo-topology-installations in namespace {site.tasks}")


def submitted(site):
    """The name of a workflow that runs."""
    name = wait(lambda: site.rest.submit("train", PAIR), why=site.report)["name"]
    wait(lambda: site.rest.workflow(name)["status"], lambda status: status == "RUNNING", why=site.report)
    return name


def probed(pod):
    """The status of /livez, asked as a kubelet asks: by the pod's address, which is its Host too."""
    address = pod["status"]["podIP"]
    (container,) = pod["spec"]["containers"]
    port = container["ports"][0]["containerPort"]
    with closing(http.client.HTTPConnection(local_address(address), port, timeout=30)) as connection:
        connection.request("GET", "/livez", headers={"Host": f"{address}:{port}"})
        return connection.getresponse().status


def of_others(site, *, make=True):
    """What somebody else has in these namespaces and beside them: name to uid."""
    foreign = f"{site.namespace}-foreign"
    paths = {
        "/apis/scheduling.run.ai/v2/queues": {"spec": {}},
        "/apis/scheduling.k8s.io/v1/priorityclasses": {"value": 7},
        f"/api/v1/namespaces/{site.namespace}/configmaps": {"data": {"a": "b"}},
        f"/api/v1/namespaces/{site.namespace}/services": {"spec": {"ports": [{"port": 1}]}},
    }
    for path, content in paths.items() if make else ():
        kind = {"queues": "Queue", "priorityclasses": "PriorityClass"}.get(path.rpartition("/")[2])
        version = path.removeprefix("/apis/").rpartition("/")[0]
        typed = {"apiVersion": version, "kind": kind} if kind else {}
        site.api.create(path, {**typed, "metadata": {"name": foreign}, **content})
    return {path: site.api.get(f"{path}/{foreign}")["metadata"]["uid"] for path in paths}


def of_installation(site):
    """Names of what the service itself left in the namespace of tasks."""
    plurals = ("pods", "services", "secrets", "configmaps")
    names = {
        item["metadata"]["name"]
        for plural in plurals
        for item in site.api.list(f"/api/v1/namespaces/{site.tasks}/{plural}")[0]
    }
    return names - {"kube-root-ca.crt"}


def test_an_upgrade_under_load_and_the_way_back_lose_no_request(earlier_checkout, earlier, site, tmp_path):
    chart = site.chart_of(EARLIER, tmp_path, earlier_checkout)
    site.run(*INSTALL, changes={"image": {"tag": earlier}}, chart=chart)
    rest = site.log_in()
    site.make_pool()
    with Load(rest, "train") as load:
        wait(lambda: load.accepted)
        old = site.relay.ready()
        upgrade_without_workers(site)
        assert site.relay.ready() == old
        site.run("upgrade", "--wait", "--timeout", "4m", changes={})
        assert not set(old) & set(site.relay.ready())
        another(load)
        site.run("rollback", "1", "--wait", "--timeout", "4m")
        another(load)
    site.note(load.figures())
    assert load.failures == [], site.lines_of("database_away")
    # groups of the newer release recover, and the earlier one runs them without
    wait(lambda: {rest.workflow(name)["status"] for name in load.accepted}, lambda all_: all_ == {"RUNNING"})
    site.run("upgrade", "--wait", "--timeout", "4m", changes={})
    another_runs(site, load.accepted)
    site.run("uninstall", "--no-hooks")


def upgrade_without_workers(site):
    """Upgrade with a node for workers that there is not: new web waits for them and says so."""
    site.run("upgrade", changes={"worker": {"nodeSelector": {"osmo.local/kubelet": "nowhere"}}})
    (waiting,) = wait(lambda: new_web(site), lambda pods: pods and readyz(pods[0]).get("workers"))
    words = readyz(waiting)["workers"]
    assert "no worker of release" in words
    site.note(f"new web waits: {words}")


def another_runs(site, earlier):
    """The newer release is back: it accepts work, and what ran goes on running."""
    submitted(site)
    assert {site.rest.workflow(name)["status"] for name in earlier} == {"RUNNING"}


def another(load):
    """Wait until one more workflow is accepted."""
    before = len(load.accepted)
    wait(lambda: len(load.accepted) > before)


def new_web(site):
    """Pods of web that run the checkout's image."""
    return [pod for pod in site.pods("web") if pod["spec"]["containers"][0]["image"].endswith(":checkout")]


def readyz(pod):
    """The answer of a pod's readiness probe, or nothing while it does not answer."""
    address = pod["status"].get("podIP")
    if not address:
        return {}
    with closing(http.client.HTTPConnection(local_address(address), 8000, timeout=30)) as connection:
        try:
            connection.request("GET", "/readyz")
            return json.loads(connection.getresponse().read())
        except OSError:
            return {}


def test_a_failure_that_no_attempt_would_change_is_tried_once(site):
    running.secret(site.api, site.namespace, "osmo-short", **{"secret-key": "short"})
    words = site.refusal("install", changes={"secretKey": {"existingSecret": "osmo-short"}})
    assert "pre-install" in words
    (pod,) = site.pods("migrate")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == REFUSED
    assert "OSMO_SECRET_KEY" in site.log_of("migrate")


def test_a_database_that_is_away_leaves_nothing_half_installed(site):
    away = {"database": {"port": 1}, "jobs": {"deadlineSeconds": 60}}
    words = site.refusal("install", changes=away)
    assert "pre-install" in words
    left = {entry for entry in site.owned() if entry[0] not in {"pods", "jobs", "serviceaccounts"}}
    assert left == set()
    assert "PostgreSQL does not answer" in site.report()

    site.run("upgrade", "--install", "--timeout", "4m", changes={})
    wait(site.relay.ready, why=site.report)
    site.log_in()
    site.run("uninstall", "--no-hooks")
