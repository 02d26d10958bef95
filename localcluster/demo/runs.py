"""The scenes, each a function of the stage that it is played on."""

from functools import partial

from localcluster import scenario
from localcluster.demo import site
from localcluster.demo.report import Report, wait_for
from localcluster.demo.run import EXAMPLES, Placed, Stage, expect_refusal


def _same_clique(report: Report, placed: Placed, tasks: tuple[str, ...] = ()) -> None:
    whose = f"tasks {tasks[0]} to {tasks[-1]}" if tasks else "all tasks"
    domains = placed.domains(site.LABELS["clique"], tasks)
    report.check(len(domains) == 1 and "" not in domains, f"{whose} share one NVLink clique", domains)


def use_case_1(stage: Stage, pool: str = "nvlink") -> None:
    run = stage.run(pool)
    run.submit("use-case-1.yaml")
    placed = run.wait_until_placed(4)
    run.show(placed)
    _same_clique(stage.report, placed)
    run.check_outcome("match")
    run.check_compute_domain(claims=4)
    run.finish()
    run.show_compute_domain_life()


def use_case_2(stage: Stage, pool: str = "nvlink") -> None:
    run = stage.run(pool)
    run.submit("use-case-2.yaml")
    placed = run.wait_until_placed(8)
    run.show(placed)
    for tasks in SETS:
        _same_clique(stage.report, placed, tasks)
    run.check_outcome("match")
    run.draw()
    run.check_compute_domain(claims=8)
    run.finish()
    run.show_compute_domain_life()


def use_case_3(stage: Stage, pool: str = "zones", zone: str = "z1") -> None:
    run = stage.run(pool)
    run.submit("use-case-3.yaml")
    placed = run.wait_until_placed(8)
    run.show(placed)
    for tasks in SETS:
        _same_clique(stage.report, placed, tasks)
    domains = placed.domains(site.LABELS["zone"])
    stage.report.check(domains == {zone}, "all tasks share the only zone that is large enough", domains)
    run.check_outcome("match")
    run.draw()
    run.check_compute_domain(claims=8)
    run.finish()
    run.show_compute_domain_life()


def use_case_4_full(stage: Stage) -> None:
    run = stage.run("spines")
    run.submit("use-case-4.yaml")
    placed = run.wait_until_placed(8)
    run.show(placed)
    _racks(stage.report, placed)
    domains = placed.domains(site.LABELS["spine"])
    stage.report.check(domains == {"s1"}, "all tasks share the spine that has two racks", domains)
    run.check_outcome("match")
    run.check_no_compute_domain()
    run.finish()


def use_case_4_split(stage: Stage) -> None:
    run = stage.run("split")
    run.submit("use-case-4.yaml")
    placed = run.wait_until_placed(8)
    run.show(placed)
    _racks(stage.report, placed)
    domains = placed.domains(site.LABELS["spine"])
    stage.report.check(
        domains == {"p1", "p2"}, "the preferred spine cannot be given and blocks nothing", domains
    )
    run.check_outcome("degraded", spine="preferred")
    run.draw()
    run.check_no_compute_domain()
    run.finish()


def _racks(report: Report, placed: Placed) -> None:
    for tasks in SETS:
        domains = placed.domains(site.LABELS["rack"], tasks)
        report.check(len(domains) == 1, f"tasks {tasks[0]} to {tasks[-1]} share one rack", domains)


def waits_for_a_clique(stage: Stage) -> None:
    busy = site.first_nodes("nvlink")
    for node in busy:
        stage.view.block(node)
    stage.report.line(f"three nodes are free in each clique: somebody else's pods hold {', '.join(busy)}")
    run = stage.run("nvlink")
    run.submit("use-case-1.yaml")
    run.check_waits(tasks=4)
    run.check_explained("topology")
    freed, *still_busy = busy
    stage.view.unblock(freed)
    stage.report.line(f"node {freed} is freed")
    placed = run.wait_until_placed(4)
    run.show(placed)
    _same_clique(stage.report, placed)
    stage.report.check(freed in placed.nodes.values(), f"the freed node {freed} is among them")
    for node in still_busy:
        stage.view.unblock(node)
    run.finish()


def waits_on_kueue(stage: Stage) -> None:
    busy = site.first_nodes(scenario.QUEUED)
    for node in busy:
        stage.view.block(node)
    stage.report.line(f"three nodes are free in each clique: somebody else's pods hold {', '.join(busy)}")
    run = stage.run(scenario.QUEUED)
    run.submit("use-case-1.yaml")
    run.check_waits_without_pods()
    for node in busy:
        stage.view.unblock(node)
    stage.report.line(f"nodes {' and '.join(busy)} are freed")
    placed = run.wait_until_placed(4)
    run.show(placed)
    _same_clique(stage.report, placed)
    run.check_compute_domain(claims=4)
    run.cancel()


