"""Whatever is sent, the answer is a clear 4xx in one shape, and nothing is left behind."""

import json

import pytest
import yaml

from pools.models import ConfigRevision, ServiceConfig
from scheduling.topology.levels import Level
from tests.api.workflows.specs import alone, gang, task, text
from tests.error_shape import assert_error_shape
from tests.factories import LEVELS, BackendFactory, PoolFactory
from workflows.models import Event, Task, TaskGroup, Workflow

pytestmark = pytest.mark.django_db

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)
LOOP = "{% for a in range(10**9) %}{% for b in range(10**9) %}{% endfor %}{% endfor %}" + text(alone())
GROWTH = "{{ 'x' * 10**10 }}"


@pytest.fixture(autouse=True)
def pool():
    return PoolFactory(name="h100", levels=LEVELS)


@pytest.fixture
def nothing_left():
    yield
    assert [model.objects.count() for model in (Workflow, TaskGroup, Task, Event)] == [0, 0, 0, 0]


def post(api, file, query="", pool="h100"):
    return api.post(f"/api/pool/{pool}/workflow{query}", {"file": file}, format="json")


def shard(**resource):
    return {**gang(2), "resources": {"shard": resource}}


def two_leads():
    workflow = gang(2)
    workflow["groups"][0]["tasks"][1]["lead"] = True
    return workflow


MANY = json.dumps(
    {
        "workflow": {
            "name": "w",
            "resources": {"r": {"nodesExcluded": [f"a-node-of-the-cluster-{i}" for i in range(6000)]}},
            "tasks": [
                {"name": f"t{i}", "image": "i", "command": ["c"], "resource": "r"} for i in range(1000)
            ],
        }
    }
)
BAD = {
    # the document
    "malformed YAML": ("workflow: [a: b", "yaml_syntax"),
    "a tab": ("workflow:\n\tname: a", "yaml_syntax"),
    "no text": ("   ", None),
    "a list": ("- a\n- b", None),
    "a number": ("7", None),
    "two documents": (text(alone()) + "---\n" + text(alone()), None),
    "a duplicate field": ("workflow: {name: a, name: b}", None),
    "an alias bomb": (BOMB + text(alone()), None),
    "an alias to itself": ("workflow: &a {name: *a}", None),
    "a deep list": ("[" * 5000, None),
    "a foreign tag": ("workflow: !!python/object:os.system {}", None),
    "an endless template": (LOOP, "template"),
    "a growing template": (GROWTH, "template"),
    "a broken template": ("{% if %}", "template"),
    "a template that reads our insides": ("{{ ''.__class__.__mro__ }}", None),
    # the grammar
    "an unknown field": (text({**alone(), "colour": "red"}), "unknown_field"),
    "an unknown field of a task": (text(alone(comand=["x"])), "unknown_field"),
    "top-level resources": (text(alone()) + "resources: {}\n", "unknown_field"),
    "a wrong version": (text(alone()).replace("version: 2", "version: 3"), "value"),
    "no name": (text({"tasks": [task("a")]}), "missing"),
    "no tasks": (text({"name": "train", "tasks": []}), "no_tasks"),
    "neither groups nor tasks": (text({"name": "train"}), "no_tasks"),
    "groups and tasks": (text({**gang(1), "tasks": [task("a")]}), "groups_and_tasks"),
    "a group without tasks": (text({"name": "train", "groups": [{"name": "g", "tasks": []}]}), "empty"),
    "a task without a command": (text(alone(command=[])), "empty"),
    "two leads": (text(two_leads()), "lead"),
    "a cycle": (
        text({"name": "t", "tasks": [task("a", inputs=[{"task": "b"}]), task("b", inputs=[{"task": "a"}])]}),
        "cycle",
    ),
    "an input from nowhere": (text(alone(inputs=[{"task": "nobody"}])), "unknown_task"),
    "an unknown resource": (text(alone(resource="big")), "unknown_resource"),
    "negative GPUs": (text(shard(gpu=-1)), None),
    "too many GPUs to count": (text(shard(gpu=10**30)), None),
    "half a CPU": (text(shard(cpu=0.5)), None),
    "a lower-case unit": (text(shard(memory="16k")), None),
    "a duration without sense": (text({**alone(), "timeout": {"exec_timeout": "soon"}}), None),
    "no time at all": (text({**alone(), "timeout": {"exec_timeout": "0"}}), None),
    "exit codes backwards": (text(alone(exitActions={"RESCHEDULE": "7-1"})), None),
    "a file that is no base64": (
        text(alone(files=[{"path": "/a", "contents": "%", "base64": True}])),
        "base64",
    ),
    # names
    "a workflow's name with a space": (text({**alone(), "name": "my train"}), "name"),
    "a workflow's name with a dot": (text({**alone(), "name": "my.train"}), "name"),
    "a workflow's name in Greek": (text({**alone(), "name": "τρένο"}), "name"),
    "a workflow's name that ends in a hyphen": (text({**alone(), "name": "train-"}), "name"),
    "a workflow's name of 65 letters": (text({**alone(), "name": "x" * 65}), "name"),
    "a group's name with a slash": (
        text({"name": "t", "groups": [{"name": "a/b", "tasks": [task("a")]}]}),
        "name",
    ),
    "a task's name with a newline": (text({"name": "t", "tasks": [task("a\nb")]}), "name"),
    "two tasks of one name": (text({"name": "t", "tasks": [task("A_b"), task("a-B")]}), "duplicate_name"),
    "a task named as ours": (text({"name": "t", "tasks": [task("osmo-ctrl")]}), "name"),
    # labels
    "a label that is none": (text({**alone(), "labels": {"a b": "c"}}), "label"),
    "a label without a value": (text({**alone(), "labels": {"a": ""}}), "label"),
    "17 labels": (text({**alone(), "labels": {f"k{i}": "v" for i in range(17)}}), None),
    # the pool
    "an unknown platform": (
        text({**alone(resource="r"), "resources": {"r": {"platform": "gpv"}}}),
        "unknown_platform",
    ),
    "privileged": (text(alone(privileged=True)), "privileged_not_allowed"),
    "the node's network": (text(alone(hostNetwork=True)), "host_network_not_allowed"),
    "a mount": (text(alone(volumeMounts=["/etc:/etc"])), "mount_not_allowed"),
    "NVLink where there is none": (
        text({"name": "t", "groups": [{"name": "g", "nvlink": True, "tasks": [task("a")]}]}),
        "nvlink_not_in_pool",
    ),
    # topology
    "an unknown key": (text(gang(topology=[{"key": "spine"}])), "unknown_key"),
    "a key twice": (text(gang(topology=[{"key": "rack"}, {"key": "rack", "group": "b"}])), "duplicate_key"),
    "an empty group": (text(gang(topology=[{"key": "rack", "group": " "}])), "empty_group"),
    "an unprintable group": (
        text(gang(topology=[{"key": "rack", "group": "a\u202eb"}])),
        "unprintable_group",
    ),
    "a kind that is none": (text(gang(topology=[{"key": "rack", "requirementType": "hard"}])), "value"),
    "an unknown field of a requirement": (
        text(gang(topology=[{"key": "rack", "grp": "a"}])),
        "unknown_field",
    ),
    "an object over the limit": (
        text(alone(args=["MEGABYTE"])).replace("MEGABYTE", "x" * 1_100_000),
        "object_too_large",
    ),
    "what a resource says in many tasks": (MANY, "workflow_too_large"),
}


