"""Entries with ``count`` and ``segment``: the tasks they make, and that nothing but the spelling differs.

The property below holds every counted document against its plain spelling, on every scheduler.
"""

import json
import random
import re
from itertools import count
from uuid import UUID

import pytest
import yaml
from jinja2.sandbox import SandboxedEnvironment

from pools.models import ConfigRevision, Pool, ServiceConfig
from scheduling.backends.registry import scheduler_backend
from tests.api.workflows.specs import task, text
from tests.error_shape import assert_error_shape
from tests.factories import LEVELS, BackendFactory, PoolFactory
from workflows.admission.admit import admit
from workflows.admission.pool_facts import pool_facts
from workflows.manifests.group import render_group
from workflows.models import Task, Workflow
from workflows.spec import SpecLimits, expanded, read_workflow
from workflows.spec.reading import PlainText

pytestmark = pytest.mark.django_db

OSMO_TOKEN = re.compile(r"{{(?:uuid|workflow_id|output|input:[^}]+|host:[^}]+)}}")  # as OSMO has it
SCHEDULERS = {"kai": "0.13", "kueue": "0.17", "kubernetes": "1.37"}
KNOWN_TO_OSMO = {
    "group": {"name", "barrier", "ignoreNonleadStatus", "tasks"},
    "task": {"name", "image", "command", "args", "resource", "lead", "environment", "files", "inputs"},
    "resource": {"cpu", "gpu", "memory", "storage", "platform", "topology"},
    "topology": {"key", "group", "requirementType"},
}


def counted(n, *, name="worker", **fields):
    return task(name, count=n, resource="node", **fields)


def single(name, **fields):
    return task(name, resource="node", **fields)


def workflow(*tasks, topology=(), group=None, resources=None, **fields):
    group = {"name": "training", "tasks": list(tasks), **(group or {})}
    node = {"gpu": 4, **({"topology": list(topology)} if topology else {})}
    return {"name": "pretrain", "groups": [group], "resources": {"node": node, **(resources or {})}, **fields}


@pytest.fixture
def submit(api):
    PoolFactory(name="h100", levels=LEVELS, max_num_tasks=None)

    def post(document, query=""):
        return api.post(f"/api/pool/h100/workflow{query}", {"file": text(document)}, format="json")

    return post


def refused(answer):
    """The messages of a refused workflow, by the place of each."""
    return [(fault["path"], fault["message"]) for fault in assert_error_shape(answer, 400)["details"]]


def objects(answer, kind):
    assert answer.status_code == 200, answer.json()
    return [manifest for manifest in answer.json()["objects"] if manifest["kind"] == kind]


def variables(pod):
    return {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}


def test_a_count_makes_tasks_of_their_own_and_the_first_leads(submit):
    assert submit(workflow(counted(3, lead=True))).status_code == 200
    rows = Task.objects.order_by("position")
    assert [(row.name, row.lead) for row in rows] == [
        ("worker-0", True), ("worker-1", False), ("worker-2", False)
    ]  # fmt: skip


def test_the_stored_document_is_as_short_as_it_was_written(submit):
    written = workflow(counted(18))
    submit(written)
    assert Workflow.objects.get().spec == text(written)


def test_containers_know_their_place_in_entry_group_and_segment(submit):
    answer = submit(
        workflow(
            task("driver", lead=True, resource="cpu"),
            counted(4, segment={"size": 2, "key": "rack"}),
            resources={"cpu": {"cpu": 1}},
        ),
        "?dry_run=True",
    )
    of = [variables(pod) for pod in objects(answer, "Pod")]
    assert [env["OSMO_RANK"] for env in of] == list("01234")
    assert {env["OSMO_WORLD_SIZE"] for env in of} == {"5"}
    assert [env["OSMO_TASK_INDEX"] for env in of] == list("00123")
    assert [env["OSMO_TASK_COUNT"] for env in of] == list("14444")
    assert [env.get("OSMO_SEGMENT") for env in of] == [None, *"0011"]
    assert [env.get("OSMO_SEGMENT_RANK") for env in of] == [None, *"0101"]
    assert [env.get("OSMO_SEGMENT_SIZE") for env in of] == [None, *"2222"]
    driver = objects(answer, "Pod")[0]["spec"]
    assert {env["OSMO_LEAD_HOST"].split(".")[0] for env in of} == {driver["hostname"]}


def test_a_users_own_variable_of_the_same_name_stays(submit):
    answer = submit(workflow(counted(2, environment={"OSMO_RANK": "mine"})), "?dry_run=True")
    assert [variables(pod)["OSMO_RANK"] for pod in objects(answer, "Pod")] == ["mine", "mine"]


