"""Requirements that seem to hold over task groups: the warning shows the document in which they hold."""

from types import SimpleNamespace

import pytest
import yaml

from workflows.spec import SpecLimits, read_workflow, several_groups

LIMITS = SpecLimits()
DRAWING = """
version: 2
workflow:
  name: train
  timeout: {exec_timeout: 8h}
  groups:
    - name: left
      tasks:
        - {name: a, lead: true, image: i, command: [c], args: [on, "2020-01-01"], resource: left}
        - {name: b, image: i, command: [c], resource: left}
    - name: right
      tasks:
        - {name: c, lead: true, image: i, command: [c], resource: right}
        - {name: d, image: i, command: [c], resource: right}
    - name: report
      tasks: [{name: e, image: i, command: [c], inputs: [{task: d}]}]
  resources:
    default: {cpu: 1}
    left: {gpu: 8, topology: [{key: zone, group: all}, {key: rack, group: left}]}
    right: {gpu: 8, topology: [{key: zone, group: all}, {key: rack, group: right}]}
"""


def read(document):
    text = document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False)
    return read_workflow(text, variables=(), string_variables=(), limits=LIMITS, allow_localpath=False)


def warnings(spec):
    """Without those of inputs, which only order the groups, and of arguments as YAML reads them."""
    return [notice for notice in spec.warnings if notice.code not in {"not_carried_out", "doubt"}]


def message(document):
    (notice,) = warnings(read(document))
    assert notice.code in {"groups_share_nothing", "tasks_share_nothing", "topology_of_workflow"}
    return notice.message


def form(text):
    """The document below the sentence of a message."""
    return text.partition("\n")[2]


def requirements(group):
    """What each task of a group requires, its group's own included."""
    inherited = [(r.key, r.group, r.required) for r in group.topology]
    return {
        task.name: sorted(
            {*(() if task.resource.leaves_group_topology else inherited)}
            | {(r.key, r.group, r.required) for r in task.resource.topology}
        )
        for task in group.tasks
    }


def test_the_drawing_of_the_use_case_is_shown_with_one_group():
    text = message(DRAWING)
    assert text.startswith('Task groups "left" and "right" name zone "all", but no requirement holds between')
    spec = read(form(text))
    assert (spec.faults, warnings(spec)) == ((), [])
    assert [group.name for group in spec.groups] == ["left", "report"]
    assert requirements(spec.groups[0]) == {
        name: [("rack", side, True), ("zone", "all", True)]
        for name, side in (("a", "left"), ("b", "left"), ("c", "right"), ("d", "right"))
    }
    assert [task.lead for task in spec.groups[0].tasks] == [True, False, False, False]
    assert spec.groups[0].tasks[0].args == ("True", "2020-01-01")
    assert spec.groups[1].upstream == ("left",)
    assert spec.exec_timeout == 8 * 3600


@pytest.mark.parametrize("right", ["right", "left"])
def test_topology_of_groups_is_kept_where_it_is_the_same_and_else_moved_to_the_tasks(right):
    document = yaml.safe_load(DRAWING)
    groups, resources = document["workflow"]["groups"], document["workflow"]["resources"]
    resources["left"].pop("topology")
    resources["right"].pop("topology")
    resources["free"] = {"cpu": 1, "topology": []}
    groups[1]["tasks"][1]["resource"] = "free"
    for group, side in zip(groups, ("left", right), strict=False):
        group["topology"] = [{"key": "zone", "group": "all"}, {"key": "rack", "group": side}]
    spec = read(form(message(document)))
    assert (spec.faults, warnings(spec)) == ((), [])
    assert requirements(spec.groups[0]) == {
        "a": [("rack", "left", True), ("zone", "all", True)],
        "b": [("rack", "left", True), ("zone", "all", True)],
        "c": [("rack", right, True), ("zone", "all", True)],
        "d": [],
    }


def test_bare_tasks_become_one_group_and_the_others_stay_groups_of_their_own():
    task = {"image": "i", "command": ["c"]}
    document = {
        "workflow": {
            "name": "train",
            "tasks": [
                {"name": "together", "resource": "r", **task},
                {"name": "b", "resource": "r", **task},
                {"name": "c", **task, "inputs": [{"task": "b"}]},
            ],
            "resources": {"default": {}, "r": {"gpu": 8, "topology": [{"key": "rack"}]}},
        }
    }
    text = message(document)
    assert text.startswith('Tasks "together" and "b" name rack "default", but each task under `tasks:` is')
    spec = read(form(text))
    assert (spec.faults, warnings(spec)) == ((), [])
    assert [(group.name, [task.name for task in group.tasks]) for group in spec.groups] == [
        ("together-2", ["together", "b"]),
        ("c-group", ["c"]),
    ]


