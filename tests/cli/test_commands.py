"""What each command does, says and ends with, on the whole service."""

import json
import re
import signal

import pytest

from tests.builders.replies import POOLS
from tests.e2e import rights
from tests.e2e.conftest import workflow
from tests.verdicts.gangs_of_others import KAI

TOPOLOGY = "{gpu: 4, topology: [{key: rack, requirementType: required}]}"


@pytest.fixture
def pool(world):
    """Two racks of two nodes, as soon as the observer has seen them."""
    name = world.make_pool()
    world.wait(
        lambda: world.service.get(f"/api/pool/{name}/topology"),
        lambda seen: seen["nodes"] == 4 and seen["topology_keys"][0]["domain_count"] == 2,
    )
    return name


def spec(tasks, resources=TOPOLOGY):
    return workflow(("g", tasks), resources=f"one: {resources}")


def test_pools_are_listed_with_what_is_free_and_as_the_service_says_them(command, pool):
    (row,) = [re.split(r"\s{2,}", line) for line in command("pools").lines if line.startswith(pool)]
    assert row == [pool, "ONLINE", "4 of 4", "16 of 16", "0", "2 nodes in a rack", "no", "rack", "gpu"]
    assert command("pools", "-o", "json").json["pools"][pool]["nvlink"] is False


def test_a_topology_is_told_from_broad_to_narrow(command, pool):
    head, *rest = command("topology", pool).lines
    assert head.startswith(f"pool {pool}: 4 nodes, free are 4, 16 of 16 GPUs, as of 2")
    assert rest == [
        "",
        "Topology keys, broadest first:",
        "KEY   LABEL            DOMAINS  NODES WITHOUT LABEL",
        "rack  osmo.local/rack  2        0",
        "",
        "Domains:",
        "DOMAIN  KEY   NODES  FREE  GPUS  FREE GPUS",
        "r0      rack  2      2     8     8",
        "r1      rack  2      2     8     8",
    ]
    assert command("topology", pool, "-o", "json").json["free_gpus"] == 16
    assert command("map", pool).lines[2:] == [
        "DOMAIN  KEY   IN USE            FREE NODES  FREE GPUS",
        "r0      rack  ................  2/2         8/8",
        "r1      rack  ................  2/2         8/8",
        "(pool)        ................  4/4         16/16",
    ]
    assert command("map", pool, "-o", "name").lines == ["r0", "r1"]


def test_a_dry_run_shows_what_would_be_made_and_makes_nothing(command, world, pool):
    name = f"{world.prefix}dry"
    text = spec(["a", "b"]).replace("name: w", f"name: {name}")
    ended = command("submit", "-", "--pool", pool, "--dry-run", given=text)
    assert ended.code == 0, ended.err
    assert ended.lines[0] == f"{name}-1 would be accepted"
    assert ended.lines[1].startswith("group g: ")  # whether it fits
    assert ended.lines[2:6] == [
        "",
        "Requirements, as the scheduler gets them:",
        "GROUP  SET           KEY   TYPE      TASKS  NOTE",
        "g      rack default  rack  required  2",
    ]
    kinds = [
        line.split()[0] for line in ended.lines[ended.lines.index("Objects, in order of creation:") + 2 :]
    ]
    assert kinds == ["Topology", "PodGroup", "Service", "Pod", "Pod"]
    recovery = ended.lines[ended.lines.index("Recovery, in force for each group:") + 2]
    want = "g requeue requeue fail requeue 3 no limit 30s to 600s 600s 0"
    assert recovery.split() == want.split()
    assert "no such workflow" in command("list", "--name", name).err


def test_a_template_is_submitted_with_its_variables_labels_and_priority(command, pool, tmp_path):
    template = tmp_path / "train.yaml"
    template.write_text(
        spec(["a"]).replace("name: w", "name: {{ word }}") + "default-values: {word: unset}\n"
    )
    ended = command(
        "submit", str(template), "--pool", pool, "--set-string", "word=t7", "--label", "team=vision",
        "--priority", "LOW", "-o", "json",
    )  # fmt: skip
    name = ended.json["name"]
    assert name.startswith("t7-")
    listed = command("list", "--name", name, "--label", "team=vision", "-o", "json").json["workflows"]
    assert [(row["name"], row["priority"]) for row in listed] == [(name, "LOW")]
    assert command("cancel", name).out == f"{name} is being cancelled\n"