def test_the_index_stands_in_commands_arguments_and_variables_and_a_host_alone_is_index_0(submit):
    answer = submit(
        workflow(
            counted(
                2,
                command=["run-{{task_index}}", "{{host:worker}}"],
                args=["{{host:worker-1}}"],
                environment={"SHARD": "{{task_index}}/2"},
            )
        ),
        "?dry_run=True",
    )
    first, second = objects(answer, "Pod")
    hosts = [pod["spec"]["hostname"] for pod in (first, second)]
    for index, pod in enumerate((first, second)):
        container = pod["spec"]["containers"][0]
        assert container["command"][0] == f"run-{index}"
        assert container["command"][1].split(".")[0] == hosts[0]
        assert container["args"][0].split(".")[0] == hosts[1]
        assert variables(pod)["SHARD"] == f"{index}/2"


def test_a_task_with_a_count_under_tasks_is_a_gang(submit):
    answer = submit({"name": "one", "tasks": [counted(4)], "resources": {"node": {"gpu": 1}}})
    assert answer.status_code == 200, answer.json()
    assert [row.group.name for row in Task.objects.select_related("group")] == ["worker-group"] * 4


def test_segments_are_sets_of_consecutive_tasks_and_are_told_with_their_tasks(submit):
    answer = submit(
        workflow(counted(18, segment={"size": 9, "key": "clique"}), topology=[{"key": "zone"}]),
        "?dry_run=True",
    )
    (pod_group,) = objects(answer, "PodGroup")
    sizes = [each["minMember"] for each in pod_group["spec"]["subGroups"] if "minMember" in each]
    assert sizes == [9, 9]
    told = json.dumps(answer.json()["feasibility"]) + json.dumps(answer.json()["constraints"])
    assert "segment.1.worker-9.worker-17" in told


def test_a_segment_of_a_group_spans_its_entries_in_the_order_written(submit):
    answer = submit(
        workflow(
            counted(3, name="a", lead=True),
            counted(5, name="b"),
            group={"segment": {"size": 4, "key": "rack"}},
        ),
        "?dry_run=True",
    )
    assert [variables(pod)["OSMO_SEGMENT"] for pod in objects(answer, "Pod")] == list("00001111")
    assert [variables(pod)["OSMO_SEGMENT_RANK"] for pod in objects(answer, "Pod")] == list("01230123")


