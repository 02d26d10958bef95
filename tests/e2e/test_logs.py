"""The logs of tasks can be read after their pods are gone, whatever way they went."""

import http.client
import threading
from urllib.parse import urlsplit

from tests.e2e.conftest import workflow

PAIR = ("g", ["a", "b"])
SAID = "kwok plays its kubelet"


def logs(world, name, **query):
    asked = "&".join(f"{key}={value}" for key, value in query.items())
    return world.service.call("GET", f"/api/workflow/{name}/logs?{asked}")


def test_the_log_of_a_workflow_that_ended_is_there_after_its_pods(world):
    pool = world.make_pool()
    name = world.submit(pool, workflow(PAIR))
    world.wait_group(name, "g", "RUNNING")
    for pod in world.pods(name):
        world.annotate(pod, run_for="0s")
    answer = world.wait_released(name)
    assert world.left(name) == []
    lines = logs(world, name).splitlines()
    assert [line.split()[0] for line in lines] == ["[a]", "[b]"]
    assert all(SAID in line for line in lines)
    assert logs(world, answer["uuid"], task_name="a", retry_id=0, last_n_lines=1).count(SAID) == 1


def test_the_log_of_a_workflow_that_was_cancelled_by_force_is_there_too(world):
    pool = world.make_pool()
    name = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(name, "g", "RUNNING")
    world.service.cancel(name, force=True)
    world.wait_released(name)
    assert SAID in logs(world, name)


def test_a_follower_of_a_workflow_reads_to_its_end(world):
    pool = world.make_pool()
    first, second = ("first", ["a"]), ("second", ["b"], {"inputs": "[{task: a}]"})
    name = world.submit(pool, workflow(first, second))
    world.wait_group(name, "first", "RUNNING")
    read = []
    reader = threading.Thread(target=lambda: read.append(logs(world, name)))
    reader.start()
    for group in ("first", "second"):
        world.wait_group(name, group, "RUNNING")
        (pod,) = [p for p in world.pods(name) if p["status"]["phase"] == "Running"]
        world.annotate(pod, run_for="0s")
        world.wait(lambda: world.groups(name)[group]["status"], lambda status: status == "COMPLETED")  # noqa: B023
    reader.join(timeout=120)
    assert not reader.is_alive()
    assert [line.split()[0] for line in read[0].splitlines()] == ["[a]", "[b]"]


def test_a_follower_that_hangs_up_gives_the_place_back_though_nothing_is_logged(world):
    pool = world.make_pool()
    name = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(name, "g", "RUNNING")

    def begin():
        caller = http.client.HTTPConnection(urlsplit(world.service._url).netloc, timeout=120)
        caller.request("GET", f"/api/workflow/{name}/logs", headers=world.service.headers)
        answer = caller.getresponse()
        if answer.status == 200:
            assert SAID in answer.readline().decode()
        return caller, answer

    def hang_up(caller, answer):
        caller.close()
        answer.close()
        return answer.status

    following = [begin() for _ in range(2 * 20 + 1)]  # of one user, on two processes
    seen = [hang_up(*pair) for pair in following]
    assert seen[:2] == [200, 200]
    assert set(seen) == {200, 429}
    for _ in range(4):
        world.wait(lambda: hang_up(*begin()), lambda status: status == 200)