@pytest.mark.parametrize(("file", "code"), BAD.values(), ids=BAD)
def test_a_bad_workflow_is_refused_whole(api, nothing_left, file, code):
    body = assert_error_shape(post(api, file), 400, code=code)
    assert body["error_code"] in {"USAGE", "USER"}
    assert len(body["message"]) < 5000


@pytest.mark.parametrize(("file", "code"), list(BAD.values())[16:], ids=list(BAD)[16:])
def test_a_dry_run_refuses_the_same(api, nothing_left, file, code):
    assert_error_shape(post(api, file, "?dry_run=True"), 400, code=code)


def test_every_fault_is_told_at_once_with_its_line(api, nothing_left):
    workflow = gang(2, topology=[{"key": "rak"}], name="bad name")
    workflow["groups"][0]["tasks"][1]["privileged"] = True
    workflow["resources"]["shard"]["platform"] = "gpv"
    file = text(workflow)
    body = assert_error_shape(post(api, file, "?env_vars=x"), 400)
    codes = [detail["code"] for detail in body["details"]]
    assert set(codes) >= {"name", "unknown_key", "unknown_platform", "no_value"}
    lines = file.splitlines()
    by_code = {detail["code"]: detail for detail in body["details"]}
    assert "rak" in lines[by_code["unknown_key"]["line"] - 1]
    assert by_code["unknown_key"]["path"] == "workflow.resources.shard.topology[0].key"
    assert "rack" in by_code["unknown_key"]["allowed"]
    assert by_code["unknown_platform"]["allowed"] == ["gpu"]
    assert "platform" in lines[by_code["unknown_platform"]["line"] - 1]
    assert "name: bad name" in lines[by_code["name"]["line"] - 1]


def test_lines_are_those_of_the_rendered_document(api, nothing_left):
    file = "{% set key = 'rak' %}\n{# a comment #}\n" + text(gang(topology=[{"key": "{{ key }}"}]))
    (detail,) = assert_error_shape(post(api, file), 400, code="unknown_key")["details"]
    assert detail["line"] is not None


def limit_tasks(count):
    ServiceConfig.objects.create(
        config_type=ConfigRevision.Type.WORKFLOW, content={"max_num_tasks": count}, revision=1
    )