@pytest.mark.parametrize(
    ("document", "path", "words"),
    [
        (workflow(counted(0)), "count", "0 is not accepted: it must be 1 or more"),
        (workflow(counted(-3)), "count", "-3 is not accepted: it must be 1 or more"),
        (workflow(counted(2.5)), "count", "a whole number is needed"),
        (workflow(counted(2.0)), "count", "a whole number is needed"),
        (workflow(counted("18")), "count", "a whole number is needed"),
        (workflow(counted(True)), "count", "a whole number is needed"),
        (workflow(counted(10**6)), "count", "at most"),
        (workflow(counted(100, name="w" * 62)), "name", "a name of 65 characters; at most 64"),
        (workflow(counted(4, lead=True), single("worker-3")), "tasks[1].name", "worker-0 to worker-3"),
        (workflow(counted(4, lead=True), single("Worker_3")), "tasks[1].name", "worker-0 to worker-3"),
        (workflow(counted(2, lead=True), counted(2, name="b", lead=True)), "lead", "2 tasks have"),
        (workflow(counted(2), counted(2, name="b")), "groups[0]", "no task has"),
        (workflow(single("one", args=["{{task_index}}"])), "args[0]", "this has none"),
        (workflow(counted(2, args=["{{host:worker-2}}"])), "args[0]", "There are worker-0 to worker-1"),
        (
            workflow(counted(2, files=[{"path": "/a", "contents": "{{task_index}}"}])),
            "contents",
            "TASK_INDEX",
        ),
        (
            workflow(counted(2, credentials={"a": "/{{task_index}}"})),
            "credentials.a",
            "only in command, args",
        ),
        (
            workflow(counted(2, outputs=[{"url": "s3://b/{{task_index}}"}])),
            "outputs[0].url",
            "only in command, args",
        ),
        (
            workflow(counted(2, inputs=[{"url": "s3://b/{{task_index}}"}])),
            "inputs[0].url",
            "only in command, args",
        ),
        (workflow(counted(4, segment={"size": 0, "key": "rack"})), "segment.size", "it must be 2 or more"),
        (
            workflow(counted(4, segment={"size": 2, "key": "rack", "kye": 1})),
            "tasks[0].segment.kye",
            "no field",
        ),
        (workflow(counted(4, segment=[{"size": 0, "key": "rack"}])), "segment[0].size", "2 or more"),
        (workflow(counted(4, segment={"size": 1, "key": "rack"})), "size", "it must be 2 or more"),
        (workflow(counted(4, segment={"size": 8, "key": "rack"})), "size", "larger than the 4 tasks"),
        (workflow(counted(19, segment={"size": 9, "key": "rack"})), "size", "counts are 18 and 27"),
        (workflow(counted(4, segment={"size": 2, "key": "rak"})), "segment.key", 'Did you mean "rack"?'),
        (workflow(counted(4, segment=[])), "segment", "At least one entry"),
        (workflow(single("one", segment={"size": 2, "key": "rack"})), "segment", "this one has none"),
        (
            workflow(counted(12, segment=[{"size": 6, "key": "zone"}, {"size": 4, "key": "rack"}])),
            "segment[1].size",
            "6 is no multiple of 4",
        ),
        (
            workflow(counted(12, segment=[{"size": 6, "key": "rack"}, {"size": 3, "key": "zone"}])),
            "segment[1].key",
            '"zone" is broader',
        ),
        (
            workflow(counted(4, segment={"size": 2, "key": "rack"}), topology=[{"key": "rack"}]),
            "segment.key",
            "stands twice",
        ),
        (
            workflow(counted(4, segment={"size": 2, "key": "zone"}), topology=[{"key": "rack"}]),
            "segment.key",
            'must be narrower than "rack"',
        ),
        (
            workflow(
                counted(4, segment={"size": 2, "key": "rack"}), group={"segment": {"size": 2, "key": "rack"}}
            ),
            "tasks[0].segment",
            "not on both",
        ),
        (
            workflow(counted(4, segment="rack")),
            "tasks[0].segment",
            "write {size: 9, key: clique}, or a list of such",
        ),
        (
            workflow(counted(4, segment={"size": 2, "key": "rack", "waitSeconds": 9})),
            "segment.waitSeconds",
            "waitSeconds",
        ),
        (
            workflow(single("one"), group={"segment": {"size": 2, "key": "rack"}}),
            "segment",
            "no task of this",
        ),
    ],
)
def test_a_count_or_segment_that_cannot_be_is_refused_once_with_its_place(submit, document, path, words):
    answer = submit(document)
    faults = refused(answer)
    assert len(faults) == 1, faults
    assert path in faults[0][0]
    assert words in faults[0][1]
    assert not Workflow.objects.exists()


def test_a_fault_of_one_entry_hides_none_of_another(submit):
    answer = submit(
        workflow(
            counted(0, name="first", segment={"size": 1, "key": "clik"}),
            counted(5, name="second", lead=True, segment={"size": 2, "key": "rack"}),
        )
    )
    assert [path.partition(".tasks")[2] for path, _ in refused(answer)] == [
        "[0].count",
        "[0].segment.size",
        "[1].segment.size",
    ]


def test_a_preferred_segment_may_be_required_for_a_while(submit):
    segment = {"size": 2, "key": "rack", "requirementType": "preferred", "waitSeconds": 60}
    assert submit(workflow(counted(4, segment=segment))).status_code == 200
    (requirement,) = Task.objects.first().spec["requirements"]
    assert (requirement["required"], requirement["wait_seconds"]) == (False, 60)


def test_an_entry_whose_pods_are_too_large_is_refused_once(submit):
    environment = {f"V{number}": "x" * 100_000 for number in range(11)}
    ((path, message),) = refused(submit(workflow(counted(4, environment=environment))))
    assert path == "workflow.groups[0].tasks[0]"
    assert "the cluster accepts at most" in message


def test_an_input_names_one_task_of_an_entry(submit):
    document = workflow(counted(2))
    document["groups"].append({"name": "after", "tasks": [single("sum", inputs=[{"task": "worker"}])]})
    ((path, message),) = refused(submit(document))
    assert path.endswith("inputs[0].task")
    assert "worker-0 to worker-1. Name one of them." in message
    document["groups"][1]["tasks"][0]["inputs"] = [{"task": "worker-1"}]
    assert submit(document).status_code == 200


def test_limits_count_the_tasks_that_a_count_makes(submit):
    Pool.objects.update(max_num_tasks=17)
    body = assert_error_shape(submit(workflow(counted(18))), 400)
    assert "adds 18" in body["message"]


