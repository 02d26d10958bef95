"""Other tenants' pods on a real API server: what they hold is not free, and it is free again when they go."""

from tests.e2e.conftest import workflow

PAIR = ("g", ["a", "b"])
SAME_RACK = "one: {gpu: 4, topology: [{key: rack}]}"


def test_a_pod_of_somebody_else_takes_room_until_it_is_gone(world):
    pool = world.make_pool()
    busy = [f"{pool}-r{rack}-0" for rack in (0, 1)]

    def verdict():
        path = f"/api/pool/{pool}/workflow?feasibility=only"
        text = {"file": workflow(PAIR, resources=SAME_RACK)}
        return world.service.call("POST", path, text)["feasibility"][0]

    world.wait(verdict, lambda verdict: (verdict["verdict"], verdict.get("others_known")) == ("now", True))
    for node in busy:
        world.view.block(node)
    said = world.wait(verdict, lambda verdict: verdict["verdict"] == "not_now")
    assert 'lacks 1, held by other tenants\' pods in namespace "default".' in said["sentence"]
    waiting = world.submit(pool, workflow(PAIR, resources=SAME_RACK))
    told = world.wait(lambda: world.groups(waiting)["g"]["waiting_reason"] or "", lambda text: "rack" in text)
    (why,) = world.service.call("GET", f"/api/workflow/{waiting}/explain")["groups"]
    assert (told in why["sentence"], why["why"]) == (True, "topology")
    assert "held by other tenants' pods" in why["sentence"]

    world.view.unblock(busy[0])
    world.wait_group(waiting, "g", "RUNNING")
    world.service.cancel(waiting, force=True)
    world.wait_released(waiting)
    world.wait(verdict, lambda verdict: verdict["verdict"] == "now")
    world.view.unblock(busy[1])