def test_one_task_over_the_limit_is_refused_and_the_limit_itself_is_not(api):
    limit_tasks(3)
    assert_error_shape(post(api, text(gang(4))), 400, code="too_many_tasks")
    assert not Workflow.objects.exists()
    assert post(api, text(gang(3))).status_code == 200


@pytest.mark.parametrize("name", ["nowhere", "a%00b", "%C3%A9", "x" * 300, "..%2Fh100"])
def test_an_unknown_pool_is_a_404(api, nothing_left, name):
    body = assert_error_shape(post(api, text(alone()), pool=name), 404)
    assert body["error_code"] == "USER"


def test_a_disabled_backend_takes_nothing(api, pool, nothing_left):
    pool.backend.enabled = False
    pool.backend.save()
    assert "disabled" in assert_error_shape(post(api, text(alone())), 409)["message"]


def test_a_default_platform_is_needed_or_named(api, pool, nothing_left):
    pool.default_platform = ""
    pool.save()
    body = assert_error_shape(post(api, text(alone())), 400, code="platform_needed")
    assert body["details"][0]["allowed"] == ["gpu"]


def test_a_body_of_10_mb_is_too_large(api, nothing_left):
    assert_error_shape(post(api, "x" * 10_000_000), 413)


BODIES = {
    "no JSON": b"{",
    "no body": b"",
    "a list": b"[]",
    "a null": b"null",
    "no file": b'{"set_variables": []}',
    "a file that is a number": b'{"file": {"a": 1}}',
    "an unknown field": b'{"file": "a", "flie": "b"}',
    "NaN": b'{"file": NaN}',
    "NUL": b'{"file": "a\\u0000b"}',
    "half a character": b'{"file": "a\\ud800b"}',
    "no UTF-8": b'{"file": "\xff"}',
    "deep": b"[" * 100_000,
    "variables that are none": b'{"file": "{{a}}", "set_variables": ["a"]}',
    "variables that are no list": b'{"file": "{{a}}", "set_variables": {"a": 1}}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_bad_body_is_refused(api, nothing_left, body):
    answer = api.post("/api/pool/h100/workflow", body, content_type="application/json")
    assert_error_shape(answer, 400)


QUERIES = [
    "dry_run=maybe",
    "dryrun=True",
    "dry_run=True&dry_run=False",
    "validation_only=2",
    "priority=URGENT",
    "priority=high",
    "label=team",
    "label=a b%3Dc",
    "label=team%3D",
    "label=team%3Da%20b",
    "env_vars=A",
    "env_vars=1A%3Db",
    "env_vars=..A%3Db",
    "env_vars=%00%3Db",
    "workflow_id=train-1",
    "&".join(f"label=k{i}%3Dv" for i in range(17)),
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_bad_parameter_is_refused_by_its_name(api, nothing_left, query):
    body = assert_error_shape(post(api, text(alone()), f"?{query}"), 400)
    assert body["details"][0]["path"].startswith(query.partition("=")[0])


def test_python_and_json_booleans_are_read(api, nothing_left):
    for value in ("True", "true", "1"):
        assert "objects" in post(api, text(alone()), f"?dry_run={value}").json()


@pytest.mark.parametrize("method", ["get", "put", "patch", "delete"])
def test_other_methods_are_not_allowed(api, method):
    assert_error_shape(getattr(api, method)("/api/pool/h100/workflow"), 405)


def test_a_scheduler_that_holds_less_names_what_is_missing(api, nothing_left):
    backend = BackendFactory(
        scheduler_type="default", scheduler_name="default-scheduler", scheduler_version=""
    )
    PoolFactory(name="plain", backend=backend, levels=(Level("zone", "topology.kubernetes.io/zone"),))
    body = assert_error_shape(
        post(api, text(gang(topology=[{"key": "zone"}])), pool="plain"), 400, code="unsupported_capability"
    )
    assert "topology.required" in body["message"]


def test_a_message_is_not_the_document(api, nothing_left):
    """A file may hold a password: what is wrong is named, the text around it is not repeated."""
    workflow = alone(environment={"TOKEN": "hunter2"}, comand=["x"])
    assert "hunter2" not in json.dumps(post(api, text(workflow)).json())


def test_yaml_1_1_words_are_text_where_text_is_asked(api):
    file = yaml.safe_dump({"workflow": alone(args=[True, 1, 2.5])})
    assert post(api, file).status_code == 200


def test_every_fault_of_a_query_is_told_at_once(api, nothing_left):
    query = "?dryrun=True&priority=URGENT&validation_only=True&validation_only=False"
    body = assert_error_shape(post(api, text(alone()), query), 400)
    want = {("dryrun", "unknown_field"), ("priority", "invalid_choice"), ("validation_only", "repeated")}
    assert {(detail["path"], detail["code"]) for detail in body["details"]} == want
