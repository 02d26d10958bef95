"""What the parser accepts, what it makes of it, and what it says about the rest."""

from textwrap import dedent

import pytest

from localcluster.directories import CHECKOUT
from scheduling.errors import format_path
from scheduling.topology.requirements import Requirement
from tests.builders import documents
from workflows.spec import SpecLimits
from workflows.spec.grammar import GroupModel, ResourceModel, TaskModel

EXAMPLES = CHECKOUT / "examples"


def parse(text, **options):
    return documents.parse(dedent(text), **options)


def faults(text, **options):
    return documents.faults(dedent(text), **options)


def placed_faults(text, **options):
    return [(format_path(f.path), f.line, f.column, f.code) for f in faults(text, **options)]


MINIMAL = """\
workflow:
  name: train
  tasks:
    - name: one
      image: busybox
      command: [sleep, 5]
"""


def with_task(lines):
    return MINIMAL + "".join(f"      {line}\n" for line in lines.splitlines())


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.yaml")))
def test_every_example_parses(name):
    assert parse((EXAMPLES / name).read_text()).groups


LEFT, RIGHT = ("segment.0.worker-0.worker-3",) * 4, ("segment.1.worker-4.worker-7",) * 4
USE_CASES = {
    "use-case-1.yaml": [("clique", ("default",) * 4, True)],
    "use-case-2.yaml": [("clique", LEFT + RIGHT, True)],
    "use-case-3.yaml": [("zone", ("default",) * 8, True), ("clique", LEFT + RIGHT, True)],
    "use-case-4.yaml": [("spine", ("default",) * 8, False), ("rack", LEFT + RIGHT, False)],
}


@pytest.mark.parametrize("name", USE_CASES)
def test_the_use_cases_are_one_gang_each_with_the_requirements_they_are_about(name):
    parsed = parse((EXAMPLES / name).read_text())
    (group,) = parsed.groups
    for place, (key, sets, required) in enumerate(USE_CASES[name]):
        written = [task.resource.topology[place] for task in group.tasks]
        assert tuple(requirement.group for requirement in written) == sets
        assert {(requirement.key, requirement.required) for requirement in written} == {(key, required)}
    assert {len(task.resource.topology) for task in group.tasks} == {len(USE_CASES[name])}
    assert {task.resource.gpu for task in group.tasks} == {4}
    assert parsed.warnings == ()


def test_a_bare_task_is_a_group_of_its_own_and_leads_it():
    (group,) = parse(MINIMAL).groups
    assert (group.name, group.bare, group.tasks[0].lead) == ("one-group", True, True)
    assert group.tasks[0].command == ("sleep", "5")


def test_requirements_keep_where_they_were_written():
    parsed = parse("""\
        workflow:
          name: w
          tasks: [{name: a, image: i, command: [c], resource: shard}]
          resources:
            shard:
              topology:
                - {key: zone}
                - {key: rack, group: r 1, requirementType: preferred}
        """)
    place = ("workflow", "resources", "shard", "topology")
    topology = parsed.groups[0].tasks[0].resource.topology
    assert topology == (
        Requirement("zone", "default", True, (*place, 0)),
        Requirement("rack", "r 1", False, (*place, 1)),
    )
    assert parsed.places.locate((*place, 1, "group")) == (8, 23)


def test_all_faults_are_told_at_once_with_their_places():
    assert placed_faults("""\
        workflow:
          name: 9lives
          tasks:
            - name: a
              image: i
              command: [c]
              resource: shart
              inputs: [{task: b}]
          resources:
            shard: {memory: 16k}
        """) == [
        ("workflow.name", 2, 3, "name"),
        ("workflow.tasks[0].resource", 7, 7, "unknown_resource"),
        ("workflow.tasks[0].inputs[0].task", 8, 17, "unknown_task"),
        ("workflow.resources.shard.memory", 10, 13, "value"),
    ]


