"""How far one answer reaches, what it costs, and what no API server would take of a pod."""

import pytest

from scheduling.errors import InvalidSpec, format_path
from workflows.spec import SpecLimits, is_expensive, parse_workflow, read_workflow
from workflows.spec.rendering import TemplateText
from workflows.spec.template import render


def parse(text, *, limits=None, read=parse_workflow):
    return read(text, variables=(), string_variables=(), limits=limits or SpecLimits(), allow_localpath=False)


def refusal(text, **options):
    with pytest.raises(InvalidSpec) as refused:
        parse(text, **options)
    return refused.value


def task(fields="", *, name="a"):
    return f"    - {{name: {name}, image: i, command: [c]{', ' + fields if fields else ''}}}\n"


def bare(*tasks, more=""):
    return "workflow:\n  name: w\n  tasks:\n" + "".join(tasks) + more


def test_faults_of_form_and_of_meaning_are_told_in_one_answer():
    text = bare(
        task("imgae: j", name="a"),
        task("inputs: [{task: nobody}]", name="b"),
        more="  resources: {default: {gpu: yes, memory: 1k}}\n  labels: {team: ''}\n",
    )
    assert [(format_path(f.path), f.code) for f in refusal(text).faults] == [
        ("workflow.tasks[0].imgae", "unknown_field"),
        ("workflow.tasks[1].inputs[0].task", "unknown_task"),
        ("workflow.resources.default.gpu", "type"),
        ("workflow.resources.default.memory", "value"),
        ("workflow.labels.team", "label"),
    ]


def test_a_well_written_part_can_be_checked_further_though_another_is_not():
    text = bare(
        task("args: 5", name="a"), more="  resources: {default: {topology: [{key: zone}], cpu: many}}\n"
    )
    spec = parse(text, read=read_workflow)
    assert [fault.code for fault in spec.faults] == ["type", "type"]
    assert [r.key for r in spec.groups[0].tasks[0].resource.topology] == ["zone"]


def test_a_faulty_task_is_not_a_second_fault_where_it_is_named():
    text = bare(task("lead: perhaps", name="a"), task("inputs: [{task: a}]", name="b"))
    assert [fault.code for fault in refusal(text).faults] == ["type"]


def test_the_message_alone_says_where_and_what():
    message = refusal(bare(task("gpu: 1"), task("gpu: 1", name="b"), more="  a: 1\n  b: 1\n")).message
    assert 'Line 4, column 41: There is no field "gpu" here.' in message
    assert message.endswith("And 1 more.")


@pytest.mark.parametrize(
    ("tasks", "code"),
    [
        ([task("args: [~, ~, ~, ~]", name=f"t{i}") for i in range(9)], "type"),
        ([task(f"resource: r{i}", name=f"t{i}") for i in range(20)], "unknown_resource"),
        ([task() for _ in range(20)], "duplicate_name"),
    ],
    ids=["of form", "of reference", "of names"],
)
def test_faults_without_end_are_cut_and_the_cut_is_told(tasks, code):
    faults = refusal(bare(*tasks), limits=SpecLimits(faults=5)).faults
    assert len(faults) == 6
    assert [fault.code for fault in faults].count("too_many_faults") == 1
    assert code in {fault.code for fault in faults}


def test_a_users_text_never_makes_a_message_long():
    long = "x" * 100_000
    for text in (
        bare(task(name=long)),
        bare(task(f"resource: {long}")),
        bare(task(f"inputs: [{{task: {long}}}]")),
        bare(task(), more=f"  '{long}': 1\n"),
        bare(task(f"args: {long}")),
        bare(task(f"exitActions: {{FAIL: {long}}}")),
        bare(task(), more=f"  labels: {{a: {long}}}\n"),
        bare(task(), more=f"  timeout: {{exec_timeout: {long}}}\n"),
        bare(task(), more=f"  resources: {{default: {{memory: {long}}}}}\n"),
    ):
        assert len(refusal(text).message) < 500


def waiting_for_all(sources, waiting):
    """A workflow whose last ``waiting`` tasks each take input from all of its first ``sources``."""
    inputs = ", ".join(f"{{task: s{number}}}" for number in range(sources))
    return bare(
        *(task(name=f"s{number}") for number in range(sources)),
        task(f"inputs: &all [{inputs}]", name="w0"),
        *(task("inputs: *all", name=f"w{number}") for number in range(1, waiting)),
    )


def test_dependencies_are_counted_and_their_number_is_bounded():
    limits = SpecLimits(dependencies=12)
    assert len(parse(waiting_for_all(3, 4), limits=limits).groups) == 7
    refused = refusal(waiting_for_all(4, 5), limits=limits)
    (fault,) = refused.faults
    assert (fault.code, fault.allowed) == ("too_many_dependencies", ("12",))
    assert format_path(fault.path) == "workflow.tasks[7].inputs"  # the first three wait for 12
    assert "20 dependencies" in fault.message
    assert "at most 12" in fault.message
    assert "workflow.tasks[7]" not in fault.message


