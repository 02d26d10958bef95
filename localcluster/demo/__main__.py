"""``python -m localcluster.demo``: start everything, run the main job, check it, stop everything."""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from localcluster import scenario, stack
from localcluster.api import Api
from localcluster.build import BuildFailed
from localcluster.demo import runs, site
from localcluster.demo.report import Report, Turns, wait_for
from localcluster.demo.run import Stage
from localcluster.demo.view import Diary, View
from localcluster.directories import run_directory
from localcluster.rest import Rest
from localcluster.supervisor import ServerFailed, Supervisor

READY_SECONDS = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="localcluster.demo", description=__doc__)
    parser.add_argument("--kai-version", choices=("0.13", "0.17"), default="0.13")
    options = parser.parse_args()
    report = Report()
    with run_directory("demo") as directory, Supervisor(log_dir=directory / "logs") as supervisor:
        running = stack.start(
            supervisor,
            directory=directory,
            options=stack.Options(),
            durable=False,
            progress=report.line,
            kai_version=options.kai_version,
            prepare=partial(scenario.prepare, supervisor=supervisor, progress=report.line),
        )
        scenario.configure(running, progress=report.line)
        show(running, report, check_servers=supervisor.check)
    return report.close()


def show(running: stack.Running, report: Report, *, check_servers: Callable[[], None]) -> None:
    """All scenes: those of a lane one after the other, the lanes side by side, since no two share a node.

    Each scene leaves the cluster as it found it.
    """
    assert running.plane is not None
    api = Api(running.plane.access(), connections=32)
    service = Rest(api_url=running.api_url, token=running.token)
    diary = Diary(api)
    diary.start({scenario.namespace(name) for name in scenario.BACKENDS})
    report.heading("The cluster, and the pools an administrator made of it over REST")
    report.block(site.drawing())
    check_configuration(service, api, report)
    turns = Turns(len(SCENES))
    parts = [Report(started=report.started, show=partial(turns.show, place)) for place in range(len(SCENES))]

    def play(lane: str) -> None:
        view = View(api)
        view.load_nodes()
        own_service = Rest(api_url=running.api_url, token=running.token)
        for place, (own_lane, title, scene) in enumerate(SCENES):
            if own_lane == lane:
                check_servers()
                part = parts[place]
                part.heading(title)
                try:
                    scene(Stage(service=own_service, view=view, diary=diary, report=part))
                finally:
                    turns.end(place)

    lanes = {lane for lane, _, _ in SCENES}
    with ThreadPoolExecutor(len(lanes)) as threads:
        list(threads.map(play, lanes))
    for part in parts:
        report.add(part)
    check_nothing_left(View(api), report)
    diary.stop()


SCENES: list[tuple[str, str, Callable[[Stage], None]]] = [
    ("nvlink", "Use case 1: four tasks in one NVLink clique", runs.use_case_1),
    ("nvlink", "Use case 2: two sets of four, each in one clique", runs.use_case_2),
    ("zones", "Use case 3: the same, and all eight in one zone", runs.use_case_3),
    ("spines", "Use case 4 where it can be given fully", runs.use_case_4_full),
    ("spines", "Use case 4 where the spine cannot be given", runs.use_case_4_split),
    ("zones", "A node dies, and the gang comes back", runs.node_dies),
    ("nvlink", "Use case 1 with too few free nodes", runs.waits_for_a_clique),
    ("zones", "Use case 3 with its zone busy", runs.waits_for_a_zone),
    ("spines", "A preference waits; meanwhile a queue takes back what it is guaranteed", runs.patience),
    ("spines", "LOW gives way to HIGH, and is restarted", runs.preempted_and_restarted),
    ("nvlink", "A level disappears, and comes back", runs.level_disappears),
    ("native", "Use case 1 under Kubernetes' own scheduler", partial(runs.use_case_1, pool="native")),
    ("native", "Use case 2 under Kubernetes' own scheduler", partial(runs.use_case_2, pool="native")),
    (
        "native",
        "Use case 3 under Kubernetes' own scheduler",
        partial(runs.use_case_3, pool="native", zone="k1"),
    ),
    (
        "queued",
        "Use case 3 on Kueue, in a queue of somebody else",
        partial(runs.use_case_3, pool=scenario.QUEUED, zone="q1"),
    ),
    ("queued", "Use case 1 there, with too few free nodes", runs.waits_on_kueue),
    ("queued", "Use case 1 there, in a queue that the service makes", runs.queue_of_the_service),
    ("native", "What is refused", runs.refusals),
]
"""The lane, the title and the scene, in the order in which they are printed."""


def check_nothing_left(view: View, report: Report) -> None:
    report.heading("After all of it")
    for name in scenario.BACKENDS:
        namespace = scenario.namespace(name)
        left = view.leftovers(namespace)
        report.check(not left, f"nothing is left in namespace {namespace}", left)


def check_configuration(service: Rest, api: Api, report: Report) -> None:
    """The service has seen the cluster and made the pools' queues."""

    def reachable() -> list[str]:
        backends = service.call("GET", "/api/configs/backend")["backends"]
        return sorted(
            backend["name"]
            for backend in backends
            if any(c["type"] == "Reachable" and c["status"] == "True" for c in backend["conditions"])
        )

    want = sorted(scenario.BACKENDS)
    names = wait_for(reachable, until=lambda names: names == want, seconds=READY_SECONDS)
    report.check(names == want, f"the backends {', '.join(want)} are reachable", names)
    kai = [pool for pool in scenario.PLACES if scenario.BACKENDS[site.backend_of(pool)] == "kai"]

    def queues() -> list[str]:
        return [item["metadata"]["name"] for item in api.list("/apis/scheduling.run.ai/v2/queues")[0]]

    names = wait_for(queues, until=lambda names: len(names) == len(kai) + 1, seconds=READY_SECONDS)
    report.check(len(names) == len(kai) + 1, "each KAI pool has its queue, below one parent", names)
    for pool in scenario.PLACES:
        check_domains(service, report, pool)


def check_domains(service: Rest, report: Report, pool: str) -> None:
    def counts() -> dict[str, int]:
        topology = service.call("GET", f"/api/pool/{pool}/topology")
        return {entry["key"]: len(entry["domains"]) for entry in topology["topology_keys"]}

    want = site.domain_counts(pool)
    node_counts = wait_for(counts, until=lambda counted: counted == want, seconds=READY_SECONDS)
    words = ", ".join(f"{count} domains of {key}" for key, count in want.items())
    report.check(node_counts == want, f"GET /api/pool/{pool}/topology shows {words}", node_counts)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BuildFailed, ServerFailed) as error:
        sys.exit(str(error))
