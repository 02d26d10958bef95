"""``python -m localcluster.demo``: start everything, run the main job, check it, stop everything."""

import argparse
import sys
from collections.abc import Callable

from localcluster import scenario, stack
from localcluster.api import Api
from localcluster.build import BuildFailed
from localcluster.demo import runs, site
from localcluster.demo.report import Report, wait_for
from localcluster.demo.run import Run
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
        )
        scenario.configure(running, progress=report.line)
        show(running, report, check_servers=supervisor.check)
    return report.close()


def show(running: stack.Running, report: Report, *, check_servers: Callable[[], None]) -> None:
    """All runs, one after the other; each leaves the cluster as it found it."""
    assert running.plane is not None
    api = Api(running.plane.access(), connections=16)
    view = View(api)
    service = Rest(api_url=running.api_url, token=running.token)
    diary = Diary(api)
    diary.start({scenario.namespace(name) for name in scenario.BACKENDS})

    def make(pool: str) -> Run:
        check_servers()
        return Run(service=service, view=view, diary=diary, report=report, pool=pool)

    report.heading("The cluster, and the pools an administrator made of it over REST")
    report.block(site.drawing())
    check_configuration(service, api, report)
    view.load_nodes()
    for title, run in scenes(make, report, view=view, service=service):
        report.heading(title)
        run()
    diary.stop()


def scenes(
    make: runs.MakeRun, report: Report, *, view: View, service: Rest
) -> list[tuple[str, Callable[[], None]]]:
    return [
        ("Use case 1: four tasks in one NVLink clique", lambda: runs.use_case_1(make, report)),
        ("Use case 2: two sets of four, each in one clique", lambda: runs.use_case_2(make, report)),
        ("Use case 3: the same, and all eight in one zone", lambda: runs.use_case_3(make, report)),
        ("Use case 4 where it can be given fully", lambda: runs.use_case_4_full(make, report)),
        ("Use case 4 where the spine cannot be given", lambda: runs.use_case_4_split(make, report)),
        ("A node dies, and the gang comes back", lambda: runs.node_dies(make, report, view, service)),
        ("Use case 1 with too few free nodes", lambda: runs.waits_for_a_clique(make, report, view)),
        ("Use case 3 with its zone busy", lambda: runs.waits_for_a_zone(make, report, view)),
        (
            "A preference waits; meanwhile a queue takes back what it is guaranteed",
            lambda: runs.patience(make, report, service),
        ),
        ("LOW gives way to HIGH, and is restarted", lambda: runs.preempted_and_restarted(make, report)),
        ("A level disappears, and comes back", lambda: runs.level_disappears(make, report, view)),
        ("Use case 1 under Kubernetes' own scheduler", lambda: runs.use_case_1(make, report, "native")),
        ("Use case 2 there, as gangs of their own", lambda: runs.use_case_2(make, report, "native")),
        (
            "Use case 3 on Kueue, in a queue of somebody else",
            lambda: runs.use_case_3(make, report, scenario.QUEUED, "q1"),
        ),
        ("Use case 1 there, with too few free nodes", lambda: runs.waits_on_kueue(make, report, view)),
        (
            "Use case 1 there, in a queue that the service makes",
            lambda: runs.queue_of_the_service(make, report, view, service),
        ),
        ("What is refused", lambda: runs.refusals(service, report)),
    ]


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