def queue_of_the_service(stage: Stage) -> None:
    """A pool leaves somebody's queue; the service makes it a queue, and removes that once nobody needs it."""
    before = stage.view.cluster_queues()
    backend_path = f"/api/configs/backend/{scenario.QUEUED}"

    def configure(*, own: bool, local_queue: str) -> None:
        backend = stage.service.call("GET", backend_path)
        settings = {**backend["queue_settings"], "own_queues": own}
        stage.service.call("PUT", backend_path, {"configs": {**backend, "queue_settings": settings}})
        pool = {"configs_dict": {"local_queue": local_queue}}
        stage.service.call("PATCH", f"/api/configs/pool/{scenario.QUEUED}", pool)

    def new_queues() -> set[str]:
        return stage.view.cluster_queues() - before

    configure(own=True, local_queue="")
    stage.report.line("backend queued says own_queues: true, and pool queued names no queue any more")
    queues = wait_for(new_queues, until=bool, seconds=QUEUE_SECONDS)
    stage.report.check(len(queues) == 1, "the service has made a queue for it", queues)
    run = stage.run(scenario.QUEUED)
    run.submit("use-case-1.yaml")
    placed = run.wait_until_placed(4)
    run.show(placed)
    _same_clique(stage.report, placed)
    stage.report.check(run.queues() == queues, "the group joined this queue", run.queues())
    run.finish()
    configure(own=False, local_queue=scenario.QUEUED)
    left = wait_for(new_queues, until=lambda names: not names, seconds=QUEUE_SECONDS)
    stage.report.check(not left, "the queue is gone once the pool is back in the other one", left)


def waits_for_a_zone(stage: Stage) -> None:
    busy = site.first_nodes("zones")[0]
    stage.view.block(busy)
    stage.report.line(f"zone z1 has 7 free nodes of the 8 it takes: somebody else's pod holds {busy}")
    run = stage.run("zones")
    run.submit("use-case-3.yaml")
    run.check_waits(tasks=8)
    run.check_explained("topology", "capacity")
    run.draw()
    stage.view.unblock(busy)
    stage.report.line(f"node {busy} is freed")
    placed = run.wait_until_placed(8)
    run.show(placed)
    domains = placed.domains(site.LABELS["zone"])
    stage.report.check(domains == {"z1"}, "all tasks share zone z1", domains)
    run.cancel()
    run.show_compute_domain_life()


def patience(stage: Stage) -> None:
    """A gang waits for a spine; in the meantime the scene of a pool that takes back its share is played."""
    stage.report.line("each spine has 4 nodes; 5 tasks want one spine, and wait 8 seconds for it")
    run = stage.run("split")
    run.submit("patience.yaml", waitSeconds="8")
    run.wait_until_patient()
    reclaimed(stage)
    placed = run.wait_until_placed(5)
    run.show(placed)
    domains = placed.domains(site.LABELS["spine"])
    stage.report.check(domains == {"p1", "p2"}, "then the gang is placed on two spines", domains)
    run.check_relaxed()
    run.finish()


def reclaimed(stage: Stage) -> None:
    """A LOW gang on GPUs that another pool is guaranteed loses them, and comes back when they are free."""
    owner_pool = "spines-owner"
    set_guarantee = partial(stage.service.call, "PATCH", "/api/configs/pool/spines")
    values = scenario.pool("spines", scenario.PLACES["spines"])
    stage.service.put(f"/api/configs/pool/{owner_pool}", {"configs": values | _guarantee(GANG_GPUS)})
    set_guarantee({"configs_dict": _guarantee(0)})
    stage.report.line(
        f"pool {owner_pool} lies over the same nodes: {GANG_GPUS} GPUs are its own, none are spines'"
    )
    low, owner = stage.run("spines"), stage.run("spines")
    owner.pool = owner_pool
    low.submit("use-case-4.yaml", priority="LOW", recovery="{preempted: requeue}")
    low.wait_until_placed(8)
    low.wait_until_running()
    owner.submit("use-case-4.yaml")
    owner.wait_until_placed(8)
    owner.finish_beside_others()
    low.wait_for_attempt(2, tasks=8)
    low.finish_beside_others()
    stage.service.call("DELETE", f"/api/configs/pool/{owner_pool}", {})
    set_guarantee({"configs_dict": _guarantee(-1)})


def _guarantee(gpus: int) -> dict[str, object]:
    return {"resources": {"gpu": {"guarantee": gpus, "maximum": -1, "weight": 1}}}


