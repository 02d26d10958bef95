"""The default topology of a pool: what groups get that name no key, and what they are told of it."""

import pytest

from tests.api.workflows.specs import task, text
from tests.factories import (
    CLIQUE,
    LEVELS,
    RACK,
    ZONE,
    BackendFactory,
    NodeFactory,
    PlatformFactory,
    PoolFactory,
)
from workflows.models import Task, TaskGroup, Workflow
from workflows.values.placement import TaskPlacement

pytestmark = pytest.mark.django_db

PACK = {"pack": True}
REQUIRED = {"topology": [{"key": "rack"}]}
PREFERRED = {"topology": [{"key": "zone", "requirementType": "preferred"}]}
AUTO = {"topology": [{"key": "rack", "requirementType": "auto"}]}
PACKED = [("preferred", "zone"), ("preferred", "rack"), ("preferred", "clique")]

DEFAULTS = {
    "none": (None, []),
    "pack": (PACK, PACKED),
    "required": (REQUIRED, [("required", "rack")]),
    "preferred": (PREFERRED, [("preferred", "zone")]),
    "auto": (AUTO, [("preferred", "rack")]),  # no node is known yet
}

OWN = [{"key": "zone"}]
LEAVES = []

GROUPS = {
    # a phrase: (resources of the tasks, fields of the group), and the tasks that get the pool's default
    "two tasks with GPUs": (["gpu", "gpu"], {}, [0, 1]),
    "one task with GPUs": (["gpu"], {}, []),
    "one task with GPUs beside one without": (["gpu", "cpu"], {}, []),
    "tasks without GPUs": (["cpu", "cpu"], {}, []),
    "a topology of its own": (["gpu", "gpu"], {"topology": OWN}, []),
    "a task with a key of its own": (["gpu", "keyed", "gpu"], {}, []),
    "a topology that is empty": (["gpu", "gpu"], {"topology": LEAVES}, []),
    "a task that stays out": (["gpu", "out", "gpu"], {}, [0, 2]),
    "all tasks but one stay out": (["gpu", "out", "out"], {}, []),
}

RESOURCES = {
    "gpu": {"gpu": 8},
    "cpu": {"cpu": 2},
    "keyed": {"gpu": 8, "topology": OWN},
    "out": {"gpu": 8, "topology": LEAVES},
    "gb200": {"gpu": 8, "platform": "gb200"},
    "h100": {"gpu": 8, "platform": "h100"},
}


def workflow(resources, **group):
    tasks = [task(f"t-{i}", lead=i == 0, resource=name) for i, name in enumerate(resources)]
    used = {name: RESOURCES[name] for name in resources}
    return {"name": "train", "resources": used, "groups": [{"name": "training", **group, "tasks": tasks}]}


BACKENDS = {
    "kai": {"scheduler_type": "kai", "scheduler_version": "0.13"},
    "kueue": {"scheduler_type": "kueue", "scheduler_version": "0.17"},
    "kubernetes": {"scheduler_type": "kubernetes", "scheduler_version": "1.37 (CompositePodGroup)"},
}


@pytest.fixture
def pool_on():
    def make(scheduler="kai", *, version=None, **fields):
        backend = BACKENDS[scheduler] | ({"scheduler_version": version} if version else {})
        fields = {"levels": LEVELS, **fields}
        return PoolFactory(name="p", backend=BackendFactory(**backend), **fields)

    return make


@pytest.fixture
def submit(api):
    def post(document, query=""):
        answer = api.post(f"/api/pool/p/workflow{query}", {"file": text(document)}, format="json")
        assert answer.status_code == 200, answer.json()
        return answer.json()

    return post


def in_force(group=None):
    """The requirements frozen for each task of a group, of the last one if none is given."""
    group = group or TaskGroup.objects.order_by("workflow__number").last()
    return [
        [(r.kind, r.key) for r in TaskPlacement.from_json(row.spec).requirements]
        for row in Task.objects.filter(group=group).order_by("position")
    ]


def default_warnings(reply):
    """What a reply says of defaults."""
    return [warning for warning in reply["warnings"] if "names no topology" in warning]


