"""The list of runs, each a function of (maker of runs, report)."""

from collections.abc import Callable
from functools import partial

from localcluster import scenario
from localcluster.demo import site
from localcluster.demo.report import Report, wait_for
from localcluster.demo.run import EXAMPLES, Placed, Run, expect_refusal
from localcluster.demo.view import View
from localcluster.rest import Rest

MakeRun = Callable[[str], Run]


def _same_clique(report: Report, placed: Placed, tasks: str = "") -> None:
    whose = f"tasks {tasks}*" if tasks else "all tasks"
    domains = placed.domains(site.LABELS["clique"], tasks)
    report.check(len(domains) == 1 and "" not in domains, f"{whose} share one NVLink clique", domains)


def use_case_1(make: MakeRun, report: Report, pool: str = "nvlink") -> None:
    run = make(pool)
    run.submit("use-case-1.yaml")
    placed = run.wait_until_placed(4)
    run.show(placed)
    _same_clique(report, placed)
    run.check_outcome("match")
    run.check_compute_domain(claims=4)
    run.finish()
    run.show_compute_domain_life()


def use_case_2(make: MakeRun, report: Report, pool: str = "nvlink") -> None:
    run = make(pool)
    run.submit("use-case-2.yaml")
    placed = run.wait_until_placed(8)
    run.show(placed)
    for prefix in SETS:
        _same_clique(report, placed, prefix)
    run.check_outcome("match")
    run.draw()
    run.check_compute_domain(claims=8)
    run.finish()
    run.show_compute_domain_life()


def use_case_3(make: MakeRun, report: Report, pool: str = "zones", zone: str = "z1") -> None:
    run = make(pool)
    run.submit("use-case-3.yaml")
    placed = run.wait_until_placed(8)
    run.show(placed)
    for prefix in SETS:
        _same_clique(report, placed, prefix)
    domains = placed.domains(site.LABELS["zone"])
    report.check(domains == {zone}, "all tasks share the only zone that is large enough", domains)
    run.check_outcome("match")
    run.draw()
    run.check_compute_domain(claims=8)
    run.finish()
    run.show_compute_domain_life()


def use_case_4_full(make: MakeRun, report: Report) -> None:
    run = make("spines")
    run.submit("use-case-4.yaml")
    placed = run.wait_until_placed(8)
    run.show(placed)
    _racks(report, placed)
    domains = placed.domains(site.LABELS["spine"])
    report.check(domains == {"s1"}, "all tasks share the spine that has two racks", domains)
    run.check_outcome("match")
    run.check_no_compute_domain()
    run.finish()


def use_case_4_split(make: MakeRun, report: Report) -> None:
    run = make("split")
    run.submit("use-case-4.yaml")
    placed = run.wait_until_placed(8)
    run.show(placed)
    _racks(report, placed)
    domains = placed.domains(site.LABELS["spine"])
    report.check(domains == {"p1", "p2"}, "the preferred spine cannot be given and blocks nothing", domains)
    run.check_outcome("degraded", spine="preferred")
    run.draw()
    run.check_no_compute_domain()
    run.finish()


def _racks(report: Report, placed: Placed) -> None:
    for prefix in SETS:
        domains = placed.domains(site.LABELS["rack"], prefix)
        report.check(len(domains) == 1, f"tasks {prefix}* share one rack", domains)


def waits_for_a_clique(make: MakeRun, report: Report, view: View) -> None:
    busy = site.first_nodes("nvlink")
    for node in busy:
        view.block(node)
    report.line(f"three nodes are free in each clique: somebody else's pods hold {', '.join(busy)}")
    run = make("nvlink")
    run.submit("use-case-1.yaml")
    run.check_waits(tasks=4)
    run.check_explained("topology")
    freed, *still_busy = busy
    view.unblock(freed)
    report.line(f"node {freed} is freed")
    placed = run.wait_until_placed(4)
    run.show(placed)
    _same_clique(report, placed)
    report.check(freed in placed.nodes.values(), f"the freed node {freed} is among them")
    for node in still_busy:
        view.unblock(node)
    run.finish()


def waits_on_kueue(make: MakeRun, report: Report, view: View) -> None:
    busy = site.first_nodes(scenario.QUEUED)
    for node in busy:
        view.block(node)
    report.line(f"three nodes are free in each clique: somebody else's pods hold {', '.join(busy)}")
    run = make(scenario.QUEUED)
    run.submit("use-case-1.yaml")
    run.check_waits_without_pods()
    for node in busy:
        view.unblock(node)
    report.line(f"nodes {' and '.join(busy)} are freed")
    placed = run.wait_until_placed(4)
    run.show(placed)
    _same_clique(report, placed)
    run.check_compute_domain(claims=4)
    run.cancel()


