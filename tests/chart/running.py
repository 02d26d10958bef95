"""A release whose pods run: as an administrator installs it, and as its users reach it."""

import os
import re
import secrets
import shutil
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import requests
import urllib3

from localcluster import nodes, servers
from localcluster.demo.view import View
from localcluster.kubelet.relay import Relay
from localcluster.nodes import KUBELET_LABEL
from localcluster.rest import Refused, Rest
from tests.chart.values import CHART, merged

SECONDS = 180.0
COLLECTIONS = (
    *("/api/v1/namespaces", "/api/v1/serviceaccounts", "/api/v1/secrets", "/api/v1/services"),
    *("/api/v1/configmaps", "/api/v1/pods", "/apis/apps/v1/deployments", "/apis/batch/v1/jobs"),
    *(f"/apis/rbac.authorization.k8s.io/v1/{plural}" for plural in ("clusterroles", "clusterrolebindings")),
    *(f"/apis/rbac.authorization.k8s.io/v1/{plural}" for plural in ("roles", "rolebindings")),
    *("/apis/networking.k8s.io/v1/networkpolicies", "/apis/policy/v1/poddisruptionbudgets"),
)
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
RACK = "osmo.local/rack"
COMPONENTS = ("web", "worker", "beat", "observer", "jobs")


