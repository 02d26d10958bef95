"""Real servers for tests: PostgreSQL, Redis and a Kubernetes API server, shared by all workers.

Nothing starts before a test asks for it, and every started process ends with the run (``shared``). Tests
share the servers, so each takes a corner of its own: a database of its own is pytest-django's doing, a Redis
database per worker, a namespace per test, nodes under a prefix of the test. A test in ``tests/unit`` that
asks for a server is an error before anything runs.

The directory of the run is made by the process that was started by hand, and its workers learn it
from the environment.
"""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localcluster import controlplane, nodes, shared
from localcluster.api import Api
from localcluster.directories import run_directory

DIRECTORY = "OSMO_TEST_SERVERS"
SERVER_FIXTURES = {
    "postgres_url",
    "redis_url",
    "plane",
    "plane_017",
    "standins",
    "standins_017",
    "kueue",
    "running_service",
    "workloads",
}
LEFT = pytest.StashKey[ExitStack]()


def pytest_configure(config: pytest.Config) -> None:
    if _is_worker(config):
        return
    stack = ExitStack()
    config.stash[LEFT] = stack
    directory = stack.enter_context(run_directory("test"))
    stack.callback(shared.end_all, directory)
    os.environ[DIRECTORY] = str(directory)


def pytest_unconfigure(config: pytest.Config) -> None:
    if LEFT in config.stash:
        config.stash[LEFT].close()
        os.environ.pop(DIRECTORY, None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unit = config.rootpath / "tests" / "unit"
    wrong = [
        item.nodeid
        for item in items
        if item.path.is_relative_to(unit) and SERVER_FIXTURES & set(getattr(item, "fixturenames", ()))
    ]
    if wrong:
        raise pytest.UsageError("tests in tests/unit never start a server:\n" + "\n".join(wrong))


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """The URL of a PostgreSQL of this run, as a user that may create databases."""
    return str(shared.join("databases", directory=_directory())["database_url"])


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The URL of a Redis database of this run that no other worker uses."""
    url = str(shared.join("databases", directory=_directory())["redis_url"])
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    return f"{url.rpartition('/')[0]}/{int(worker.removeprefix('gw')) % shared.REDIS_DATABASES}"


@pytest.fixture(scope="session")
def plane() -> controlplane.Plane:
    """A control plane with the kinds of KAI 0.13 and NVIDIA's driver, without stand-ins."""
    return _plane("cluster-0.13")


@pytest.fixture(scope="session")
def plane_017() -> controlplane.Plane:
    """The same with the kinds of KAI 0.17."""
    return _plane("cluster-0.17")


@pytest.fixture(scope="session")
def standins(plane: controlplane.Plane) -> controlplane.Plane:
    """The same cluster as ``plane``, with the stand-ins for KAI 0.13 and NVIDIA's controller at work."""
    shared.join("standins-0.13", directory=_directory())
    return plane


@pytest.fixture(scope="session")
def standins_017(plane_017: controlplane.Plane) -> controlplane.Plane:
    """The same as ``plane_017``, with the stand-ins for KAI 0.17 and NVIDIA's controller at work."""
    shared.join("standins-0.17", directory=_directory())
    return plane_017


@pytest.fixture(scope="session")
def kueue(plane: controlplane.Plane) -> controlplane.Plane:
    """The same cluster as ``plane``, with a real Kueue."""
    shared.join("kueue", directory=_directory())
    return plane


@pytest.fixture(scope="session")
def running_service() -> dict[str, Any]:
    """The whole service on that cluster: ``api_url``, an administrator's ``token``, ``kubeconfig``.

    ``admin_user`` and ``admin_password`` log that administrator in to the pages; ``environment`` is what
    its processes are told, ``processes`` the directory with their working directories.
    """
    return shared.join("service", directory=_directory())


@pytest.fixture(scope="session")
def workloads() -> tuple[controlplane.Plane, Path]:
    """A cluster with stand-ins whose one node runs pods as processes, and that kubelet's directory."""
    record = shared.join("workloads", directory=_directory())
    return shared.plane_of(record), Path(record["kubelet"])


@pytest.fixture(scope="session")
def kubeconfig(plane: controlplane.Plane) -> Path:
    """A kubeconfig of that cluster's administrator."""
    return plane.kubeconfig("admin")


@pytest.fixture(scope="session")
def cluster_api(plane: controlplane.Plane) -> Iterator[Api]:
    """A client of that cluster that knows nothing of the product."""
    api = Api(plane.access())
    yield api
    api.close()


@pytest.fixture
def namespace(cluster_api: Api) -> Iterator[str]:
    """A namespace of this test alone; afterwards its pods go at once, the rest when it may."""
    name = f"test-{secrets.token_hex(5)}"
    controlplane.create_namespace(cluster_api, name)
    yield name
    pods = f"/api/v1/namespaces/{name}/pods"
    cluster_api.call("DELETE", pods, query={"gracePeriodSeconds": "0"})
    cluster_api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def node_prefix() -> str:
    """The prefix of this test's nodes' names."""
    return f"n{secrets.token_hex(4)}-"


@pytest.fixture
def add_nodes(
    cluster_api: Api, node_prefix: str
) -> Iterator[Callable[[Iterable[nodes.Node]], list[nodes.Node]]]:
    """A function that creates nodes under this test's prefix and waits until they are Ready."""
    created: list[nodes.Node] = []

    def add(machines: Iterable[nodes.Node]) -> list[nodes.Node]:
        new = [replace(node, name=node_prefix + node.name) for node in machines]
        created.extend(new)
        nodes.create(cluster_api, new)
        nodes.wait_ready(cluster_api, new)
        return new

    yield add
    nodes.delete(cluster_api, created)


def _plane(part: shared.Part) -> controlplane.Plane:
    return shared.plane_of(shared.join(part, directory=_directory()))


def _directory() -> Path:
    return Path(os.environ[DIRECTORY])


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
