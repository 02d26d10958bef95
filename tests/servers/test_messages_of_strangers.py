"""What stands in the broker's lists that this service did not write: a worker drops it and goes on."""

import base64
import json
import subprocess
import urllib.request

import pytest
import redis
from django.db import connection
from kombu.pidbox import Mailbox

from localcluster import service
from localcluster.ports import LOOPBACK, free_ports
from osmo_topology.celery import app
from pools.models import SweepRun
from tests.builders.waiting import until
from web.operation.periodic import MAIN_QUEUE, QUEUE

TASK = "pools.probe_backends"


def message(content=([], {}, {}), **changes):
    """A message as Celery writes one, with other parts."""
    properties = {
        "delivery_tag": "1",
        "delivery_info": {"exchange": "", "routing_key": MAIN_QUEUE},
        "body_encoding": "base64",
        "priority": 0,
    }
    whole = {
        "body": base64.b64encode(json.dumps(content).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"task": TASK, "id": "1", "lang": "py"},
        "properties": properties,
    }
    return json.dumps(whole | changes)


UNREADABLE = {
    "no JSON": "hello",
    "no UTF-8": b"\xff\xfe",
    "nothing": "",
    "brackets within brackets": "[" * 100_000,
    "32 MiB of no JSON": "x" * 2**25,
}
MISSHAPEN = {
    "a number": "7",
    "a list": "[]",
    "an empty object": "{}",
    "no properties": message(properties=None),
    "properties of another shape": message(properties={"delivery_tag": [], "body_encoding": 7}),
    "a body that is no base64": message(body="a"),
    "no body": message(body=None),
    "a body of another shape": message({"a": 1}),
    "headers of another shape": message(headers=[1]),
    "a task that is a list": message(headers={"task": ["a"], "id": "1"}),
    "no id": message(headers={"task": TASK}),
    "limits of another shape": message(headers={"task": TASK, "id": "2", "timelimit": 7, "retries": "x"}),
}
UNKNOWN = {
    "an unknown task": message(headers={"task": "shutil.rmtree", "id": "1"}),
    "no task": message(headers={}),
}


@pytest.fixture
def worker(transactional_db, supervisor, tmp_path, redis_url):
    """(its process, the address of its metrics); it serves both queues of this broker."""
    database = connection.settings_dict
    login = f"{database['USER']}:{database['PASSWORD']}"
    (port,) = free_ports(1)
    address = f"{database['HOST']}:{database['PORT']}/{database['NAME']}"
    settings = service.Settings(
        database_url=f"postgresql://{login}@{address}",
        redis_url=redis_url,
        secret_key="k" * 40,
        port=free_ports(1)[0],
        pod_logs=tmp_path,
        metrics_ports={"worker": port},
    )
    yield supervisor.start(service.commands(settings)["worker"]), f"http://{LOOPBACK}:{port}/metrics"
    redis.Redis.from_url(redis_url).flushdb()


def drops(address):
    """How many messages the worker dropped, by reason."""
    page = urllib.request.urlopen(address, timeout=5).read().decode()
    lines = [line for line in page.splitlines() if "_messages_dropped_total{" in line]
    return {line.partition('reason="')[2].partition('"')[0]: float(line.rpartition(" ")[2]) for line in lines}


def is_at_work(child, redis_url, *, queue=MAIN_QUEUE):
    """Whether the worker does what a message of ours says, and goes on."""
    SweepRun.objects.all().delete()
    with app.connection_for_write(redis_url) as own:
        app.send_task("workflows.tasks.sweep_due_groups", connection=own, queue=queue)
    until(SweepRun.objects.exists, seconds=60)
    return child.process.poll() is None


@pytest.mark.parametrize("queue", [MAIN_QUEUE, QUEUE])
def test_a_worker_counts_and_drops_what_is_no_message_and_goes_on(worker, redis_url, queue):
    child, metrics = worker
    strange = {**UNREADABLE, **MISSHAPEN, **UNKNOWN}
    with redis.Redis.from_url(redis_url) as broker:
        broker.lpush(queue, *strange.values())
    assert is_at_work(child, redis_url, queue=queue)
    want = {"unreadable": len(UNREADABLE), "unusable": len(MISSHAPEN), "unknown_task": len(UNKNOWN)}
    assert drops(metrics) == want
    with redis.Redis.from_url(redis_url) as broker:
        until(lambda: (broker.llen(queue), broker.hlen("unacked")) == (0, 0), seconds=10)


def test_a_worker_takes_no_orders_from_the_broker(worker, redis_url):
    child, _ = worker
    assert is_at_work(child, redis_url)
    with app.connection_for_write(redis_url) as own:
        Mailbox("celery", type="fanout", accept=["json"])(own)._broadcast("shutdown")
    with pytest.raises(subprocess.TimeoutExpired):
        child.process.wait(5)
