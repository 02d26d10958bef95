"""Servers of a trial's own: a cluster with all schedulers, which may be frozen, and the service beside it."""

import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from localcluster import controlplane, kueue, stack
from localcluster.api import Api
from localcluster.demo.view import View
from localcluster.directories import run_directory
from localcluster.lease_watch import LeaseWatch
from localcluster.rest import Rest
from localcluster.supervisor import Supervisor
from tests.e2e.conftest import World
from tests.e2e.restless_worlds import GPUS

SCHEDULERS = {"kai": "standin-kai", "kubernetes": "kube-scheduler", "kueue": "kueue"}
"""By their names in a backend, the processes that schedule."""


@dataclass
class Stand:
    """A cluster with all schedulers and the service beside it."""

    supervisor: Supervisor
    running: stack.Running
    world: World
    leases: LeaseWatch

    @contextmanager
    def frozen(self, *schedulers):
        """Stop these schedulers, all of them if none is named."""
        pids = [self.supervisor.find(SCHEDULERS[name]).pid for name in schedulers or SCHEDULERS]
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


@contextmanager
def stand(*, seconds):
    """Everything, with backends of each scheduler that a quota of their namespace bounds or does not."""
    more = {"OSMO_KUBECONFIG_PATHS": '["/"]', "OSMO_SCHEDULER_DISAGREES_SECONDS": str(seconds)}
    with run_directory("trials") as directory, Supervisor(log_dir=directory / "logs") as supervisor:
        running = stack.start(
            supervisor,
            directory=directory,
            options=stack.Options(),
            durable=False,
            progress=print,
            more=more,
            prepare=lambda plane: kueue.start(supervisor, plane),
        )
        api = Api(running.plane.access())
        world = World(
            service=Rest(api_url=running.api_url, token=running.token),
            api=api,
            view=View(api),
            kubeconfig=running.kubeconfig,
            namespace="trials",
            backend="b",
            prefix="t-",
        )
        for name in ("trials", *(f"trials-{scheduler}" for scheduler in SCHEDULERS)):
            controlplane.create_namespace(api, name)
        for scheduler in SCHEDULERS:
            add_backend(world, scheduler, suffix="", namespace="trials")
            add_backend(world, scheduler, suffix="-bounded", namespace=f"trials-{scheduler}")
        yield Stand(supervisor, running, world, LeaseWatch(supervisor, running.plane))
        api.close()


def add_backend(world, scheduler, *, suffix, namespace, **more):
    content: dict[str, Any] = {
        "kubeconfig": str(world.kubeconfig),
        "k8s_namespace": namespace,
        "scheduler_settings": {"scheduler_type": scheduler},
        "queue_settings": {"parent_quota": "unlimited"},
        **more,
    }
    path = f"{world.backend}-{scheduler}{suffix}"
    world.service.call("POST", f"/api/configs/backend/{path}", {"configs": content})
    if suffix:
        quota = {"metadata": {"name": "team"}, "spec": {"hard": {GPUS: "32"}}}
        world.api.create(f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