def test_the_best_of_several_pools_is_chosen_and_all_verdicts_are_shown(command, world, pool):
    small = world.make_pool("small", racks=1, size=1)
    world.wait(lambda: world.service.get(f"/api/pool/{small}/topology"), lambda seen: seen["nodes"] == 1)
    pools = ("--pool", f"{small},{pool}")
    ended = command("submit", "-", *pools, "--dry-run", given=spec(["a", "b"]))
    assert ended.code == 0, ended.err
    assert ended.lines[0].endswith(f" would be accepted into pool {pool}")
    assert ended.lines[1] == "Pools, the best first:"
    rows = [line.split()[:4] for line in ended.lines[2:5]]
    columns = ["POOL", "CHOSEN", "ACCEPTS", "VERDICT"]
    assert rows == [columns, [pool, "yes", "yes", "now"], [small, "no", "yes", "never"]]
    assert command("fits", "-", *pools, "-o", "name", given=spec(["a", "b"])).lines == ["now"]
    hidden = command("submit", "-", "--pool", f"{pool},nosuch", given=spec(["a"]))
    assert (hidden.code, hidden.out) == (1, "")
    assert 'There is no pool "nosuch" to which you may submit.' in hidden.err


def test_every_fault_is_told_with_its_place_and_what_would_be_accepted(command, pool):
    text = spec(["a"], "{gpu: 4, topology: [{key: rak}], cpus: 4}")
    ended = command("submit", "-", "--pool", pool, given=text)
    assert (ended.code, ended.out) == (1, "")
    lines = ended.err.splitlines()
    assert lines[0] == "refused, 2 faults:"
    assert any('resources.one.topology[0].key: The pool has no topology key "rak"' in line for line in lines)
    assert "    accepted: rack" in lines
    body = json.loads(command("submit", "-", "--pool", pool, "-o", "json", given=text).err)
    assert (body["error_code"], len(body["details"])) == ("USAGE", 2)


def test_a_workflow_is_looked_at_from_its_text_to_its_second_run(command, world, pool):
    template = spec(["a", "b"]).replace("name: w", f"name: {world.prefix}look") + "default-values: {}\n"
    said = command("submit", "-", "--pool", pool, "--set-env", "SIZE=7", "-o", "name", given=template)
    (name,) = said.lines
    world.wait_group(name, "g", "RUNNING")
    assert f"name: {world.prefix}look" in command("spec", name).out
    assert command("spec", name, "--template").out == template
    drawn = command("map", name)
    assert drawn.lines[0] == f"{name} in pool {pool}: RUNNING, on 2 nodes"
    head, rack, *nodes = drawn.lines[2:6]
    assert (head.split(), rack.split()[1:]) == (["PLACE", "TASKS"], ["2", "tasks"])
    assert sorted(line.split()[1] for line in nodes) == ["g/a", "g/b"]
    assert drawn.lines[-1].split()[:5] == ["g", "rack", "default", "rack", "required"]
    assert "as asked" in drawn.lines[-1]
    left_out, *timeline = command("events", name, "-n", "3").lines
    assert (left_out, len(timeline)) == ("(only the last 3 events are shown)", 3)
    assert command("explain", name, "-o", "json").json["workflow"]["env_vars"] == {"SIZE": "7"}
    refused = command("restart", name)
    assert (refused.code, refused.out) == (1, "")
    command("cancel", name)
    world.wait_group(name, "g", "FAILED_CANCELED")
    again = command("restart", name, "-o", "name")
    assert again.code == 0, again.err
    (second,) = again.lines
    run = command("explain", second, "-o", "json").json["workflow"]
    assert f"{run['parent_name']}-{run['parent_job_id']}" == name
    command("cancel", second)


def test_a_workflow_that_never_fits_is_told_so_before_it_is_submitted(command, pool):
    ended = command("fits", "-", "--pool", pool, given=spec(["a", "b", "c"]))
    assert ended.code == 0, ended.err
    assert ended.lines[0].startswith("group g: ")
    assert ended.lines[1].split() == ["SET", "DOMAIN", "ROOM", "FOR", "LACKS", "HELD", "BY", "FREE", "AT"]
    assert command("fits", "-", "--pool", pool, "-o", "name", given=spec(["a", "b"])).out == "now\n"


