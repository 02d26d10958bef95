"""What a spec says of recovery and of time to save: who says it, and every fault at its place."""

import pytest

from scheduling.errors import InvalidSpec, format_path
from workflows.spec import SpecLimits, parse_workflow


def parse(text):
    return parse_workflow(text, variables=(), string_variables=(), limits=SpecLimits(), allow_localpath=False)


def said(group):
    return [(format_path(words.path), dict(words.values)) for words in group.recovery]


def faults(text):
    with pytest.raises(InvalidSpec) as refused:
        parse(text)
    return [(f.line, f.column, format_path(f.path), f.code) for f in refused.value.faults]


GROUPS = """workflow:
  name: w
  recovery: {failed: requeue, max: 5, backoff: {first: 10s}}
  groups:
  - name: g
    recovery: {node_lost: task, replace_patience: 5m}
    tasks:
    - {name: a, image: i, command: [c], terminationGracePeriodSeconds: 90}
  - name: h
    tasks: [{name: b, image: i, command: [c]}]
"""


def test_a_group_is_under_what_its_workflow_says():
    spec = parse(GROUPS)
    workflow = ("workflow.recovery", {"failed": "requeue", "most": 5, "backoff_first": 10.0})
    own = ("workflow.groups[0].recovery", {"node_lost": "task", "replace_patience": 300.0})
    assert [said(group) for group in spec.groups] == [[workflow, own], [workflow]]
    assert [task.grace_period for group in spec.groups for task in group.tasks] == [90, 0]


def test_a_bare_task_says_it_for_its_own_group():
    text = (
        "workflow:\n  name: w\n  tasks:\n  - {name: a, image: i, command: [c], recovery: {failed: requeue}}\n"
    )
    (group,) = parse(text).groups
    assert said(group) == [("workflow.tasks[0].recovery", {"failed": "requeue"})]


def test_every_fault_is_reported_at_its_place():
    text = """workflow:
  name: w
  recovery:
    failed: again
    max: -1
    maximum: 3
    unexplained: never
    avoid_nodes: yes
  groups:
  - name: g
    recovery:
      replace_patience: soon
      backoff: {first: 0s, last: 5m}
    tasks:
    - name: a
      image: i
      command: [c]
      lead: true
      terminationGracePeriodSeconds: 0
    - name: b
      image: i
      command: [c]
      recovery: {failed: fail}
"""
    assert faults(text) == [
        (4, 5, "workflow.recovery.failed", "value"),
        (5, 5, "workflow.recovery.max", "type"),
        (6, 5, "workflow.recovery.maximum", "unknown_field"),
        (7, 5, "workflow.recovery.unexplained", "value"),
        (8, 5, "workflow.recovery.avoid_nodes", "type"),
        (12, 7, "workflow.groups[0].recovery.replace_patience", "type"),
        (13, 17, "workflow.groups[0].recovery.backoff.first", "type"),
        (13, 28, "workflow.groups[0].recovery.backoff.last", "unknown_field"),
        (19, 7, "workflow.groups[0].tasks[0].terminationGracePeriodSeconds", "type"),
        (23, 7, "workflow.groups[0].tasks[1].recovery", "recovery_of_task"),
    ]


@pytest.mark.parametrize("word", ["max", "max_preemptions"])
def test_more_recoveries_than_any_group_has_are_refused_with_their_bound(word):
    assert parse(GROUPS.replace("max: 5", f"{word}: 1000")).groups
    with pytest.raises(InvalidSpec, match="1001 is not accepted: it must be 1,000 or less"):
        parse(GROUPS.replace("max: 5", f"{word}: 1001"))


def test_durations_of_every_place_are_read():
    text = GROUPS.replace("10s", "never").replace("5m", "soon")
    assert [(path, code) for _, _, path, code in faults(text)] == [
        ("workflow.recovery.backoff.first", "type"),
        ("workflow.groups[0].recovery.replace_patience", "type"),
    ]


def test_tasks_made_one_group_keep_what_they_say_alike():
    text = """workflow:
  name: w
  tasks:
  - {name: a, image: i, command: [c], resource: r, recovery: {failed: requeue}}
  - {name: b, image: i, command: [c], resource: r, recovery: {failed: requeue}}
  resources: {r: {gpu: 1, topology: [{key: rack, group: x}]}}
"""
    (warning,) = parse(text).warnings
    document = warning.message.partition("write one task group:\n")[2]
    (group,) = parse(document).groups
    assert said(group) == [("workflow.groups[0].recovery", {"failed": "requeue"})]
