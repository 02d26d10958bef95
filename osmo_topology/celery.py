"""The Celery application: messages that notify workers, and the sweeps that make lost ones harmless."""

import os
from typing import Any, Final

from celery import Celery
from celery.signals import (
    beat_init,
    setup_logging,
    task_postrun,
    task_prerun,
    worker_init,
    worker_ready,
)
from django_structlog.celery.steps import DjangoStructLogInitStep
from kombu.entity import Queue

from web.operation import periodic
from web.operation.foreign_messages import drop_foreign_messages
from web.operation.interpreter import share_interpreter
from web.operation.process_memory import settle

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_topology.settings")

drop_foreign_messages()
app = Celery("osmo_topology", fixups=["web.database.connections:fixup"])
app.set_default()  # also in threads that did not make it: those of gunicorn
app.config_from_object("django.conf:settings", namespace="CELERY")
app.steps["worker"].add(DjangoStructLogInitStep)
app.autodiscover_tasks()

PROBE_SECONDS: Final = 15.0
"""Between two probes of a backend."""

SYNC_SECONDS: Final = 5.0
"""Between two syncs of a cluster's queues and topologies."""

EVERY = {
    "workflows.tasks.sweep_due_groups": periodic.SWEEP_SECONDS,
    "workflows.tasks.sweep_conclusions": 30.0,
    "workflows.tasks.sweep_conditions": 2.0,
    "workflows.tasks.sweep_orphans": 60.0,
    "workflows.tasks.measure_fragmentation": 60.0,
    "workflows.tasks.seek_orders": 10.0,
    "workflows.tasks.judge_schedulers": 20.0,
    "workflows.tasks.purge_observations": 300.0,
    "workflows.tasks.purge_old_rows": 60.0,
    "workflows.tasks.purge_revisions": 600.0,
    "pools.apply_declared": 15.0,
    "workflows.tasks.sweep_logs": 5.0,
    "workflows.tasks.sweep_news": 5.0,
    "workflows.tasks.seek_news": 30.0,
    "workflows.tasks.purge_logs": 60.0,
    "workflows.tasks.sweep_sessions": 30.0,
    "pools.probe_backends": PROBE_SECONDS,
    "pools.sync_clusters": SYNC_SECONDS,
}
app.conf.beat_schedule = {task: {"task": task, "schedule": seconds} for task, seconds in EVERY.items()}
app.conf.beat_scheduler = "web.operation.periodic:Steady"
app.conf.task_queues = [Queue(name, routing_key=name) for name in (periodic.MAIN_QUEUE, periodic.QUEUE)]
PARTS = {  # what periodic work sends a message for, for each cluster
    "workflows.tasks.evaluate_cluster": EVERY["workflows.tasks.sweep_conditions"],
    "workflows.tasks.measure_cluster": EVERY["workflows.tasks.measure_fragmentation"],
    "workflows.tasks.seek_cluster_orders": EVERY["workflows.tasks.seek_orders"],
    "workflows.tasks.judge_scheduler": EVERY["workflows.tasks.judge_schedulers"],
    "workflows.tasks.sweep_cluster_orphans": EVERY["workflows.tasks.sweep_orphans"],
    "workflows.tasks.sweep_backend_logs": EVERY["workflows.tasks.sweep_logs"],
    "pools.sync_cluster": EVERY["pools.sync_clusters"],
}
app.conf.task_annotations = {task: {"every": seconds} for task, seconds in (EVERY | PARTS).items()}


@worker_init.connect
def _share_the_interpreter(**_: Any) -> None:
    share_interpreter()


@setup_logging.connect
def _keep_our_logging(**_: Any) -> None:
    """Connected so that Celery leaves the logging of ``settings`` alone."""


@worker_ready.connect
def _settle(sender: Any, **_: Any) -> None:
    """Everything that tasks need is loaded by now."""
    from cluster import concurrency  # noqa: PLC0415 -- the same
    from web.operation import metrics, pulse, rollout  # noqa: PLC0415 -- once Django has its settings
    from workflows.services import heartbeat  # noqa: PLC0415 -- the same

    settle()
    concurrency.share(sender.controller.concurrency)
    threads = pulse.TaskThreads(sender.controller.concurrency)
    task_prerun.connect(lambda task_id, **_: threads.begin(task_id), weak=False)
    task_postrun.connect(lambda task_id, **_: threads.end(task_id), weak=False)
    pulse.watch(threads.fault)
    metrics.serve()
    rollout.keep_reporting()
    heartbeat.keep_beating()


@beat_init.connect
def _show_the_rows(**_: Any) -> None:
    """Serve the metrics of the rows: there is one beat."""
    from prometheus_client import REGISTRY  # noqa: PLC0415 -- once Django has its settings

    from web.operation import metrics, pulse  # noqa: PLC0415 -- the same
    from workflows.services.gauges import StateCollector  # noqa: PLC0415 -- the same

    REGISTRY.register(StateCollector())
    pulse.watch(periodic.BEAT.fault)
    metrics.serve()