@pytest.mark.parametrize("scheduler", BACKENDS)
@pytest.mark.parametrize("default", DEFAULTS)
def test_a_group_that_names_no_key_gets_the_default_and_no_other_group_does(
    pool_on, submit, scheduler, default
):
    written, requirements = DEFAULTS[default]
    pool_on(scheduler, default_topology=written)
    for phrase, (resources, fields, getting) in GROUPS.items():
        bound = getting if written else []
        own = [("required", "zone")]
        names_key = [name == "keyed" or fields.get("topology") == OWN for name in resources]
        want = [requirements if i in bound else own if names_key[i] else [] for i in range(len(resources))]
        reply = submit(workflow(resources, **fields))
        assert in_force(TaskGroup.objects.get(workflow__name=reply["name"])) == want, phrase
        assert len(default_warnings(reply)) == bool(bound), phrase


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        (["gb200", "gb200"], [("preferred", "clique")]),
        (["gb200", "gb200", "cpu"], [("preferred", "clique")]),
        (["gb200", "h100"], PACKED),
        (["h100", "h100"], PACKED),
        (["gpu", "gpu"], PACKED),
    ],
    ids=["on one with a default", "beside a task without GPUs", "on two", "on one without", "on none"],
)
def test_the_default_of_a_platform_goes_before_the_pools(pool_on, submit, resources, want):
    pool = pool_on(default_topology=PACK, platforms=("gpu", "h100"))
    near = {"topology": [{"key": "clique", "requirementType": "preferred"}]}
    PlatformFactory(pool=pool, name="gb200", default_topology=near)
    (warning,) = default_warnings(submit(workflow(resources)))
    assert in_force() == [want] * len(resources)
    owner = 'platform "gb200" of pool "p"' if want != PACKED else 'pool "p"'
    assert f"so it gets the default of {owner}: preferred at " in warning


def test_a_platform_has_a_default_where_its_pool_has_none(pool_on, submit):
    pool = pool_on(platforms=("gpu",))
    PlatformFactory(pool=pool, name="gb200", default_topology=PACK)
    assert default_warnings(submit(workflow(["gb200", "gb200"])))
    assert in_force() == [PACKED, PACKED]
    assert default_warnings(submit(workflow(["gpu", "gpu"]))) == []
    assert in_force() == [[], []]


SENTENCE = (
    'Task group "training" names no topology, so it gets the default of pool "p": preferred at zone, rack, '
    "clique. To leave it, write `topology: []` on the group."
)


def test_reply_dry_run_and_workflow_say_what_was_added_from_where_and_how_to_leave_it(
    pool_on, submit, api, browser
):
    pool_on(default_topology=PACK)
    for query in ("?dry_run=true", ""):
        reply = submit(workflow(["gpu", "gpu"]), query)
        assert default_warnings(reply) == [SENTENCE]
        (group,) = reply["constraints"]
        assert [(line["key"], line["requirementType"]) for line in group["constraints"]] == [
            (key, kind) for kind, key in PACKED
        ]
    assert SENTENCE in api.get(f"/api/workflow/{reply['name']}").json()["warnings"]
    page = browser.get(f"/ui/workflows/{reply['name']}").content.decode()
    assert "so it gets the default of pool" in page


@pytest.mark.parametrize(
    ("default", "words"),
    [
        (REQUIRED, "required at rack"),
        (AUTO, "auto at rack"),
        (
            {"topology": [{"key": "zone"}, {"key": "clique", "requirementType": "preferred"}]},
            "required at zone, preferred at clique",
        ),
        (
            {"topology": [{"key": "rack", "requirementType": "preferred", "waitSeconds": 90}]},
            "required for 90 seconds, then preferred at rack",
        ),
    ],
)
def test_the_words_of_a_default_name_types_and_keys(pool_on, submit, default, words):
    pool_on(default_topology=default)
    (warning,) = default_warnings(submit(workflow(["gpu", "gpu"])))
    assert f": {words}. To leave it" in warning


def test_each_group_is_told_by_itself(pool_on, submit):
    pool_on(default_topology=PACK)
    document = workflow(["gpu", "gpu"])
    others = [task(f"other-{i}", lead=i == 0, resource="gpu") for i in range(2)]
    document["groups"].append({"name": "judging", "tasks": others})
    warnings = default_warnings(submit(document))
    assert [warning.split('"')[1] for warning in warnings] == ["training", "judging"]


def nodes(pool, *racks):
    for number, rack in enumerate(racks):
        labels = {ZONE.label: "z", RACK.label: rack, CLIQUE.label: f"c-{rack}"}
        NodeFactory(cluster=pool.backend.cluster, name=f"n-{number}", labels=labels)


def test_auto_in_a_default_is_decided_as_a_users_own(pool_on, submit):
    nodes(pool_on(default_topology=AUTO), "r1", "r1", "r2")
    for count, want in ((2, "required"), (3, "preferred")):
        reply = submit(workflow(["gpu"] * count))
        assert in_force(TaskGroup.objects.get(workflow__name=reply["name"])) == [[(want, "rack")]] * count
        assert any(f'"auto" and counts as {want}' in warning for warning in reply["warnings"])
        assert len(default_warnings(reply)) == 1