def queue_of_the_service(make: MakeRun, report: Report, view: View, service: Rest) -> None:
    """A pool leaves somebody's queue; the service makes it a queue, and removes that once nobody needs it."""
    before = view.cluster_queues()
    backend_path = f"/api/configs/backend/{scenario.QUEUED}"

    def configure(*, own: bool, local_queue: str) -> None:
        backend = service.call("GET", backend_path)
        settings = {**backend["queue_settings"], "own_queues": own}
        service.call("PUT", backend_path, {"configs": {**backend, "queue_settings": settings}})
        pool = {"configs_dict": {"local_queue": local_queue}}
        service.call("PATCH", f"/api/configs/pool/{scenario.QUEUED}", pool)

    def new_queues() -> set[str]:
        return view.cluster_queues() - before

    configure(own=True, local_queue="")
    report.line("backend queued says own_queues: true, and pool queued names no queue any more")
    queues = wait_for(new_queues, until=bool, seconds=QUEUE_SECONDS)
    report.check(len(queues) == 1, "the service has made a queue for it", queues)
    run = make(scenario.QUEUED)
    run.submit("use-case-1.yaml")
    placed = run.wait_until_placed(4)
    run.show(placed)
    _same_clique(report, placed)
    report.check(run.queues() == queues, "the group joined this queue", run.queues())
    run.finish()
    configure(own=False, local_queue=scenario.QUEUED)
    left = wait_for(new_queues, until=lambda names: not names, seconds=QUEUE_SECONDS)
    report.check(not left, "the queue is gone once the pool is back in the other one", left)


def waits_for_a_zone(make: MakeRun, report: Report, view: View) -> None:
    busy = site.first_nodes("zones")[0]
    view.block(busy)
    report.line(f"zone z1 has 7 free nodes of the 8 it takes: somebody else's pod holds {busy}")
    run = make("zones")
    run.submit("use-case-3.yaml")
    run.check_waits(tasks=8)
    run.check_explained("topology", "capacity")
    run.draw()
    view.unblock(busy)
    report.line(f"node {busy} is freed")
    placed = run.wait_until_placed(8)
    run.show(placed)
    domains = placed.domains(site.LABELS["zone"])
    report.check(domains == {"z1"}, "all tasks share zone z1", domains)
    run.cancel()
    run.show_compute_domain_life()


def patience(make: MakeRun, report: Report, service: Rest) -> None:
    """A gang waits for a spine; in the meantime the scene of a pool that takes back its share is played."""
    report.line("each spine has 4 nodes; 5 tasks want one spine, and wait 8 seconds for it")
    run = make("split")
    run.submit("patience.yaml", waitSeconds="8")
    run.wait_until_patient()
    reclaimed(make, report, service)
    placed = run.wait_until_placed(5)
    run.show(placed)
    domains = placed.domains(site.LABELS["spine"])
    report.check(domains == {"p1", "p2"}, "then the gang is placed on two spines", domains)
    run.check_relaxed()
    run.finish()


def reclaimed(make: MakeRun, report: Report, service: Rest) -> None:
    """A LOW gang on GPUs that another pool is guaranteed loses them, and comes back when they are free."""
    owner_pool = "spines-owner"
    set_guarantee = partial(service.call, "PATCH", "/api/configs/pool/spines")
    values = scenario.pool("spines", scenario.PLACES["spines"])
    service.put(f"/api/configs/pool/{owner_pool}", {"configs": values | _guarantee(GANG_GPUS)})
    set_guarantee({"configs_dict": _guarantee(0)})
    report.line(f"pool {owner_pool} lies over the same nodes: {GANG_GPUS} GPUs are its own, none are spines'")
    low, owner = make("spines"), make("spines")
    owner.pool = owner_pool
    low.submit("use-case-4.yaml", priority="LOW", recovery="{preempted: requeue}")
    low.wait_until_placed(8)
    low.wait_until_running()
    owner.submit("use-case-4.yaml")
    owner.wait_until_placed(8)
    owner.finish_beside_others()
    low.wait_for_attempt(2, tasks=8)
    low.finish_beside_others()
    service.call("DELETE", f"/api/configs/pool/{owner_pool}", {})
    set_guarantee({"configs_dict": _guarantee(-1)})


