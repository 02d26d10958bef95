"""A release whose pods run as processes, on real servers, with the rights of the chart alone."""

import http.client
import json
import os
import shutil
from contextlib import closing
from functools import partial

import pytest
import redis

from localcluster.api import Api
from localcluster.directories import CHECKOUT
from localcluster.kubelet import image
from localcluster.kubelet.container_files import local_address
from tests.chart import running
from tests.chart.running import PAIR, Load, wait
from web.env import REFUSED
from web.release import VERSION

pytestmark = [
    pytest.mark.deep,
    pytest.mark.timeout(600),
]  # a release starts some ten processes, several times

INSTALL = ("install", "--wait", "--timeout", "4m")
MAJOR, MINOR, _ = map(int, VERSION.split("."))
NEXT = f"{MAJOR}.{MINOR + 1}.0"
EXPANSION = """
from django.db import migrations, models

from web.database.migrating import LockTables


class Migration(migrations.Migration):
    dependencies = [("workflows", "{head}")]
    operations = [
        LockTables("workflow", "task"),
        migrations.AddField("workflow", "of_next", models.IntegerField(default=7, db_default=7)),
        migrations.AddField("task", "of_next", models.TextField(null=True)),
    ]
"""
INDEX = """
from django.db import migrations, models

from web.database.migrating import BuildIndex


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("workflows", "{head}")]
    operations = [BuildIndex("task", models.Index(fields=["of_next"], name="task_of_next"))]
"""
"""What the next release adds, on a copy of the checkout: columns and an index of big tables."""


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


@pytest.fixture
def following(workloads):
    """The tag of an image of the next release: the checkout with further migrations."""
    home = workloads[1]
    tag = f"next-{os.getpid()}"
    directory = image.build(CHECKOUT, home / tag, version=NEXT)
    migrations = directory / "files" / "migrations" / "workflows"
    head = (migrations / "head.txt").read_text().strip()
    for name, text in {"9998_expansion": EXPANSION, "9999_index": INDEX}.items():
        (migrations / f"{name}.py").write_text(text.format(head=head))
        head = name
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


def test_an_upgrade_under_load_and_the_way_back_lose_no_request(following, site, tmp_path):
    chart = site.chart_of(NEXT, tmp_path)
    to_next = partial(site.run, "upgrade", "--wait", "--timeout", "4m", chart=chart)
    site.run(*INSTALL, changes={})
    rest = site.log_in()
    site.make_pool()
    with Load(rest, "train") as load:
        wait(lambda: load.accepted)
        old = site.relay.ready()
        upgrade_without_workers(site, following, chart)
        assert site.relay.ready() == old
        to_next(changes={"image": {"tag": following}})
        assert not set(old) & set(site.relay.ready())
        assert site.column("workflows_workflow", "of_next") == {7}
        another(load)
        site.run("rollback", "1", "--wait", "--timeout", "4m")
        another(load)
    site.note(load.figures())
    assert load.failures == [], site.lines_of("database_away")
    wait(lambda: {rest.workflow(name)["status"] for name in load.accepted}, lambda all_: all_ == {"RUNNING"})
    to_next(changes={"image": {"tag": following}})
    another_runs(site, load.accepted)
    site.run("uninstall", "--no-hooks")


def upgrade_without_workers(site, tag, chart):
    """Upgrade with a node for workers that there is not: new web waits for them and says so."""
    nowhere = {"worker": {"nodeSelector": {"osmo.local/kubelet": "nowhere"}}, "image": {"tag": tag}}
    site.run("upgrade", changes=nowhere, chart=chart)
    (waiting,) = wait(lambda: new_web(site, tag), lambda pods: pods and readyz(pods[0]).get("workers"))
    words = readyz(waiting)["workers"]
    assert f"no worker of release {NEXT}" in words
    site.note(f"new web waits: {words}")


def another_runs(site, before):
    """The next release is back: it accepts work, and what ran goes on running."""
    submitted(site)
    assert {site.rest.workflow(name)["status"] for name in before} == {"RUNNING"}


def another(load):
    """Wait until one more workflow is accepted."""
    before = len(load.accepted)
    wait(lambda: len(load.accepted) > before)


def new_web(site, tag):
    return [pod for pod in site.pods("web") if pod["spec"]["containers"][0]["image"].endswith(f":{tag}")]


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
