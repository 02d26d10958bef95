"""What hangs at one cluster is waited for by nobody else."""

import socket

import yaml

from tests.e2e.conftest import workflow

GROUPS = 60
"""Each would hold a thread for some twenty seconds: eight threads would be busy with them for minutes."""


def test_a_cluster_that_takes_connections_and_never_answers_delays_no_other_pool(world, tmp_path):
    with socket.create_server(("127.0.0.1", 0), backlog=512) as silent:
        kubeconfig = yaml.safe_load(world.kubeconfig.read_text())
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig["clusters"][0]["cluster"]["server"] = address
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig))
        backend = f"{world.prefix}silent"
        content = {
            "kubeconfig": str(path),
            "k8s_namespace": world.namespace,
            "scheduler_settings": {"scheduler_type": "kai"},
        }
        world.service.call("POST", f"/api/configs/backend/{backend}", {"configs": content})
        hanging = world.make_pool("hanging")
        moved = {"configs_dict": {"backend": backend}}
        world.service.call("PATCH", f"/api/configs/pool/{hanging}", moved)
        many = workflow(*[(f"g{n}", [f"t{n}"]) for n in range(GROUPS)])
        stuck = world.submit(hanging, many)
        well = world.submit(world.make_pool("well"), workflow(("g", ["a"])))
        world.wait_group(well, "g", "RUNNING")
        assert {group["status"] for group in world.groups(stuck).values()} == {"PROCESSING"}
        for name in (stuck, well):
            world.service.cancel(name, force=True)
        assert world.wait_released(stuck)["status"] == "FAILED_CANCELED"