def _guarantee(gpus: int) -> dict[str, object]:
    return {"resources": {"gpu": {"guarantee": gpus, "maximum": -1, "weight": 1}}}


def preempted_and_restarted(make: MakeRun, report: Report) -> None:
    low, high = make("split"), make("split")
    low.submit("use-case-4.yaml", priority="LOW", recovery="{preempted: fail}")
    low.wait_until_placed(8)
    report.line("no node of the pool is free")
    high.submit("use-case-4.yaml", priority="HIGH")
    high.wait_until_placed(8)
    low.check_preempted()
    high.finish()
    low.restart()
    low.wait_until_placed(8)
    low.finish()


def node_dies(make: MakeRun, report: Report, view: View, service: Rest) -> None:
    """A node of a running gang dies: the gang is tried again as a whole, in the zone that alone holds it."""
    spare = site.spare_node("zones", "z-a")
    view.add_node(spare)
    report.line(f"clique z-a gets a spare node, {spare.name}; the pool gives a node up after 2 seconds")
    configure = partial(service.call, "PATCH", "/api/configs/pool/zones")
    configure({"configs_dict": {"node_lost_after": 2, "force_lost_pods": True}})
    run = make("zones")
    run.submit("use-case-3.yaml", recovery="{node_lost: requeue, backoff: {first: 1s, limit: 5s}}")
    placed = run.wait_until_placed(8)
    run.wait_until_running()
    first_objects = run.objects()
    dead = placed.nodes["left-0"] if placed.domains(site.LABELS["clique"], "left") == {"z-a.1"} else ""
    dead = dead or placed.nodes["right-0"]
    view.stop_node(dead)
    report.line(f"node {dead} dies")
    again = run.wait_for_attempt(2, tasks=8)
    run.show(again)
    domains = again.domains(site.LABELS["zone"])
    report.check(domains == placed.domains(site.LABELS["zone"]), "it is back in the same zone", domains)
    for prefix in SETS:
        _same_clique(report, again, prefix)
    report.check(dead not in again.nodes.values(), f"node {dead} is not among its nodes", again.nodes)
    run.check_replaced(first_objects)
    run.check_compute_domain(claims=8)
    view.start_node(dead)
    run.finish()
    view.remove_node(spare)
    configure({"configs_dict": {"node_lost_after": 300, "force_lost_pods": False}})


def level_disappears(make: MakeRun, report: Report, view: View) -> None:
    label, nodes = site.LABELS["clique"], site.all_nodes("nvlink")
    running, waiting = make("nvlink"), make("nvlink")
    running.submit("use-case-1.yaml")
    placed = running.wait_until_placed(4)
    view.take_label(label, nodes)
    report.line(f"label {label} is taken off all {len(nodes)} nodes of the pool")
    waiting.submit("use-case-1.yaml")
    for run in (running, waiting):
        message = run.check_levels("True")
    report.line(f"message: {message}")
    running.check_running(placed)
    view.put_label_back(label, nodes)
    report.line("the label is put back")
    for run in (running, waiting):
        run.check_levels("False")
    _same_clique(report, waiting.wait_until_placed(4))
    waiting.show_events_of_levels()
    running.cancel_beside_others()
    waiting.cancel()


def refusals(service: Rest, report: Report) -> None:
    for example, capability in (("use-case-3.yaml", "topology."), ("use-case-4.yaml", "topology.preferred")):
        submit = partial(service.submit, "native", (EXAMPLES / example).read_text())
        expect_refusal(report, f"{example} in pool native (Kubernetes scheduler)", submit, names=capability)
    text = (EXAMPLES / "use-case-4.yaml").read_text().replace("spine", "zone").replace("rack", "clique")
    submit = partial(service.submit, scenario.QUEUED, text)
    expect_refusal(
        report, "use-case-4.yaml with the keys of pool queued (Kueue)", submit, names="topology.nested"
    )
    keys = {"configs_dict": {"backend": "plain"}}
    expect_refusal(
        report,
        "moving pool nvlink, which has topology keys, to a scheduler without topology",
        lambda: service.call("PATCH", "/api/configs/pool/nvlink", keys),
        names="topology.required",
    )
    text = (EXAMPLES / "use-case-1.yaml").read_text().replace("key: clique", "key: cliqe")
    expect_refusal(report, "a misspelled key", lambda: service.submit("nvlink", text), names="clique")


QUEUE_SECONDS = 60.0
SETS = ("left", "right")
GANG_GPUS = 8 * scenario.GPUS
