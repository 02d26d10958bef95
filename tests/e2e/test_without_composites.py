"""A real Kubernetes 1.37 that serves no composite pod groups: one pod group for each task group remains."""

import secrets
from pathlib import Path

import pytest

from localcluster import controlplane
from localcluster.api import Api
from localcluster.build import binaries
from localcluster.demo.view import View
from localcluster.rest import Refused, Rest
from localcluster.supervisor import Supervisor
from tests.e2e import rights
from tests.e2e.conftest import World
from tests.e2e.nested_sets import KEYS, TWO_RACKS, of_kind, start_pair_in_a_rack, submit

MADE = ("Pod", "PodGroup (Kubernetes)", "Workload (Kubernetes)")


@pytest.fixture
def plain(running_service, own_token, tmp_path):
    """A backend on a cluster of its own without composites."""
    with Supervisor(log_dir=tmp_path / "logs") as supervisor:
        plane = controlplane.start(
            supervisor, directory=tmp_path / "cluster", binaries=binaries(), composites=False
        )
        api = Api(plane.access())
        name = f"p{secrets.token_hex(3)}"
        world = World(
            service=Rest(api_url=running_service["api_url"], token=own_token),
            api=api,
            view=View(api),
            kubeconfig=Path(),
            namespace=f"osmo-{name}",
            backend=name,
            prefix=f"{name}-",
        )
        rights.grant(api, world.namespace)
        accounts, processes = tmp_path / "accounts", Path(running_service["processes"])
        accounts.mkdir()
        kubeconfig = rights.kubeconfig(
            api, plane.kubeconfig(), accounts, processes=processes, token="token-without-composites"
        )
        content = {
            "kubeconfig": str(kubeconfig),
            "k8s_namespace": world.namespace,
            "scheduler_settings": {"scheduler_type": "kubernetes"},
        }
        path = f"/api/configs/backend/{name}-kubernetes"
        world.service.call("POST", path, {"configs": content})
        yield world
        world.clear()
        world.service.call("DELETE", f"/api/configs/pool/{world.prefix}pool")
        world.service.call("DELETE", path)


def test_flat_gangs_are_placed_and_sets_inside_sets_are_refused_with_what_is_missing(plain):
    pool = plain.make_pool(scheduler="kubernetes", topology_keys=KEYS)
    with pytest.raises(Refused) as refused:
        submit(plain, pool, right=["c", "d"], resources=TWO_RACKS)
    assert refused.value.status == 400
    for word in ("feature gates", "CompositePodGroup", "scheduling.k8s.io/v1alpha3=true"):
        assert word in str(refused.value.body)
    assert made(plain) == []

    name = start_pair_in_a_rack(plain, pool)
    plain.service.cancel(name)
    plain.wait_released(name)
    assert (plain.left(name), made(plain)) == ([], [])


def made(world):
    return [entry for kind in MADE for entry in of_kind(world, kind)]