def read(document):
    return read_workflow(
        document, variables=(), string_variables=(), limits=SpecLimits(), allow_localpath=False
    )


def rendered(document, facts):
    """The objects of a document with fixed uuids; or the codes of its faults."""
    numbers = count(1)
    spec = read(document)
    assert not spec.faults, spec.faults
    groups, checked = admit(
        spec,
        facts,
        user="ann",
        priority="NORMAL",
        name="pretrain-1",
        workflow=UUID(int=7),
        scheduler=scheduler_backend(facts.terms.scheduler_type),
        new_uuid=lambda: UUID(int=next(numbers)),
    )
    if checked.faults:
        return sorted({fault.code for fault in checked.faults})
    return [json.dumps(render_group(group).in_order()) for group in groups]


def drawn(chance):
    """A random document with counts and segments."""
    size = chance.choice([2, 3, 4])
    inner = chance.choice([None, None, 2]) if size == 4 else None
    runs = chance.randint(1, 4)
    kind = chance.choice(["required", "required", "preferred"])
    levels = [{"size": size, "key": chance.choice(["rack", "clique"]), "requirementType": kind}]
    if inner:
        levels = [{**levels[0], "key": "rack"}, {"size": inner, "key": "clique", "requirementType": kind}]
    segment = levels if inner else levels[0]
    extra = chance.choice([{}, {"environment": {"A": "{{task_index}}", "B": "{{host:worker}}"}}])
    tasks = [counted(size * runs, lead=True, args=["--shard", "{{task_index}}"], **extra)]
    place = chance.choice(["none", "task", "group"])
    group = {}
    if place == "task":
        tasks[0]["segment"] = segment
    elif place == "group":
        group["segment"] = segment
        if chance.random() < 0.5:
            tasks.append(counted(size, name="helper"))
    if chance.random() < 0.3:
        tasks.append(
            task("driver", resource="cpu", files=[{"path": "/hosts", "contents": "{{host:worker}}"}])
        )
    topology = chance.choice([[], [{"key": "zone"}], [{"key": "zone", "group": "z"}]])
    if topology and chance.random() < 0.5:
        group["topology"], topology = topology, []
    document = workflow(*tasks, topology=topology, group=group, resources={"cpu": {"cpu": 1}})
    if len(tasks) == 1 and not group and chance.random() < 0.5:
        document["tasks"] = document.pop("groups")[0]["tasks"]
    return text(document)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_random_counted_jobs_are_rendered_as_their_plain_spelling(scheduler):
    backend = BackendFactory(scheduler_type=scheduler, scheduler_version=SCHEDULERS[scheduler])
    facts = pool_facts(PoolFactory(backend=backend, levels=LEVELS, nvlink=scheduler == "kai"))
    chance = random.Random(36)
    accepted = 0
    for _ in range(40):
        short = drawn(chance)
        plain = PlainText(text=short, limits=SpecLimits(), allow_localpath=False).expanded({})
        result = rendered(plain, facts)
        assert rendered(short, facts) == result, short
        accepted += isinstance(result[0], str) and result[0].startswith("[")
    assert accepted > 8


def test_the_plain_spelling_has_only_fields_that_osmo_knows(submit):
    plain = yaml.safe_load(
        expanded(
            text(
                workflow(
                    counted(4, segment={"size": 2, "key": "rack"}),
                    group={"topology": [{"key": "zone"}]},
                )
            ),
            {},
        )
    )["workflow"]
    (group,) = plain["groups"]
    assert group.keys() <= KNOWN_TO_OSMO["group"]
    assert all(each.keys() <= KNOWN_TO_OSMO["task"] for each in group["tasks"])
    for resource in plain["resources"].values():
        assert resource.keys() <= KNOWN_TO_OSMO["resource"]
        assert all(entry.keys() <= KNOWN_TO_OSMO["topology"] for entry in resource["topology"])


def test_the_plain_spelling_is_given_by_a_dry_run_and_by_the_spec(submit, api):
    document = workflow(counted(2))
    plain = submit(document, "?dry_run=True&expanded=True").json()["spec"]
    assert [each["name"] for each in yaml.safe_load(plain)["workflow"]["groups"][0]["tasks"]] == [
        "worker-0",
        "worker-1",
    ]
    name = submit(document).json()["name"]
    assert api.get(f"/api/workflow/{name}/spec?expanded=True").content.decode() == plain


