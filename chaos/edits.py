"""Faults by administrators: pools and backends that are edited, broken, deleted and put back meanwhile."""

from functools import partial

from chaos.site import queue_settings
from chaos.storm import Storm
from localcluster import scenario


def edit_pool(storm: Storm) -> int:
    """Change what later submissions of a pool are frozen to, and change it back."""
    name = storm.generator.choice(sorted(scenario.PLACES))
    content = scenario.pool(name, scenario.PLACES[name])
    changed = {**content, "topology_keys": content["topology_keys"][-1:], "description": "edited"}
    storm.site.rest().put(f"/api/configs/pool/{name}", {"configs": changed})
    storm.later(storm.pause(2, 6), partial(_put_pool, storm, name))
    return 1


def _put_pool(storm: Storm, name: str) -> None:
    storm.site.rest().put(
        f"/api/configs/pool/{name}", {"configs": scenario.pool(name, scenario.PLACES[name])}
    )


def edit_backend(storm: Storm) -> int:
    """Give a backend another way to its cluster that leads nowhere for a while, then the old one."""
    name = storm.generator.choice(sorted(scenario.BACKENDS))
    wrong = storm.site.directory / "wrong.kubeconfig"
    if not wrong.exists():
        text = storm.site.running.kubeconfig.read_text()
        wrong.touch(mode=0o600)
        wrong.write_text(text.replace(str(storm.site.proxy.port), "1"))
    _put_backend(storm, name, str(wrong))
    storm.later(storm.pause(2, 6), partial(_put_backend, storm, name, str(storm.site.running.kubeconfig)))
    return 1


def _put_backend(storm: Storm, name: str, kubeconfig: str) -> None:
    content = {
        "kubeconfig": kubeconfig,
        "k8s_namespace": scenario.namespace(name),
        "scheduler_settings": {"scheduler_type": scenario.BACKENDS[name]},
        "queue_settings": queue_settings(name),
    }
    storm.site.rest().put(f"/api/configs/backend/{name}", {"configs": content})


def delete_pool(storm: Storm) -> int:
    """Delete a pool and then its backend under running groups, and make both anew."""
    client = storm.site.rest()
    client.call("DELETE", "/api/configs/pool/native", {"description": "chaos", "force": True})
    storm.later(storm.pause(3, 8), partial(_put_native, storm))
    client.call("DELETE", "/api/configs/backend/native", {"description": "chaos", "force": True})
    return 1


def _put_native(storm: Storm) -> None:
    _put_backend(storm, "native", str(storm.site.running.kubeconfig))
    _put_pool(storm, "native")


def configure(storm: Storm) -> None:
    """Have every backend and pool as it was in the beginning, soon; a write that fails is tried again."""
    for name in scenario.BACKENDS:
        storm.later(0.0, partial(_put_backend, storm, name, str(storm.site.running.kubeconfig)))
    for name in scenario.PLACES:
        storm.later(0.1, partial(_put_pool, storm, name))


FAULTS = {
    "edit pool": (3, edit_pool),
    "edit backend": (2, edit_backend),
    "delete pool and backend": (1, delete_pool),
}