def test_a_short_text_cannot_make_many_dependencies():
    text = waiting_for_all(250, 250)
    assert len(text) < 28 * 1024
    (fault,) = refusal(text).faults
    assert (fault.code, fault.allowed) == ("too_many_dependencies", ("10000",))
    assert "62,500" in fault.message


def test_the_same_source_named_twice_is_one_dependency():
    text = bare(task(name="s"), task("inputs: [{task: s}, {task: s}]", name="w"))
    assert len(parse(text, limits=SpecLimits(dependencies=1)).groups) == 2


def test_many_tasks_that_are_not_carried_out_in_full_give_one_warning():
    spec = parse(bare(*(task("outputs: [{url: 's3://b'}]", name=f"t{i}") for i in range(50))))
    (notice,) = spec.warnings
    assert notice.path == ("workflow", "tasks", 0, "outputs")
    assert "50 places" in notice.message


NOT_CARRIED_OUT = {
    "inputs: [{task: b}]": "inputs",
    "inputs: [{task: 'other-1:b'}]": "tasks of other workflows",
    "args: ['{{output}}/x']": "tokens of data",
    "environment: {A: '{{input:0}}'}": "tokens of data",
    "args: ['{{host:b}}']": "hosts of other groups",
    "resources: {gpu: 4}": "resources",
    "backend: west": "backend",
}


@pytest.mark.parametrize(("fields", "name"), NOT_CARRIED_OUT.items())
def test_everything_accepted_but_not_carried_out_is_named(fields, name):
    messages = [notice.message for notice in parse(bare(task(fields), task(name="b"))).warnings]
    assert any(message.startswith(f'"{name}"') for message in messages)


PODS = {
    "environment: {'A B': c}": ("environment.A B", "variable"),
    "environment: {1A: c}": ("environment.1A", "variable"),
    "environment: {.: c}": ("environment..", "variable"),
    "environment: {..A: c}": ("environment...A", "variable"),
    "files: [{path: a, contents: b}]": ("files[0].path", "path"),
    "files: [{path: /a/../b, contents: b}]": ("files[0].path", "path"),
    "files: [{path: /a, contents: b}, {path: /a, contents: c}]": ("files[1].path", "mounted_twice"),
    "files: [{path: /, contents: b}]": ("files[0].path", "path"),
    "files: [{path: /./, contents: b}]": ("files[0].path", "path"),
    "files: [{path: /a, contents: b}, {path: //a/., contents: c}]": ("files[1].path", "mounted_twice"),
    "volumeMounts: ['/a:/']": ("volumeMounts[0]", "path"),
    "volumeMounts: ['/a:/x', '/b:/x/']": ("volumeMounts[1]", "mounted_twice"),
    "credentials: {s3: /}": ("credentials.s3", "path"),
    "files: [{path: /a, contents: '%', base64: true}]": ("files[0].contents", "base64"),
    "volumeMounts: [data]": ("volumeMounts[0]", "path"),
    "volumeMounts: ['/a:/b:ro']": ("volumeMounts[0]", "path"),
    "volumeMounts: ['/a:']": ("volumeMounts[0]", "path"),
    "volumeMounts: ['/a:/x', '/b:/x']": ("volumeMounts[1]", "mounted_twice"),
    "credentials: {S3_Key: /a}": ("credentials.S3_Key", "credential"),
    "credentials: {osmo-0123-files-0: /a}": ("credentials.osmo-0123-files-0", "credential"),
    "credentials: {s3: a}": ("credentials.s3", "path"),
    "credentials: {s3: {}}": ("credentials.s3", "type"),
    "credentials: {s3: {KEY: 'a b'}}": ("credentials.s3.KEY", "variable"),
    "exitActions: {FAIL: 1-9, COMPLETE: '5'}": ("exitActions.COMPLETE", "value"),
    "exitActions: {FAIL: '\u0661'}": ("exitActions.FAIL", "value"),
    "exitActions: {FAIL: '" + "1," * 300 + "1'}": ("exitActions.FAIL", "value"),
    "args: ['{{host:nobody}}']": ("args[0]", "unknown_task"),
}


@pytest.mark.parametrize(("fields", "want"), PODS.items(), ids=PODS.keys())
def test_a_value_that_no_api_server_takes_is_refused_where_it_stands(fields, want):
    placed = [(format_path(f.path), f.code) for f in refusal(bare(task(fields))).faults]
    assert placed == [(f"workflow.tasks[0].{want[0]}", want[1])]