BAD = {
    "not a mapping": ("- 1", "type"),
    "an empty document": ("", "type"),
    "no workflow": ("version: 2", "missing"),
    "another version": ("version: 1\n" + MINIMAL, "value"),
    "resources at the top": (MINIMAL + "resources: {}\n", "unknown_field"),
    "a misspelled field": (with_task("comand: [c]"), "unknown_field"),
    "no task": ("workflow: {name: w, tasks: []}", "no_tasks"),
    "neither groups nor tasks": ("workflow: {name: w}", "no_tasks"),
    "an empty group": ("workflow: {name: w, groups: [{name: g, tasks: []}]}", "empty"),
    "an empty command": ("workflow: {name: w, tasks: [{name: a, image: i, command: []}]}", "empty"),
    "a workflow name with a space": (MINIMAL.replace("train", "my train"), "name"),
    "a workflow name that ends in a hyphen": (MINIMAL.replace("train", "train-"), "name"),
    "a name of 65 letters": (MINIMAL.replace("train", "a" * 65), "name"),
    "the name of OSMO's own container": (MINIMAL.replace("name: one", "name: osmo_ctrl"), "name"),
    "a negative number of GPUs": (MINIMAL + "  resources: {default: {gpu: -1}}\n", "type"),
    "half a GPU": (MINIMAL + "  resources: {default: {gpu: 0.5}}\n", "type"),
    "an unknown unit": (MINIMAL + "  resources: {default: {memory: 1 XB}}\n", "value"),
    "a timeout with two units": (MINIMAL + "  timeout: {exec_timeout: 1h30m}\n", "value"),
    "a timeout of nothing": (MINIMAL + "  timeout: {queue_timeout: 0}\n", "value"),
    "an unknown requirement type": (
        MINIMAL + "  resources: {default: {topology: [{key: rack, requirementType: must}]}}\n",
        "value",
    ),
    "an unknown field of a requirement": (
        MINIMAL + "  resources: {default: {topology: [{key: rack, level: 2}]}}\n",
        "unknown_field",
    ),
    "an unknown exit action": (with_task("exitActions: {RETRY: '1'}"), "value"),
    "exit codes that run backwards": (with_task("exitActions: {FAIL: 3-1}"), "value"),
    "a label key with a space": (MINIMAL + "  labels: {my team: a}\n", "label"),
    "an empty label": (MINIMAL + "  labels: {team: ''}\n", "label"),
    "a file without contents": (with_task("files: [{path: /a}]"), "missing"),
    "a file on the caller's disk": (with_task("files: [{path: /a, localpath: b}]"), "localpath"),
    "a credential that is a list": (with_task("credentials: {s3: [a]}"), "type"),
}