def test_it_is_predicted_what_more_nodes_would_do_for_what_waits(command, world, pool):
    waits = world.submit(pool, spec(["a", "b", "c"]))
    node = command("map", pool, "-o", "json").json["topology_keys"][0]["domains"][0]
    assert node["nodes"] == 2
    somewhere = world.service.get(f"/api/resources?pools={pool}")["resources"][0]["hostname"]
    ended = command("what-if", pool, "--add-nodes", f"2:{somewhere}", "-o", "json")
    assert ended.code == 0, ended.err
    (group,) = [group for group in ended.json["groups"] if group["workflow"] == waits]
    assert (group["change"], group["before"]["verdict"]) == ("fits", "never")
    table = command("what-if", pool, "--drain", "rack=r0", "--drain-node", somewhere).lines
    assert table[-1].startswith("waiting groups: 1 same; free nodes: 4, then ")
    command("cancel", waits)


def test_configuration_is_shown_changed_and_taken_back(command, world, pool, tmp_path):
    shown = command("config", "show", "POOL", pool)
    assert shown.code == 0, shown.err
    file = tmp_path / "pools.yaml"
    file.write_text(shown.out)
    assert command("config", "diff", str(file)).err.endswith("0 objects would change.\n")
    file.write_text(shown.out.replace("description: ''", "description: quick"))
    compared = command("config", "diff", str(file))
    assert "+description: quick" in compared.out
    applied = command("config", "apply", str(file), "-m", "faster")
    assert (applied.code, applied.out) == (0, f"POOL/{pool} changed\n"), applied.err
    newest, first = command("config", "history", "POOL", pool, "-o", "name").lines
    assert command("config", "history", "POOL", pool).lines[1].split()[-1] == "faster"
    assert "+description: quick" in command("config", "diff", first, newest).out
    assert "description: quick" in command("config", "show", newest, pool).out
    dry = command("config", "rollback", first, "--dry-run")
    assert dry.out == f"POOL {pool} would be as after {first}\n"
    back = command("config", "rollback", first)
    assert back.out.startswith(f"POOL {pool} is as after {first}, now POOL:")
    assert "description: ''" in command("config", "show", "pool", pool).out


def test_a_wrong_file_of_configuration_is_refused_with_its_line(command, pool, tmp_path):
    file = tmp_path / "pools.yaml"
    file.write_text(f"pools:\n  {pool}: {{backend: nowhere}}\n")
    ended = command("config", "apply", str(file))
    assert (ended.code, ended.out) == (1, "")
    assert "line 2" in ended.err
    assert command("config", "show", "POOL:999999").code == 1


def test_a_default_pool_is_missed_chosen_shown_and_given_up(command, pool):
    """One test of it: a default pool belongs to the user, whom all tests of the command share."""
    ended = command("submit", "-", given=spec(["a"]))
    assert ended.code == 1
    assert "Nothing names a pool" in ended.err
    named = spec(["a"]).replace("  name: w", f"  name: w\n  pool: {pool}")
    assert (
        command("submit", "-", "--dry-run", given=named)
        .lines[0]
        .endswith(f" would be accepted into pool {pool}")
    )
    assert command("pool", "default", pool, "-o", "name").out == f"{pool}\n"
    assert command("pool", "default").out.startswith(f"default pool: {pool}; you may use: ")
    assert command("submit", "-", "--dry-run", given=spec(["a"])).code == 0
    assert command("pool", "default", "--none", "-o", "name").out == ""
    refused = command("pool", "default", "nosuch")
    assert refused.code == 1
    assert "nosuch" in refused.err


