"""Fixtures of the tests that use the whole service, wherever they are; loaded with ``tests.plugin``.

Defined in a ``conftest.py`` and imported by others, a session's fixture would be made once for each of them.
"""

import secrets
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster.api import Access, Api
from localcluster.directories import CHECKOUT
from localcluster.rest import Rest

SECONDS = 150.0


@pytest.fixture(scope="session")
def own_token(running_service):
    """A token of an administrator of this worker alone: a user's limits are not shared with other tests."""
    name = f"worker-{secrets.token_hex(3)}"
    ended = subprocess.run(
        # the checks would load every page
        [sys.executable, CHECKOUT / "manage.py", "make_token", name, "--admin", "--skip-checks"],
        cwd=Path(running_service["processes"]) / "worker",
        env=running_service["environment"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.fixture(scope="session")
def stack(running_service, own_token, tmp_path_factory):
    """Backends of KAI and of Kubernetes' scheduler on the run's cluster, once for all tests of a worker.

    Each is probed every few seconds until the run ends, so others are made where a test asks for them. The
    service acts there with the rights of ``deploy/rbac`` alone.
    """
    from localcluster.demo.view import View  # noqa: PLC0415 -- every run loads this file, few need these
    from tests.e2e import rights  # noqa: PLC0415 -- the same
    from tests.e2e.conftest import World  # noqa: PLC0415 -- the same

    access = Access.from_kubeconfig(Path(running_service["kubeconfig"]))
    world = World(
        service=Rest(api_url=running_service["api_url"], token=own_token),
        api=Api(access),
        view=View(Api(access)),
        kubeconfig=Path(),
        namespace="",
        backend=f"e{secrets.token_hex(3)}",
        prefix="",
    )
    world.namespace = f"osmo-{world.backend}"
    rights.grant(world.api, world.namespace)
    admin = Path(running_service["kubeconfig"])
    processes = Path(running_service["processes"])
    accounts = tmp_path_factory.mktemp("accounts")
    world.kubeconfig = rights.kubeconfig(world.api, admin, accounts, processes=processes)
    for scheduler in ("kai", "kubernetes"):
        _add_backend(world, scheduler)
    return world


@pytest.fixture(scope="session")
def default_backend(stack):
    """A backend of Kubernetes' default scheduler, once for all tests of a worker that need it."""
    _add_backend(stack, "default")


def _add_backend(stack, scheduler):
    content = {
        "kubeconfig": str(stack.kubeconfig),
        "k8s_namespace": stack.namespace,
        "scheduler_settings": {"scheduler_type": scheduler},
        "queue_settings": {"parent_quota": "unlimited"},  # nodes of other tests come and go
    }
    stack.service.call("POST", f"/api/configs/backend/{stack.backend}-{scheduler}", {"configs": content})


@pytest.fixture
def world(stack):
    """The same with a prefix of this test for pools and nodes; its work ends and its nodes go afterwards."""
    mine = replace(stack, prefix=f"t{secrets.token_hex(3)}-")
    yield mine
    mine.clear()
