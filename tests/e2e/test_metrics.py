"""Every process of the running service shows what it counts, to whoever bears the token."""

import pytest
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.conftest import workflow

# a process serves its page a moment after it has begun, and the first test may come before
pool = urllib3.PoolManager(retries=urllib3.Retry(connect=120, backoff_factor=0.1, backoff_max=0.5))


def scrape(running_service, process):
    """Samples of a process's page, by name."""
    headers = {"Authorization": f"Bearer {running_service['metrics_token']}"}
    answer = pool.request("GET", running_service["metrics_urls"][process], headers=headers)
    assert answer.status == 200, answer.data
    samples = {}
    for family in text_string_to_metric_families(answer.data.decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample)
    return samples


def total(samples, name, **labels):
    return sum(s.value for s in samples.get(name, ()) if labels.items() <= s.labels.items())


def test_one_run_is_seen_by_every_process_that_took_part(world, running_service):
    target = world.make_pool(nvlink=True)
    name = world.submit(target, workflow(("g", ["a", "b"])))
    world.wait_group(name, "g", "RUNNING")
    assert total(scrape(running_service, "web"), "osmo_topology_submissions_total", result="accepted") >= 1
    worker = scrape(running_service, "worker")
    assert total(worker, "osmo_topology_reconcile_seconds_count", outcome="again") >= 1
    assert total(worker, "osmo_topology_cluster_bulk_writes_total", kind="pods", outcome="done") >= 2
    assert total(scrape(running_service, "observer"), "osmo_topology_watch_events_total", kind="Pod") >= 1

    def states():
        """A page of beat's shows what was so some seconds before."""
        beat = scrape(running_service, "beat")
        return (
            total(beat, "osmo_topology_state_up"),
            total(beat, "osmo_topology_compute_domains", state="Ready"),
            total(beat, "osmo_topology_unreleased_groups", status="RUNNING"),
        )

    world.wait(states, lambda seen: seen[0] == 1 and min(seen[1:]) >= 1)
    world.service.cancel(name, force=True)
    world.wait_released(name)


@pytest.mark.parametrize("process", ["web", "worker", "beat", "observer"])
def test_a_page_of_metrics_is_shown_to_nobody_without_the_token(running_service, process):
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answer = pool.request("GET", running_service["metrics_urls"][process], headers=headers)
        assert answer.status == 401


def test_readiness_tells_of_every_process_of_a_running_service(world, running_service):
    headers = {"Authorization": f"Bearer {running_service['metrics_token']}"}

    def ready():
        return pool.request("GET", f"{running_service['api_url']}/readyz", headers=headers).json()

    observer = f"observer of {world.backend}-kai"
    told = world.wait(ready, lambda told: told.get(observer, "").startswith("ok, heard"))
    assert (told["database"], told["migrations"], told["redis"]) == ("ok", "ok", "ok")
    assert told["sweep"].startswith("ok, ran")