def test_it_is_explained_why_a_gang_waits_and_watched_to_its_end(command, world, pool):
    first = world.submit(pool, spec(["a", "b"]))
    second = world.submit(pool, spec(["a", "b"]))
    for name in (first, second):
        world.wait_group(name, "g", "RUNNING")
    waits = world.submit(pool, spec(["a", "b"]))
    world.wait(lambda: world.groups(waits)["g"], lambda group: "room" in (group["waiting_reason"] or ""))
    said = command("explain", waits).lines
    assert said[0].startswith(f"{waits} in pool {pool}: PENDING")
    assert said[2].startswith("group g: SCHEDULING (2 SCHEDULING), waits since ")
    assert said[3].startswith("  No rack has room for ")
    assert said[-1].split() == ["g", "rack", "default", "rack", "required", "2"]

    watching = command.start("watch", first, "--interval", "0.2")
    told = watching.stdout.readline()
    assert told.endswith(f" {first} g: RUNNING (2 RUNNING)\n")
    for pod in world.pods(first):
        world.annotate(pod, run_for="0.1s")
    out, err = watching.communicate(timeout=200)
    assert (watching.returncode, err) == (0, "")
    assert out.splitlines()[-1].endswith(f" {first}: COMPLETED")
    assert command("list", "--pool", pool, "--status", "COMPLETED").lines[1].split()[:2] == [
        first,
        "COMPLETED",
    ]

    ended = command("cancel", waits, "nosuch-1", second, "-m", "enough")
    assert ended.code == 1
    assert ended.lines == [f"{name} is being cancelled" for name in (waits, second)]
    assert "nosuch-1" in ended.err
    watched = command("watch", second, "-o", "json", "--interval", "0.2")
    assert watched.code == 3
    changes = [json.loads(line) for line in watched.lines]
    assert changes[-1]["status"] == "FAILED_CANCELED"
    assert changes[-2]["tasks"] == {"FAILED_CANCELED": 2}


def test_logs_are_printed_and_followed_to_the_end(command, world, pool):
    name = world.submit(pool, spec(["a", "b"]))
    world.wait_group(name, "g", "RUNNING")
    lines = command("logs", name).lines
    assert {line.split()[0] for line in lines} == {"[a]", "[b]"}
    assert "[b]" not in command("logs", name, "--task", "a", "-n", "1").out
    following = command.start("logs", name, "-f", "-t", "a")
    assert following.stdout.readline()
    for pod in world.pods(name):
        world.annotate(pod, run_for="0.1s", exit_code="3")
    following.communicate(timeout=200)
    assert following.returncode == 0
    world.wait_group(name, "g", "FAILED")
    assert "3" in command("logs", name, "--errors").out
    assert command("watch", name).code == 3


def test_a_missing_object_is_refused_in_the_words_of_the_service(command):
    for words in (
        ("explain", "nosuch-1"),
        ("logs", "nosuch-1"),
        ("topology", "nosuch"),
        ("watch", "../pool"),
    ):
        ended = command(*words)
        assert (ended.code, ended.out) == (1, ""), words
        assert "no" in ended.err
        assert len(ended.err.splitlines()) == 1


def test_an_operator_has_the_running_service_checked(command, stack):
    """Other tests break things at the same time, so what is found is not asserted."""
    ended = command("doctor", "-o", "json")
    assert ended.code in (0, 3, 4), ended.err
    report = ended.json["report"]
    assert report["looked"]
    assert ended.code == (3 if report["findings"] else 4 if report["not_looked"] else 0)


def test_nodes_are_listed_and_a_node_is_shown_with_what_runs_on_it(command, world, pool):
    name = command("submit", "-", "--pool", pool, "-o", "name", given=spec(["a", "b"])).lines[0]
    world.wait_group(name, "g", "RUNNING")
    titles, *rows = [re.split(r"\s{2,}", line) for line in command("nodes", "--pool", pool).lines]
    assert titles == ["NODE", "STATE", "GPUS FREE", "DOMAIN", "POOLS"]
    assert [row[2] for row in rows if row[1:] != titles[1:]].count("0 of 4") == 2
    busy = next(row[0] for row in rows if row[2] == "0 of 4")
    *_, title, columns, task = command("nodes", busy).lines
    assert (title, columns.split()[:4]) == ("On it:", ["WORKFLOW", "TASK", "STATUS", "GPUS"])
    assert (task.split()[0], task.split()[2:4]) == (name, ["RUNNING", "4"])
    (listed,) = [re.split(r"\s{2,}", line) for line in command("list", "--name", name).lines[1:]]
    assert listed[:6] == [name, "RUNNING", pool, "8", "2", "2"]
    unknown = command("nodes", "nosuch")
    assert (unknown.code, unknown.err) == (1, 'None of your pools has a node "nosuch".\n')


