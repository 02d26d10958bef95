"""What a ComputeDomain for every group costs, beside ``compute_domains: claiming_groups`` of a pool.

Groups of one task with one GPU, none of which claims a channel, run in an NVLink pool under KAI's stand-in
and are cancelled once all of them do. NVIDIA's controller is played by its stand-in at the original's pace:
one worker, 5 requests a second, 10 at once after a rest. The requests are those of the API server's own
count, of all its clients, watches left out.
"""

import re
import time
from collections import Counter
from dataclasses import replace
from typing import Any

from bench.site import POOL_LABEL, Progress, Site, started_site
from bench.usage import cpu_seconds, spent
from bench.workload import many_groups
from localcluster.standins.computedomain.pace import REAL

GROUPS = 1000
SMALL_GROUPS = 100
GROUPS_OF_WORKFLOW = 50
GPUS = 8
BACKEND = "domains"
CHOICES = ("claiming_groups", "every_group")
PATIENCE_SECONDS = 2400.0
OF_DOMAINS = ("computedomains", "resourceclaimtemplates", "daemonsets")
_REQUESTS = re.compile(r"^apiserver_request_total\{(?P<labels>.*)\} (?P<count>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    groups = SMALL_GROUPS if small else GROUPS
    limits = {"OSMO_SUBMITS_PER_MINUTE": "100000", "OSMO_ADDRESS_SUBMITS_PER_MINUTE": "100000"}
    with started_site(progress=progress, standins=True, more=limits) as site:
        _slow_down(site)
        site.add_backend(BACKEND, "kai")
        site.add_nodes(BACKEND, count=-(-groups // GPUS), gpus=GPUS)
        figures = {}
        for choice in CHOICES:
            figures[choice] = _round(site, choice, groups=groups)
            progress(f"compute_domains: {choice}: {figures[choice]}")
        servers = site.servers()
    return {
        "servers": servers,
        "groups": groups,
        "controller": {"workers": 1, "requests_per_second": REAL.requests_per_second, "burst": REAL.burst},
        "choices": figures,
    }


def _slow_down(site: Site) -> None:
    command = site.supervisor.stop_one("standin-computedomain")
    site.supervisor.start(replace(command, argv=[*command.argv, "--real-pace"]))


def _round(site: Site, choice: str, *, groups: int) -> dict[str, Any]:
    _add_pool(site, choice)
    before, used = _requests(site), cpu_seconds(site.supervisor)
    began = time.monotonic()
    workflows = [
        site.submit(choice, many_groups(min(GROUPS_OF_WORKFLOW, groups - first), name="domains", gpu=1))
        for first in range(0, groups, GROUPS_OF_WORKFLOW)
    ]
    site.wait(
        lambda: _running(site) == groups, seconds=PATIENCE_SECONDS, awaited=f"all groups of {choice} to run"
    )
    ran = time.monotonic()
    site.cancel(workflows, seconds=PATIENCE_SECONDS)
    ended = time.monotonic()
    requests = _requests(site) - before
    return {
        "submission_to_all_running_seconds": round(ran - began, 1),
        "cancel_to_all_released_seconds": round(ended - ran, 1),
        "requests": sum(requests.values()),
        "requests_by_resource": {name: requests[name] for name in OF_DOMAINS},
        "cpu_seconds": spent(used, cpu_seconds(site.supervisor)),
    }


def _add_pool(site: Site, choice: str) -> None:
    """A pool named as the choice, on the nodes that both use by turns."""
    settings = {
        "backend": BACKEND,
        "node_selector": {POOL_LABEL: BACKEND},
        "nvlink": True,
        "compute_domains": choice,
        "platforms": {"gpu": {}},
        "default_platform": "gpu",
    }
    site.rest.put(f"/api/configs/pool/{choice}", {"configs": settings})


def _running(site: Site) -> int:
    return site.count("SELECT count(*) FROM workflows_task WHERE status = 'RUNNING'")


def _requests(site: Site) -> Counter[str]:
    """How many requests the API server has answered, by resource."""
    counts: Counter[str] = Counter()
    for match in _REQUESTS.finditer(site.api.text("/metrics")):
        labels = dict(_LABEL.findall(match["labels"]))
        if labels["verb"] != "WATCH":
            counts[labels["resource"]] += int(float(match["count"]))
    return counts