def preempted_and_restarted(stage: Stage) -> None:
    low, high = stage.run("split"), stage.run("split")
    low.submit("use-case-4.yaml", priority="LOW", recovery="{preempted: fail}")
    low.wait_until_placed(8)
    stage.report.line("no node of the pool is free")
    high.submit("use-case-4.yaml", priority="HIGH")
    high.wait_until_placed(8)
    low.check_preempted()
    high.finish()
    low.restart()
    low.wait_until_placed(8)
    low.finish()


def node_dies(stage: Stage) -> None:
    """A node of a running gang dies: the gang is tried again as a whole, in the zone that alone holds it."""
    spare = site.spare_node("zones", "z-a")
    stage.view.add_node(spare)
    stage.report.line(f"clique z-a gets a spare node, {spare.name}; the pool gives a node up after 2 seconds")
    configure = partial(stage.service.call, "PATCH", "/api/configs/pool/zones")
    configure({"configs_dict": {"node_lost_after": 2, "force_lost_pods": True}})
    run = stage.run("zones")
    run.submit("use-case-3.yaml", recovery="{node_lost: requeue, backoff: {first: 1s, limit: 5s}}")
    placed = run.wait_until_placed(8)
    run.wait_until_running()
    first_objects = run.objects()
    first, second = SETS
    in_first = placed.domains(site.LABELS["clique"], first) == {"z-a.1"}
    dead = placed.nodes[(first if in_first else second)[0]]
    stage.view.stop_node(dead)
    stage.report.line(f"node {dead} dies")
    again = run.wait_for_attempt(2, tasks=8)
    run.show(again)
    domains = again.domains(site.LABELS["zone"])
    stage.report.check(domains == placed.domains(site.LABELS["zone"]), "it is back in the same zone", domains)
    for tasks in SETS:
        _same_clique(stage.report, again, tasks)
    stage.report.check(dead not in again.nodes.values(), f"node {dead} is not among its nodes", again.nodes)
    run.check_replaced(first_objects)
    run.check_compute_domain(claims=8)
    stage.view.start_node(dead)
    run.finish()
    stage.view.remove_node(spare)
    configure({"configs_dict": {"node_lost_after": 300, "force_lost_pods": False}})


def level_disappears(stage: Stage) -> None:
    label, nodes = site.LABELS["clique"], site.all_nodes("nvlink")
    running, waiting = stage.run("nvlink"), stage.run("nvlink")
    running.submit("use-case-1.yaml")
    placed = running.wait_until_placed(4)
    stage.view.take_label(label, nodes)
    stage.report.line(f"label {label} is taken off all {len(nodes)} nodes of the pool")
    waiting.submit("use-case-1.yaml")
    for run in (running, waiting):
        message = run.check_levels("True")
    stage.report.line(f"message: {message}")
    running.check_running(placed)
    stage.view.put_label_back(label, nodes)
    stage.report.line("the label is put back")
    for run in (running, waiting):
        run.check_levels("False")
    _same_clique(stage.report, waiting.wait_until_placed(4))
    waiting.show_events_of_levels()
    running.cancel_beside_others()
    waiting.cancel()


def refusals(stage: Stage) -> None:
    text = (EXAMPLES / "patience.yaml").read_text().replace("spine", "zone")
    submit = partial(stage.service.submit, "native", text)
    expect_refusal(
        stage.report,
        "patience.yaml with the keys of pool native (Kubernetes scheduler)",
        submit,
        names="topology.relax_pending",
    )
    text = (EXAMPLES / "use-case-4.yaml").read_text().replace("spine", "zone").replace("rack", "clique")
    submit = partial(stage.service.submit, scenario.QUEUED, text)
    expect_refusal(
        stage.report, "use-case-4.yaml with the keys of pool queued (Kueue)", submit, names="topology.nested"
    )
    keys = {"configs_dict": {"backend": "plain"}}
    expect_refusal(
        stage.report,
        "moving pool nvlink, which has topology keys, to a scheduler without topology",
        lambda: stage.service.call("PATCH", "/api/configs/pool/nvlink", keys),
        names="topology.required",
    )
    text = (EXAMPLES / "use-case-1.yaml").read_text().replace("key: clique", "key: cliqe")
    expect_refusal(
        stage.report, "a misspelled key", lambda: stage.service.submit("nvlink", text), names="clique"
    )


QUEUE_SECONDS = 60.0
SETS = tuple(tuple(f"worker-{index}" for index in indices) for indices in (range(4), range(4, 8)))
"""The tasks of the two segments that use cases 2 to 4 have."""

GANG_GPUS = 8 * scenario.GPUS