def wait(look, until=bool, seconds=SECONDS, why=lambda: ""):
    """Look until ``until`` is true of what is there; fails with the last look, and with ``why``."""
    deadline = time.monotonic() + seconds
    while not until(last := look()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s; at last: {last}\n{why()}"
        time.sleep(0.1)
    return last


@dataclass
class Release:
    """A namespace with a release, and a pool of two racks for it."""

    helm: object
    api: object
    kubeconfig: Path
    logs: Path  # of the kubelet
    relay: Relay
    namespace: str
    values: dict
    database_url: str
    name: str = "train"
    rest: Rest | None = None
    password: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    journal: list = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def tasks(self):
        return f"{self.namespace}-tasks"

    @property
    def full_name(self):
        return f"{self.name}-osmo-topology"

    def command(self, command, *arguments, values=None):
        where = ("--namespace", self.namespace, "--kubeconfig", str(self.kubeconfig))
        self.note(f"$ helm {command} {' '.join(arguments)} --namespace {self.namespace}")
        answer = self.helm.run(command, *arguments, *where, values=values)
        self.note(
            *(
                line
                for line in (answer.stdout + answer.stderr).splitlines()
                if "found symbolic link" not in line
            )
        )
        return answer

    def note(self, *lines):
        """Keep lines of a transcript, with the seconds since the beginning."""
        self.journal += [f"{time.monotonic() - self.began:6.1f}  {line}" for line in lines]

    def processes(self):
        """The pods of the four components, without those of Jobs."""
        parts = ("web", "worker", "beat", "observer")
        return [
            pod for part in parts for pod in self.pods(part) if not pod["metadata"].get("deletionTimestamp")
        ]

    def log_of(self, container):
        """The log of the only container of this name that ran for the release."""
        (pod,) = self.pods(container)
        folder = f"{pod['metadata']['name']}-{pod['metadata']['uid'][:8]}"
        return (self.logs / "pods" / folder / f"{container}.log").read_text()

    def note_pods(self):
        for pod in self.processes():
            (status,) = pod["status"]["containerStatuses"]
            state, *_ = status["state"]
            words = f"ready={status['ready']} restarts={status['restartCount']} {pod['status']['podIP']}"
            self.note(f"  pod {pod['metadata']['name']}: {state} {words}")

    def run(self, command, *arguments, changes=None, chart=CHART):
        """helm, which must succeed; with the chart and values unless ``changes`` is None."""
        answer = self.attempt(command, *arguments, changes=changes, chart=chart)
        assert answer.returncode == 0, answer.stderr + self.report()
        return answer.stdout

    def attempt(self, command, *arguments, changes=None, chart=CHART):
        """The same, which may fail."""
        with_values = () if changes is None else (str(chart),)
        values = None if changes is None else merged(changes, self.values)
        return self.command(command, self.name, *with_values, *arguments, values=values)

    def refusal(self, command, *arguments, changes=None, chart=CHART):
        """The words of helm, which must fail."""
        answer = self.attempt(command, *arguments, changes=changes, chart=chart)
        assert answer.returncode != 0, answer.stdout
        return answer.stderr

    def column(self, table, name):
        """The different values of a column of the release's database."""
        with psycopg.connect(self.database_url) as connection:
            return {value for (value,) in connection.execute(f"SELECT DISTINCT {name} FROM {table}")}

    def chart_of(self, version, directory):
        """The chart with another version, as another release has it."""
        target = directory / f"chart-{version}"
        shutil.copytree(CHART, target)
        path = target / "Chart.yaml"
        path.write_text(re.sub(r"(?m)^(version|appVersion): .*$", rf"\1: {version}", path.read_text()))
        return target

    def owned(self):
        """Plural and name of everything that bears the label of the release, in its namespaces or in none."""
        query = {"labelSelector": f"app.kubernetes.io/instance={self.name}"}
        listed = [(path, item) for path in COLLECTIONS for item in self.api.list(path, query=query)[0]]
        return {
            (path.rpartition("/")[2], item["metadata"]["name"])
            for path, item in listed
            if self.namespace in (item["metadata"].get("namespace", ""), item["metadata"]["name"])
            or self.namespace in item["metadata"]["name"]
            or item["metadata"].get("namespace") == self.tasks
            if not item["metadata"].get("deletionTimestamp")
        }

    def pods(self, component=""):
        label = f"app.kubernetes.io/instance={self.name}"
        query = {"labelSelector": f"{label},app.kubernetes.io/component={component}" if component else label}
        return self.api.list(f"/api/v1/namespaces/{self.namespace}/pods", query=query)[0]

    def report(self):
        """Pods with their states and the ends of their logs, for a failed assertion."""
        lines = []
        for pod in self.pods():
            name = pod["metadata"]["name"]
            states = [status["state"] for status in pod["status"].get("containerStatuses") or []]
            lines.append(f"{name}: {pod['status'].get('phase')} {states}")
            for log in (self.logs / "pods").glob(f"{name}-{pod['metadata']['uid'][:8]}/*.log"):
                lines += [f"    {line}" for line in log.read_text().splitlines()[-8:]]
        return "\n".join(lines)

    def lines_of(self, event):
        """Log lines about an event, of every pod that ran on this kubelet; for a failed assertion."""
        logs = sorted((self.logs / "pods").glob("*/*.log"))
        lines = [line for log in logs for line in log.read_text().splitlines() if event in line]
        return "\n".join(lines) or f"no log has {event}"

    def log_in(self):
        """Log the first administrator in to the pages, and make a token there."""
        with requests.Session() as session:
            page = session.get(f"{self.relay.url}/admin/login/", timeout=60)
            form = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
            content = {"username": "admin", "password": self.password, "csrfmiddlewaretoken": form[1]}
            answer = session.post(f"{self.relay.url}/admin/login/?next=/admin/", data=content, timeout=60)
            assert answer.status_code == 200, answer.text[:500]
            headers = {"X-CSRFToken": session.cookies["csrftoken"], "Sec-Fetch-Site": "same-origin"}
            made = session.post(f"{self.relay.url}/api/auth/access_token/first", headers=headers, timeout=60)
            assert made.status_code == 200, made.text
        self.rest = Rest(api_url=self.relay.url, token=made.json()["token"])
        return self.rest

    def make_pool(self, name="train"):
        """Register the cluster with each process's own account, and a pool of two racks."""
        settings = {"scheduler_type": "kai"}
        quota = {"parent_quota": "unlimited"}
        backend = {"k8s_namespace": self.tasks, "scheduler_settings": settings, "queue_settings": quota}
        self.rest.put("/api/configs/backend/default", {"configs": backend})
        labels = {"osmo.local/pool": self.namespace}
        made = [
            node
            for rack in ("r0", "r1")
            for node in nodes.rack(f"{self.namespace}-{rack}", count=2, gpus=4, labels=labels | {RACK: rack})
        ]
        nodes.create(self.api, made)
        nodes.wait_ready(self.api, made)
        content = {
            "backend": "default",
            "node_selector": labels,
            "topology_keys": [{"key": "rack", "label": RACK}],
            "platforms": {"gpu": {}},
            "default_platform": "gpu",
        }
        self.rest.put(f"/api/configs/pool/{name}", {"configs": content})

    def workflow(self, name):
        return self.rest.workflow(name)

    def end_pods(self, workflow):
        """Let every pod of a workflow end with success, as a node would."""
        view = View(self.api)
        ended = {"metadata": {"annotations": {"sim.osmo.local/run-for": "0s"}}}
        for group in self.rest.workflow(workflow)["groups"]:
            for pod in view.of_group(self.tasks, "Pod", group["uuid"]):
                self.api.patch(f"/api/v1/namespaces/{self.tasks}/pods/{pod['metadata']['name']}", ended)


PAIR = """workflow:
  name: first
  groups:
  - name: g
    tasks:
    - {name: a, image: busybox, command: [sleep], lead: true, resource: one}
    - {name: b, image: busybox, command: [sleep], resource: one}
  resources:
    one: {gpu: 4, topology: [{key: rack}]}
"""

SMALL = """workflow:
  name: small
  tasks:
  - {name: a, image: busybox, command: [sleep], resource: one}
  resources:
    one: {cpu: 1}
"""


def secret(api, namespace, name, **content):
    api.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": name}, "stringData": content})


def chosen_values(database, broker, *, url, tasks):
    """The values of a small release on given servers, every component on the node that runs processes."""
    where = {"nodeSelector": {KUBELET_LABEL: "processes"}}
    topology = {"replicas": 1, **where}
    return {
        "url": url,
        "image": {"repository": "osmo-topology", "tag": "checkout"},
        "secretKey": {"existingSecret": "osmo-key"},
        "administrator": {"existingSecret": "osmo-administrator"},
        "database": {
            "existingSecret": "osmo-database",
            "host": database.hostname,
            "port": database.port,
            "name": database.path.lstrip("/"),
        },
        "redis": {
            "existingSecret": "osmo-redis",
            "host": broker.hostname,
            "port": broker.port,
            "database": int(broker.path.lstrip("/")),
            "passwordKey": "password",
        },
        "logs": {"ephemeral": True},
        "settings": {
            "OSMO_LOG_STORE": "file:///var/lib/osmo-topology/logs"
        },  # the default, where paths can be moved
        "taskNamespaces": [{"name": tasks, "create": True}],
        "web": {**topology, "processes": 1},
        "worker": topology,
        "beat": where,
        "observer": topology,
        "jobs": where,
    }


@contextmanager
def release(helm, api, workloads, postgres_url, redis_url):
    """A namespace of restricted pods with the Secrets that values name; nothing is installed yet."""
    plane, kubelet = workloads
    namespace = f"osmo-{secrets.token_hex(4)}"
    database_url = servers.create_database(postgres_url, namespace.replace("-", "_"))
    database = urlsplit(database_url)
    broker = urlsplit(redis_url)
    api.create("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": RESTRICTED}})
    with Relay(api, namespace, "train-osmo-topology-web") as relay:
        values = chosen_values(database, broker, url=relay.url, tasks=f"{namespace}-tasks")
        made = Release(helm, api, plane.kubeconfig("admin"), kubelet, relay, namespace, values, database_url)
        secret(api, namespace, "osmo-key", **{"secret-key": secrets.token_urlsafe(40)})
        secret(api, namespace, "osmo-database", username=database.username, password=database.password)
        secret(api, namespace, "osmo-redis", password=broker.password)
        secret(api, namespace, "osmo-administrator", password=made.password)
        try:
            yield made
        finally:
            if folder := os.environ.get("OSMO_TRANSCRIPTS"):
                name = os.environ["PYTEST_CURRENT_TEST"].rpartition("::")[2].partition(" ")[0]
                (Path(folder) / f"{name}.txt").write_text("\n".join(made.journal) + "\n")
            for path in (namespace, made.tasks):
                api.call("DELETE", f"/api/v1/namespaces/{path}/pods", query={"gracePeriodSeconds": "0"})
                api.delete(f"/api/v1/namespaces/{path}")