NOT_APPLIED = {
    # a phrase: scheduler, its version, default, resources of the tasks, what the warning says
    "tasks of two shapes on Kueue": ("kueue", "0.17", PACK, ["gpu", "gpu", "cpu"], "topology.mixed_pods"),
    "a task that stays out of a required set": (
        "kubernetes",
        "1.37",
        REQUIRED,
        ["gpu", "gpu", "out"],
        "gang",
    ),
    "no relaxing": (
        "kubernetes",
        "1.37",
        {"topology": [{"key": "rack", "requirementType": "preferred", "waitSeconds": 90}]},
        ["gpu", "gpu"],
        "topology.relax_pending",
    ),
    "a key that is gone": ("kai", "0.13", {"topology": [{"key": "row"}]}, ["gpu", "gpu"], "no topology key"),
}


@pytest.mark.parametrize("case", NOT_APPLIED)
def test_a_default_that_would_make_a_group_be_refused_is_left_out_and_the_reply_says_why(
    pool_on, submit, case
):
    scheduler, version, default, resources, reason = NOT_APPLIED[case]
    pool_on(scheduler, version=version, default_topology=default)
    (warning,) = default_warnings(submit(workflow(resources)))
    assert 'Task group "training" names no topology, but it does not get the default of pool "p"' in warning
    assert reason in warning
    assert in_force() == [[]] * len(resources)


@pytest.mark.parametrize("infeasible", ["refuse", "warn", "accept"])
def test_a_default_that_no_domain_can_hold_is_left_out(pool_on, submit, infeasible):
    nodes(pool_on(default_topology=REQUIRED, infeasible=infeasible), "r1", "r2")
    (warning,) = default_warnings(submit(workflow(["gpu", "gpu"])))
    assert "does not get the default of pool" in warning
    assert in_force() == [[], []]


def test_a_default_that_waits_longer_than_the_group_may_is_left_out(pool_on, submit):
    default = {"topology": [{"key": "rack", "requirementType": "preferred", "waitSeconds": 90}]}
    pool_on(default_topology=default)
    (warning,) = default_warnings(submit(workflow(["gpu", "gpu"]) | {"timeout": {"queue_timeout": "60s"}}))
    assert "queue_timeout" in warning
    assert in_force() == [[], []]


def test_auto_that_is_left_out_is_not_reported_as_decided(pool_on, submit):
    """Kueue holds no preference below a requirement, which shows when both are decided."""
    both = {"topology": [{"key": key, "requirementType": "auto"} for key in ("zone", "rack")]}
    nodes(pool_on("kueue", default_topology=both), "r1", "r2")
    reply = submit(workflow(["gpu", "gpu"]))
    assert "topology.both_types" in default_warnings(reply)[0]
    assert not any('"auto"' in warning for warning in reply["warnings"])


def test_a_pool_without_keys_adds_nothing(pool_on, submit):
    pool_on(default_topology=PACK, levels=())
    assert default_warnings(submit(workflow(["gpu", "gpu"]))) == []


def test_accepted_work_keeps_its_topology_and_a_submission_again_gets_the_default_of_now(
    pool_on, submit, api
):
    pool = pool_on()
    before = submit(workflow(["gpu", "gpu"]))["name"]
    pool.default_topology = PACK
    pool.save()
    group = TaskGroup.objects.get(workflow__name=before)
    assert in_force(group) == [[], []]
    assert default_warnings(api.get(f"/api/workflow/{before}").json()) == []

    again = api.post(f"/api/pool/p/workflow?workflow_id={before}").json()
    assert default_warnings(again) == [SENTENCE]
    Workflow.objects.filter(name=before).update(status="FAILED")
    restarted = api.post(f"/api/pool/p/workflow/{before}/restart").json()
    assert default_warnings(restarted) == [SENTENCE]
    assert in_force(group) == [[], []]


def test_a_group_with_a_segment_names_a_key_and_a_counted_one_without_gets_the_default(pool_on, submit):
    pool_on(default_topology=PACK)
    counted = {"name": "worker", "count": 4, "lead": True, "image": "i", "command": ["c"], "resource": "gpu"}
    document = {"name": "train", "resources": {"gpu": {"gpu": 8}}, "groups": [{"name": "training"}]}
    for segment, want in ((None, True), ({"size": 2, "key": "clique"}, False)):
        entry = counted | ({"segment": segment} if segment else {})
        document["groups"][0]["tasks"] = [entry]
        assert bool(default_warnings(submit(document))) is want


SEGMENTS = {"topology": [{"key": "zone"}], "segment": {"size": 3, "key": "rack"}}


def counted(n, *, name="worker", resource="gpu", **fields):
    return task(name, count=n, resource=resource, **fields)


def mixed(*tasks):
    return {
        "name": "train",
        "resources": RESOURCES,
        "groups": [{"name": "training", "tasks": list(tasks)}],
    }


