"""A gang that KAI's usual order never places is placed because its sets get another order while it waits."""

from tests.e2e.conftest import workflow

SIZES = {"four": 4, "ta": 3, "tb": 3, "xa": 2, "xb": 2, "xc": 2}


def gang():
    """Sets that fill two racks of eight places; largest first, the last one finds one place in each rack."""
    tasks = [f"{name}{number}" for name, size in SIZES.items() for number in range(size)]
    lines = ["workflow:", "  name: ordered", "  groups:", "  - name: g", "    tasks:"]
    lines += [
        f"    - {{name: {task}, lead: {str(task == 'four0').lower()}, image: busybox, command: [sleep], "
        f"resource: {task[:-1]}}}"
        for task in tasks
    ]
    lines.append("  resources:")
    lines += [f"    {name}: {{gpu: 2, topology: [{{key: rack, group: {name}}}]}}" for name in SIZES]
    return "\n".join(lines)


def test_a_gang_is_placed_only_because_it_is_re_ordered(world):
    pool = world.make_pool(racks=2, size=4)
    first = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(first, "g", "RUNNING")
    name = world.submit(pool, gang())
    waiting = world.wait_group(name, "g", "SCHEDULING")
    assert waiting["order"] == []
    usual = {
        pod["metadata"]["name"]: leaf(pod)
        for pod in world.wait(lambda: world.pods(name), lambda p: len(p) == 16)
    }

    world.service.cancel(first, force=True)

    placed = world.wait_group(name, "g", "RUNNING")
    parts = [part[-1]["group"] for part in placed["order"][0]["parts"]]
    now = {pod["metadata"]["name"]: leaf(pod) for pod in world.pods(name)}
    lines = world.service.events(name)
    assert parts != list(SIZES)
    assert now.keys() == usual.keys()
    assert 0 < sum(now[pod] != usual[pod] for pod in now) < 16
    assert any(" SetsOrdered: " in line for line in lines)
    assert any(" SetsReordered: " in line for line in lines)
    world.service.cancel(name, force=True)
    world.wait_released(name)


def leaf(pod):
    return pod["metadata"]["labels"]["kai.scheduler/subgroup-name"]