def test_groups_that_wait_for_each_other_cannot_become_one():
    document = yaml.safe_load(DRAWING)
    document["workflow"]["groups"][1]["tasks"][0]["inputs"] = [{"task": "a"}]
    text = message(document)
    assert text.endswith("They cannot be one task group, because one of them waits for another.")
    assert form(text) == ""


def test_a_long_document_is_not_repeated():
    document = yaml.safe_load(DRAWING)
    document["workflow"]["groups"][0]["tasks"][0]["args"] = ["x" * 20_000]
    text = message(document)
    assert text.endswith(
        "To place them together, write one group with all their tasks and `lead: true` on one of them: "
        "`groups: [{name: left, tasks: [a, b, c, d]}]`."
    )


@pytest.mark.parametrize("group", ["default", None])
def test_the_name_that_stands_for_none_is_each_groups_own(group):
    document = yaml.safe_load(DRAWING)
    for name in ("left", "right"):
        entry = {"key": "zone", "group": group} if group else {"key": "zone"}
        document["workflow"]["resources"][name]["topology"][0] = entry
    assert warnings(read(document)) == []


def workflow_with_topology(kind):
    document = yaml.safe_load(DRAWING)
    workflow = document["workflow"]
    workflow["groups"].pop()
    for name in ("left", "right"):
        workflow["resources"][name]["topology"].pop(0)
    workflow["topology"] = [{"key": "zone", **({"requirementType": kind} if kind else {})}]
    return document


@pytest.mark.parametrize("kind", [None, "required"])
def test_a_requirement_of_the_workflow_is_refused_with_the_form_that_holds(kind):
    spec = read(workflow_with_topology(kind))
    (fault,) = spec.faults
    assert (fault.path, fault.code) == (("workflow", "topology", 0), "topology_of_workflow")
    corrected = read(form(fault.message))
    assert (corrected.faults, warnings(corrected)) == ((), [])
    assert requirements(corrected.groups[0]) == {
        name: [("rack", side, True), ("zone", "default", True)]
        for name, side in (("a", "left"), ("b", "left"), ("c", "right"), ("d", "right"))
    }


def test_a_preference_of_the_workflow_is_a_warning_with_the_form_that_holds():
    corrected = read(form(message(workflow_with_topology("preferred"))))
    assert (corrected.faults, warnings(corrected)) == ((), [])
    assert requirements(corrected.groups[0])["a"] == [("rack", "left", True), ("zone", "default", False)]


def test_topology_of_a_workflow_that_cannot_be_one_group_names_the_task_groups():
    document = workflow_with_topology("required")
    document["workflow"]["groups"][1]["tasks"][0]["inputs"] = [{"task": "a"}]
    (fault,) = read(document).faults
    assert fault.message.endswith("because one of them waits for another.")


def test_a_form_that_is_much_longer_than_its_document_is_said_in_words():
    """Each of the groups would get a copy of the large resource spec."""
    groups = [
        {
            "name": f"g{n}",
            "topology": [{"key": f"z{n}"}],
            "tasks": [{"name": f"t{n}", "lead": True, "image": "i", "command": ["c"]}],
        }
        for n in range(40)
    ]
    shared = [{"key": f"k{n}", "group": "g"} for n in range(100)]
    resources = {"default": {"gpu": 1, "topology": shared}}

    text = message({"workflow": {"name": "w", "groups": groups, "resources": resources}})

    assert "tasks: [t0, t1, " in text
    assert len(text) < 4_000


def test_groups_that_share_pairs_one_after_the_other_are_one_list():
    groups = [SimpleNamespace(name=f"g{n}", path=("workflow", "groups", n)) for n in range(300)]

    assert several_groups._connected([groups] * 300) == [groups]
    assert several_groups._connected([groups[:2], groups[2:4], groups[1:3]]) == [groups[:4]]
    assert several_groups._connected([groups[:2], groups[5:7]]) == [groups[:2], groups[5:7]]