RESOURCES = {
    "memory: 1k": "memory",
    "memory: \u0661Gi": "memory",
    "storage: 99999999999T": "storage",
    "nodesExcluded: ['node 1']": "nodesExcluded[0]",
    "gpu: yes": "gpu",
    "cpu: 0x" + "f" * 200: "cpu",
    "gpu: .inf": "gpu",
}


@pytest.mark.parametrize(("fields", "where"), RESOURCES.items(), ids=[*RESOURCES.values()])
def test_resources_no_node_could_ever_give_are_refused(fields, where):
    faults = refusal(bare(task(), more=f"  resources: {{default: {{{fields}}}}}\n")).faults
    assert [format_path(fault.path) for fault in faults] == [f"workflow.resources.default.{where}"]


@pytest.mark.parametrize(
    ("written", "want"), [("1500m", "2"), ("1.5Gi", "1610612736"), ("0.5", "1"), ("007", "7")]
)
def test_parts_of_a_byte_are_rounded_up(written, want):
    spec = parse(bare(task(), more=f"  resources: {{default: {{memory: '{written}'}}}}\n"))
    assert spec.groups[0].tasks[0].resource.memory == want


def test_exit_codes_are_kept_in_one_way_of_writing():
    spec = parse(bare(task("exitActions: {RESCHEDULE: ' 1 - 3 , 7,9-9'}")))
    assert spec.groups[0].tasks[0].exit_actions == {"RESCHEDULE": "1-3,7,9"}


def test_a_group_may_be_restarted_by_an_exit_code():
    spec = parse(bare(task("exitActions: {RESCHEDULE: '1-3', RESTART_GROUP: '75,134-139'}")))
    assert spec.groups[0].tasks[0].exit_actions == {"RESCHEDULE": "1-3", "RESTART_GROUP": "75,134-139"}


def test_a_task_that_names_no_resource_among_several_is_refused():
    (fault,) = refusal(bare(task(), more="  resources: {shard: {gpu: 1}}\n")).faults
    assert (fault.code, fault.line, fault.allowed) == ("unknown_resource", 4, ("shard",))


def test_keys_are_taken_as_written():
    spec = parse(bare(task("environment: {on: 1, NO: 2, 0x1F: 3}")).replace("0x1F", "_0x1F"))
    assert spec.groups[0].tasks[0].environment == {"on": "1", "NO": "2", "_0x1F": "3"}


def test_a_variable_may_begin_with_a_hyphen_or_a_full_stop_as_in_kubernetes():
    assert parse(bare(task("environment: {-A: b, .A: b, _A: b}"))).faults == ()


def template(text):
    return TemplateText(text=text, variables=(), string_variables=(), limits=SpecLimits())


def test_a_fault_in_a_template_has_the_users_own_line():
    text = "version: 2\ndefault-values:\n  x: 1\n\n  y: 2\nworkflow:\n  name: {{ x }}\n  tasks: {{ z }}\n"
    with pytest.raises(InvalidSpec) as refused:
        render(template(text))
    (fault,) = refused.value.faults
    assert (fault.line, fault.allowed) == (8, ("x", "y"))
    assert "--set z=" in fault.message


def test_a_token_for_later_with_spaces_is_answered_with_the_right_spelling():
    with pytest.raises(InvalidSpec, match=r"must be written without spaces: \{\{uuid\}\}"):
        render(template("a: {{ uuid }}"))


def test_a_template_sees_nothing_of_the_services_environment(monkeypatch):
    monkeypatch.setenv("OSMO_SECRET_KEY", "hush")
    for expression in ("environ", "os", "self.__init__", "cycler.__init__.__globals__", "config"):
        with pytest.raises(InvalidSpec):
            render(template(f"{{{{ {expression} }}}}"))


def test_lines_of_windows_are_lines():
    text = "default-values:\r\n  x: 1\r\n\r\nworkflow: {{ x }}\r\n"
    assert render(template(text)).text == "workflow: 1\n"


EXPENSIVE = {
    "a template": (bare(task("args: ['{{ x }}']")), True),
    "default values": ("default-values: {x: 1}\n" + bare(task()), True),
    "a repeated part": (bare(task('args: [&a "x",*a]')), True),
    "a repeated part without a space": (bare(task('environment: {"x":&a y, z: *a}')), True),
    "a long text": (bare(*(task(name=f"t{number}") for number in range(1000))), True),
    "a plain text": (bare(task("command: [sh, '-c', 'a && b & c * d']")), False),
    "tokens that are filled in later": (bare(task("args: ['{{output}}/{{host:a}}']")), False),
}


@pytest.mark.parametrize(("text", "want"), EXPENSIVE.values(), ids=EXPENSIVE)
def test_a_text_that_may_take_long_to_read_is_known_beforehand(text, want):
    assert is_expensive(text) is want


def test_a_template_that_was_rendered_before_is_plain_text():
    assert not is_expensive(bare(task("args: ['{{ x }}']")), rendered_before=True)