def test_the_logs_of_a_workflow_that_waits_say_why(command, world, pool):
    text = spec(["a"], resources="{gpu: 64}")
    name = command("submit", "-", "--pool", pool, "-o", "name", given=text).lines[0]
    world.wait(
        lambda: world.service.get(f"/api/workflow/{name}"),
        lambda seen: seen["groups"][0]["waiting_reason"],
    )
    ended = command("logs", name)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.startswith(f"{name} waits, so it has no logs yet: ")


def test_a_name_that_is_misspelled_is_answered_with_the_one_that_was_meant(command, pool):
    for words in (["topology"], ["map"], ["nodes", "--pool"], ["list", "--pool"]):
        ended = command(*words, pool[:-1])
        assert ended.code == 1, words
        assert f'Did you mean "{pool}"?' in ended.err, words


@pytest.mark.parametrize("status", ["RUNING", "running"])
def test_a_status_that_is_misspelled_is_answered_with_the_one_that_was_meant(command, status):
    ended = command("list", "--status", "PENDING", "--status", status)
    assert (ended.code, ended.out) == (1, "")
    assert f'"{status}" is not accepted; accepted are PENDING, RUNNING, ' in ended.err
    assert 'Did you mean "RUNNING"?' in ended.err


def test_a_shell_completes_the_names_that_the_service_has(command, pool):
    def completed(line):
        ended = command(
            _OSMO_TOPOLOGY_COMPLETE="complete_bash",
            COMP_WORDS=f"osmo-topology {line}",
            COMP_CWORD=str(len(line.split())),
        )
        return ended.lines

    assert pool in completed(f"topology {pool[:3]}")
    assert completed("list --status RUNN") == ["RUNNING"]


def test_a_list_that_is_watched_is_shown_again(bare, answering):
    login = {"OSMO_URL": answering(POOLS).url, "OSMO_TOKEN": "t"}
    process = bare.start("pools", "--watch", **login)
    titles = [process.stdout.readline() for _ in range(6)]
    process.send_signal(signal.SIGINT)
    assert bare.end(process).code == 130
    assert titles[:2] == titles[3:5]
    assert titles[2] == "\n"


OTHERS = "default"
GROUPS, PODS = KAI.replace("/others/", f"/{OTHERS}/"), f"/api/v1/namespaces/{OTHERS}/pods"


@pytest.fixture
def following(world):
    """The backend whose gangs of others are followed, by an observer that may."""
    for body in rights.manifests("others-gangs.yaml"):
        rights._apply(world.api, body)
    rights.until_granted(world.api, "others-gangs.yaml")
    path = f"/api/configs/backend/{world.backend}-kai"
    world.service.call("POST", path, {"configs": {"follow_others": True}})
    yield f"{world.backend}-kai"
    world.service.call("POST", path, {"configs": {"follow_others": False}})


@pytest.fixture
def gang_of_others(world):
    """A pod group of KAI with two pods that wait for a queue that is not there; its name."""
    name = f"{world.prefix}gang"
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    words = {"name": name, "annotations": {"pod-group-name": name}}
    spec = {"schedulerName": "kai-scheduler", "containers": [container]}
    body = {"metadata": {"name": name}, "spec": {"minMember": 2, "queue": "nobodys"}}
    world.api.create(GROUPS, {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", **body})
    pods = [f"{name}-{number}" for number in range(2)]
    for pod in pods:
        world.api.create(PODS, {"metadata": words | {"name": pod}, "spec": spec})
    yield name
    for path in (f"{GROUPS}/{name}", *(f"{PODS}/{pod}" for pod in pods)):
        world.api.delete(path, body={"gracePeriodSeconds": 0})


def test_what_others_submitted_is_listed_and_explained_by_name(
    command, world, pool, following, gang_of_others
):
    name = f"{OTHERS}/{gang_of_others}"
    listed = world.wait(
        lambda: command("explain", "--cluster", following), lambda ended: name in ended.out and not ended.code
    )
    (row,) = [re.split(r"\s{2,}", line) for line in listed.lines if line.startswith(name)]
    assert row[1:5] == ["PodGroup", "nobodys", "2", "8"]
    ended = command("explain", "--cluster", following, name)
    assert ended.code == 0, ended.err
    assert ended.lines[0].startswith(f"{name}, PodGroup, on backend {following}: 2 tasks, 8 GPUs")
    assert 'Queue "nobodys" does not exist' in ended.out