def sets_at(key):
    """The tasks of each co-location set at a key, by the words that frozen requirements have for it."""
    sets = {}
    for row in Task.objects.filter(group=TaskGroup.objects.latest("workflow__number")).order_by("position"):
        for requirement in TaskPlacement.from_json(row.spec).requirements:
            if requirement.key == key:
                sets.setdefault((requirement.kind, requirement.group), []).append(row.name)
    return sets


def test_a_default_with_segments_cuts_the_counted_tasks_with_gpus_and_no_other(pool_on, submit):
    pool_on(default_topology=SEGMENTS)
    reply = submit(
        mixed(
            counted(2, name="loader", resource="cpu"),
            counted(4, lead=True),
            task("spare", resource="gpu"),
            counted(2, name="judge"),
            counted(3, name="aside", resource="out"),
        )
    )
    assert sets_at("rack") == {
        ("required", "segment.0.worker-0.worker-2"): ["worker-0", "worker-1", "worker-2"],
        ("required", "segment.1.worker-3.judge-1"): ["worker-3", "judge-0", "judge-1"],
    }
    assert sum(map(len, sets_at("zone").values())) == 9
    (warning,) = default_warnings(reply)
    assert ": required at zone, segments of 3 required at rack. To leave it" in warning


def test_segments_of_a_default_are_the_same_as_written_on_the_group(pool_on, submit):
    pool = pool_on(default_topology=SEGMENTS)
    tasks = (counted(6, lead=True), task("spare", resource="gpu"))
    by_default = submit(mixed(*tasks), "?dry_run=true")
    pool.default_topology = None
    pool.save()
    document = mixed(*tasks)
    document["groups"][0] |= SEGMENTS
    written = submit(document, "?dry_run=true")
    assert by_default["constraints"] == written["constraints"]
    pods = [
        [m["spec"]["containers"][0]["env"] for m in reply["objects"] if m["kind"] == "Pod"]
        for reply in (by_default, written)
    ]
    names = {"OSMO_SEGMENT", "OSMO_SEGMENT_RANK", "OSMO_SEGMENT_SIZE", "OSMO_RANK"}
    first, second = ([[e for e in env if e["name"] in names] for env in each] for each in pods)
    assert first == second
    assert [len(env) for env in first] == [4] * 6 + [1]


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        ([counted(7, lead=True)], "the nearest counts are 6 and 9"),
        ([counted(2, lead=True)], "larger than the 2 tasks"),
    ],
    ids=["no multiple", "too few"],
)
def test_segments_that_cannot_cut_a_group_leave_it_without_the_default(pool_on, submit, tasks, reason):
    pool_on(default_topology=SEGMENTS)
    (warning,) = default_warnings(submit(mixed(*tasks)))
    assert "but it does not get the default" in warning
    assert reason in warning
    assert not any(in_force())


def test_a_group_without_counts_gets_the_topology_of_a_default_with_segments(pool_on, submit):
    pool = pool_on(default_topology=SEGMENTS)
    submit(workflow(["gpu", "gpu"]))
    assert in_force() == [[("required", "zone")]] * 2
    pool.default_topology = {"segment": SEGMENTS["segment"]}
    pool.save()
    assert default_warnings(submit(workflow(["gpu", "gpu"]))) == []
    assert in_force() == [[], []]


def test_a_platform_leaves_the_default_of_its_pool_by_an_empty_topology(pool_on, submit):
    pool = pool_on(default_topology=PACK, platforms=("gpu",))
    PlatformFactory(pool=pool, name="gb200", default_topology={"topology": []})
    assert default_warnings(submit(workflow(["gb200", "gb200"]))) == []
    assert in_force() == [[], []]


@pytest.mark.parametrize("default", [PACK, SEGMENTS, AUTO], ids=["pack", "segments", "auto"])
def test_the_spec_says_what_was_added_and_its_plain_form_has_it_also_when_the_pool_has_changed(
    pool_on, submit, api, default
):
    pool = pool_on(default_topology=default)
    document = mixed(counted(6, lead=True), task("spare", resource="gpu"))
    dry = submit(document, "?dry_run=true&expanded=true")["spec"]
    name = submit(document)["name"]
    bound = in_force()
    pool.default_topology = None
    pool.save()
    comment, rest = api.get(f"/api/workflow/{name}/spec").content.decode().split("\n", 1)
    assert comment.startswith('# Task group "training" got the default topology of pool "p": ')
    assert rest == text(document)
    plain = api.get(f"/api/workflow/{name}/spec?expanded=True").content.decode()
    assert plain == dry
    answer = api.post("/api/pool/p/workflow", {"file": plain}, format="json")
    assert answer.status_code == 200, answer.json()
    assert in_force() == bound