class Load:
    """Users who submit and read all along, each request on a connection of its own."""

    def __init__(self, rest, pool):
        self._rest, self._pool = rest, pool
        self.accepted, self.failures, self.seconds = [], [], []
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(act,)) for act in (self._submit, self._read)
        ]

    def __enter__(self):
        self._rest.headers["Connection"] = "close"
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def figures(self):
        """What the users saw, as a line."""
        seconds = sorted(self.seconds)
        share = {part: seconds[int(len(seconds) * part)] for part in (0.5, 0.95)}
        return (
            f"{len(seconds)} requests answered, {len(self.failures)} failed; "
            f"{len(self.accepted)} workflows accepted; seconds "
            f"p50 {share[0.5]:.3f}, p95 {share[0.95]:.3f}, most {seconds[-1]:.3f}"
        )

    def _repeat(self, act):
        while not self._over.wait(0.4):
            began = time.monotonic()
            try:
                act()
                self.seconds.append(time.monotonic() - began)
            except (Refused, urllib3.exceptions.HTTPError, ValueError) as error:
                self.failures.append(f"{act.__name__}: {error!r}")

    def _submit(self):
        self.accepted.append(self._rest.submit(self._pool, SMALL)["name"])

    def _read(self):
        self._rest.get(f"/api/pool/{self._pool}/topology")