@pytest.mark.parametrize(("text", "code"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_with_its_place(text, code):
    reported = faults(text)
    assert code in {fault.code for fault in reported}
    assert all(fault.line and fault.column for fault in reported)


def test_a_misspelled_field_is_answered_with_the_right_one():
    (fault,) = faults(MINIMAL.replace("command:", "comand:").replace("image", "command: [c]\n      image"))
    assert 'Did you mean "command"?' in fault.message
    assert "command" in fault.allowed


GROUPS = """\
workflow:
  name: w
  groups:
    - name: first
      tasks:
        - {name: a, image: i, command: [c], inputs: [{task: z}]}
    - name: second
      tasks:
        - {name: z, image: i, command: [c]}
"""


def test_a_forward_reference_orders_the_groups():
    first, second = parse(GROUPS).groups
    assert (first.upstream, second.upstream) == (("second",), ())


def test_groups_that_wait_for_each_other_are_refused_and_the_circle_is_named():
    (fault,) = faults(GROUPS.replace("name: z, image: i,", "name: z, inputs: [{task: a}], image: i,"))
    assert fault.code == "cycle"
    assert "first -> second -> first" in fault.message


@pytest.mark.parametrize(
    ("lead_a", "lead_b", "accepted"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_a_group_of_several_tasks_has_exactly_one_lead(lead_a, lead_b, accepted):
    text = f"""\
        workflow:
          name: w
          groups:
            - name: g
              tasks:
                - {{name: a, image: i, command: [c], lead: {lead_a}}}
                - {{name: b, image: i, command: [c], lead: {lead_b}}}
        """
    if accepted:
        assert [t.lead for t in parse(text).groups[0].tasks] == [True, False]
    else:
        assert [f.code for f in faults(text)] == ["lead"]


def test_two_tasks_of_one_name_are_spoken_of_together():
    text = MINIMAL + "    - {name: one, image: i, command: [c]}\n"
    assert 'Two tasks have the name "one".' in {f.message for f in faults(text)}


def test_an_empty_value_is_named_as_one():
    (fault,) = faults("workflow:\n")
    assert fault.message == "An empty value (null) is not accepted: a mapping is needed."


@pytest.mark.parametrize("other", ["ONE", "one", "one-group"])
def test_names_differ_in_more_than_case_and_underscores(other):
    text = MINIMAL + f"    - {{name: {other}, image: i, command: [c]}}\n"
    assert "duplicate_name" in {f.code for f in faults(text)}


def test_one_task_over_the_limit_is_refused():
    text = "workflow:\n  name: w\n  tasks:\n" + "".join(
        f"    - {{name: t{i}, image: i, command: [c]}}\n" for i in range(4)
    )
    assert parse(text, limits=SpecLimits(tasks=4)).groups
    assert [f.code for f in faults(text, limits=SpecLimits(tasks=3))] == ["too_many_tasks"]


def test_a_field_that_is_accepted_but_not_carried_out_is_named():
    parsed = parse(
        with_task(
            "outputs: [{url: 's3://b/o'}]\ninputs: [{url: 's3://b/i'}]\nkpis: [{index: a, path: b}]\n"
            "downloadType: download\ncacheSize: 1Gi\ncheckpoint: [{path: a, url: b, frequency: 5m}]"
        )
    )
    places = {format_path(notice.path) for notice in parsed.warnings}
    want = {"outputs", "inputs", "kpis", "downloadType", "cacheSize", "checkpoint"}
    assert places == {f"workflow.tasks[0].{name}" for name in want}


def test_a_dry_run_passes_files_that_are_still_on_the_callers_disk():
    text = with_task("files: [{path: /a, localpath: b}]")
    assert parse(text, allow_localpath=True).groups[0].tasks[0].files[0].path == "/a"


@pytest.mark.parametrize("group", ["Rack 1", "a-b", "größe", "x" * 200, "日本"])
def test_group_names_are_free_text(group):
    text = MINIMAL + f"  resources: {{default: {{topology: [{{key: rack, group: '{group}'}}]}}}}\n"
    assert parse(text).groups[0].tasks[0].resource.topology[0].group == group


@pytest.mark.parametrize(
    ("written", "want"),
    [("16Gi", "16Gi"), ("16GiB", "16Gi"), ("2 TiB", "2Ti"), ("5K", "5k"), ("100", "100"), ("7B", "7")],
)
def test_amounts_become_quantities_of_kubernetes(written, want):
    assert parse(MINIMAL + f"  resources: {{default: {{memory: {written}}}}}\n").groups[0].tasks[
        0
    ].resource.memory == (want)


@pytest.mark.parametrize(
    ("written", "want"), [("90", 90), ("8h", 28800), ("60d", 5184000), ("PT1H30M", 5400), ("500ms", 0.5)]
)
def test_timeouts_are_seconds(written, want):
    assert parse(MINIMAL + f"  timeout: {{exec_timeout: {written}}}\n").exec_timeout == want


def test_the_documentation_shows_every_field_that_is_carried_out():
    """The page's own workflow parses once the task that it waits for is there."""
    page = (EXAMPLES.parent / "docs" / "reference" / "spec.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    prepare = "    - {name: first, tasks: [{name: prepare, image: i, command: [c], resource: shard}]}\n"
    parsed = parse(example.replace("  resources:\n", prepare + "  resources:\n"))
    assert [notice.path[-1] for notice in parsed.warnings] == ["inputs", "groups"]
    task_fields = set(TaskModel.model_fields) - {"outputs", "kpis", "downloadType", "cacheSize", "checkpoint"}
    for name in {
        *task_fields - {"resources", "backend"},
        *GroupModel.model_fields,
        *ResourceModel.model_fields,
    }:
        assert f"{name}:" in example