def test_braces_of_a_shell_survive_the_plain_spelling():
    short = "{% raw %}" + text(workflow(counted(2, args=["${#array[@]}"]))) + "{% endraw %}"
    plain = expanded(read(short).rendered, {})
    assert read(plain).groups[0].tasks[1].args == ("${#array[@]}",)


@pytest.mark.parametrize(
    "words",
    ["${#array[@]}", "{% endraw %}", "{{{#}}", "{%s}", "{{host:worker}}", "{{{host:worker-1}}}", "{{x}}"],
)
def test_osmo_reads_text_like_a_template_and_tokens_of_a_plain_spelling(words):
    """OSMO renders from the line ``workflow:`` on, with its tokens put aside as variables."""
    short = yaml.safe_dump({"workflow": workflow(counted(2, args=[words], environment={"A": "{{uuid}}"}))})
    plain = PlainText(text=short, limits=SpecLimits(), allow_localpath=True).expanded({})
    tokens = {f"token{place}": token for place, token in enumerate(sorted(set(OSMO_TOKEN.findall(plain))))}
    body = plain[plain.index("workflow:") :]
    for name, token in tokens.items():
        body = body.replace(token, f"{{{{{name}}}}}")
    (group,) = yaml.safe_load(SandboxedEnvironment().from_string(body).render(tokens))["workflow"]["groups"]
    assert group["tasks"][1]["args"] == [words.replace("{{host:worker}}", "{{host:worker-0}}")]
    assert group["tasks"][1]["environment"]["A"] == "{{uuid}}"
    assert group["tasks"][1]["environment"]["OSMO_LEAD_HOST"] == "{{host:worker-0}}"
    assert read(plain).groups[0].tasks[1].args == (group["tasks"][1]["args"][0],)


def test_groups_of_the_plain_spelling_stand_after_those_they_wait_for_as_osmo_requires():
    waits = {"name": "last", "tasks": [single("sum", inputs=[{"task": "worker-1"}])]}
    document = workflow(counted(2, lead=True))
    others = [{"name": name, "tasks": [single(f"of-{name}")]} for name in ("b", "a")]
    document["groups"] = [waits, others[0], *document["groups"], others[1]]
    plain = yaml.safe_load(expanded(text(document), {}))["workflow"]
    assert [group["name"] for group in plain["groups"]] == ["training", "last", "b", "a"]


def events_of(api, workflow, task):
    answer = api.get(f"/api/workflow/{workflow}/logs", {"task_name": task, "last_n_lines": 5})
    if answer.status_code != 200:
        return answer.json()["message"]
    lines = b"".join(answer.streaming_content).decode().splitlines()
    return [line.split("]")[0].strip("[") if line.startswith("[") else line for line in lines]


def test_tasks_are_named_one_by_one_by_ranges_and_by_their_entry(submit, api):
    name = submit(workflow(counted(9, lead=True), single("driver"))).json()["name"]
    assert events_of(api, name, "worker-3") == ["It has no pod yet."]
    assert events_of(api, name, "worker[0-2,7]") == ["worker-0", "worker-1", "worker-2", "worker-7"]
    assert events_of(api, name, "worker") == [f"worker-{index}" for index in range(9)]
    assert events_of(api, name, "driver") == ["It has no pod yet."]
    assert "has no task 'worker-9'" in events_of(api, name, "worker[7-9]")
    assert "has no task 'work'" in events_of(api, name, "work")
    assert "has no task 'worker-9'" in events_of(api, name, "worker[9]")
    assert "lower index first" in events_of(api, name, "worker[3-1]")
    assert "at most 10,000" in events_of(api, name, "worker[0-99999999]")


@pytest.mark.parametrize(("scheduler", "fits"), [("kai", False), ("kueue", True)])
def test_more_segments_than_one_object_holds_are_refused_where_one_object_lists_them_all(
    api, scheduler, fits
):
    content = {"max_object_bytes": 10_000}
    ServiceConfig.objects.create(config_type=ConfigRevision.Type.WORKFLOW, content=content, revision=1)
    backend = BackendFactory(scheduler_type=scheduler, scheduler_version=SCHEDULERS[scheduler])
    PoolFactory(name="h100", levels=LEVELS, max_num_tasks=None, backend=backend)
    document = workflow(counted(100, segment={"size": 2, "key": "rack"}))
    answer = api.post("/api/pool/h100/workflow", {"file": text(document)}, format="json")
    assert answer.status_code == (200 if fits else 400), answer.json()
    if not fits:
        ((path, message),) = refused(answer)
        assert path == "workflow.groups[0]"
        assert message.endswith("bytes, files included, but the cluster accepts at most 10000.")
