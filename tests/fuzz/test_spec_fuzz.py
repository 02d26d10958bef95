"""Whatever is submitted: values come out, or InvalidSpec with placed faults, and nothing else."""

import json

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localcluster.directories import CHECKOUT
from pools.documents.yaml_text import parse_document
from scheduling.errors import InvalidSpec
from workflows.spec import SpecLimits, parse_workflow, read_workflow
from workflows.spec.grammar import (
    CheckpointModel,
    FileModel,
    GroupModel,
    InputModel,
    KpiModel,
    ResourceModel,
    RootModel,
    SegmentModel,
    TaskModel,
    TimeoutModel,
    TopologyEntry,
    WorkflowModel,
    fields_of,
)
from workflows.spec.reading import PlainText
from workflows.spec.rendering import TemplateText
from workflows.spec.template import is_templated, render
from workflows.values.placement import TaskPlacement

bounded = settings(
    max_examples=max(40, settings.default.max_examples),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
few = settings(bounded, max_examples=max(8, bounded.max_examples // 10))

EXAMPLES = [path.read_text() for path in (CHECKOUT / "examples").glob("*.yaml")]
MODELS = (
    RootModel, WorkflowModel, GroupModel, TaskModel, ResourceModel, TopologyEntry, FileModel, InputModel,
    KpiModel, CheckpointModel, TimeoutModel, SegmentModel,
)  # fmt: skip
FIELDS = st.sampled_from(sorted({name for model in MODELS for name in fields_of(model)}))
TEXTS = st.sampled_from(
    ["a", "b", "osmo-ctrl", "default", "clique", "required", "preferred", "16Gi", "1k", "8h", "PT8H", "1-3,7",
     "/mnt", "/mnt:/a", "s3://b/c", "x:y", "\u0661", "{{host:a}}", "{{host:b}}", "{{output}}", "2", "inf",
     "{{host:a-1}}", "{{task_index}}"]
) | st.text(max_size=8)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS | TEXTS, inner, max_size=5),
    max_leaves=15,
)
NAMES = st.sampled_from(["a", "b", "B", "c_d", "c-d", "e", "a-group", "a-1"])


def shaped(needed, **optional):
    """A mapping of the grammar's fields, each of about the right kind."""
    return st.fixed_dictionaries(needed, optional=optional)


SEGMENT = shaped({"size": st.integers(1, 3) | SCALARS, "key": TEXTS}, requirementType=TEXTS)
TASK = shaped(
    {"name": NAMES, "image": TEXTS, "command": st.lists(TEXTS, min_size=1, max_size=2)},
    args=st.lists(SCALARS, max_size=2),
    lead=st.booleans(),
    count=st.integers(-1, 4) | SCALARS,
    segment=SEGMENT | st.lists(SEGMENT, max_size=2),
    inputs=st.lists(shaped({"task": NAMES}), max_size=2),
    outputs=st.lists(shaped({"url": TEXTS}), max_size=1),
    resource=NAMES | st.just("default"),
    environment=st.dictionaries(TEXTS, SCALARS, max_size=2),
    files=st.lists(shaped({"path": TEXTS, "contents": TEXTS}, base64=st.booleans()), max_size=2),
    volumeMounts=st.lists(TEXTS, max_size=2),
    credentials=st.dictionaries(TEXTS, TEXTS | st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=2),
    exitActions=st.dictionaries(
        st.sampled_from(["COMPLETE", "FAIL", "RESCHEDULE", "RESTART_GROUP"]), TEXTS, max_size=2
    ),
    checkpoint=ANYTHING,
)
TOPOLOGY = st.lists(
    shaped({"key": TEXTS}, group=TEXTS, requirementType=TEXTS, waitSeconds=SCALARS), max_size=3
)
RESOURCE = shaped(
    {},
    gpu=SCALARS,
    memory=TEXTS,
    nodesExcluded=st.lists(TEXTS, max_size=2),
    topology=TOPOLOGY,
)
WORKFLOW = shaped(
    {"name": NAMES},
    tasks=st.lists(TASK, max_size=3),
    groups=st.lists(
        shaped(
            {"name": NAMES, "tasks": st.lists(TASK, min_size=1, max_size=3)},
            topology=TOPOLOGY,
            segment=SEGMENT,
        ),
        max_size=3,
    ),
    resources=st.dictionaries(NAMES | st.just("default"), RESOURCE, max_size=3),
    labels=st.dictionaries(TEXTS, SCALARS, max_size=2),
    timeout=st.dictionaries(st.sampled_from(["exec_timeout", "queue_timeout"]), SCALARS),
)
STRUCTURES = ANYTHING | shaped({"workflow": ANYTHING | WORKFLOW}, version=SCALARS)
PIECES = st.lists(
    st.sampled_from(
        [*"[]{}&*!|>-?:,#'\"%@` \n\t", "a", "<<", "&a ", "*a", "!!", "---", "...", "\n  ", "0x", "~"]
    )
    | st.text(max_size=3),
    max_size=60,
).map("".join)
TEMPLATES = st.lists(
    st.sampled_from(
        ["{{", "}}", "{%", "%}", "{#", "#}", "x", "|upper", "()", "[0]", "{{host:a}}", "{{uuid}}", ".b", "*",
         " if x ", " endif ", " for a in x ", " endfor ", "\n", "default-values:\n x: 1\n", " set x = 1 "]
    )
    | st.text(max_size=3),
    max_size=12,
).map("".join)  # fmt: skip


def outcome(read, *arguments, **options):
    """What came out: values, or a refusal. Anything else that is raised fails the test."""
    try:
        return read(*arguments, **options)
    except InvalidSpec as refused:
        return refused


def parse(text):
    return outcome(
        parse_workflow, text, variables=(), string_variables=(), limits=SpecLimits(), allow_localpath=False
    )


def promise_kept(text):
    """Parse, and hold the answer to what is promised of it."""
    result = parse(text)
    if not isinstance(result, InvalidSpec):
        options = {"variables": (), "string_variables": (), "limits": SpecLimits(), "allow_localpath": False}
        assert read_workflow(text, **options).faults == ()
        assert result.groups
        plain = PlainText(text=text, limits=SpecLimits(), allow_localpath=False).expanded({})
        again = read_workflow(plain, **options)
        assert again.faults == ()
        assert _names(again) == _names(result)
        assert not any(task.counted for group in again.groups for task in group.tasks)
        return
    assert result.message
    assert result.faults
    for fault in result.faults:
        assert fault.message
        assert len(fault.message) < 1000
        assert fault.line is None or (fault.line >= 1 and fault.column >= 1)
        assert all(isinstance(word, str) for word in fault.allowed or ())


def _names(spec):
    return [(group.name, [(task.name, task.lead) for task in group.tasks]) for group in spec.groups]


def dumped(structure):
    return yaml.safe_dump(structure, allow_unicode=True, sort_keys=False)


@bounded
@given(st.text() | PIECES)
def test_any_text_is_a_document_or_a_refusal_with_its_place(text):
    result = outcome(parse_document, text, limits=SpecLimits())
    assert not isinstance(result, InvalidSpec) or all(fault.line and fault.column for fault in result.faults)


@bounded
@given((st.text() | PIECES).filter(lambda text: not is_templated(text)))
def test_any_text_is_a_workflow_or_a_refusal(text):
    promise_kept(text)


@bounded
@given(STRUCTURES.map(dumped).filter(lambda text: not is_templated(text)))
def test_any_structure_is_a_workflow_or_a_refusal(text):
    promise_kept(text)


@bounded
@given(st.fixed_dictionaries({"workflow": WORKFLOW}).map(dumped).filter(lambda text: not is_templated(text)))
def test_an_accepted_spec_can_be_kept_in_a_row_and_read_again(text):
    result = parse(text)
    for group in () if isinstance(result, InvalidSpec) else result.groups:
        for task in group.tasks:
            placement = TaskPlacement(
                image=task.image,
                command=task.command,
                args=task.args,
                environment=task.environment,
                files=task.files,
                credentials=task.credentials,
                exit_actions=task.exit_actions,
                memory=task.resource.memory,
                nodes_excluded=task.resource.nodes_excluded,
            )
            row = json.dumps(placement.to_json(), allow_nan=False, ensure_ascii=False)
            assert "\\u0000" not in row  # Postgres has no NUL
            assert row.encode().decode() == row  # nor half a surrogate pair
            assert TaskPlacement.from_json(json.loads(row)) == placement


@bounded
@given(st.data())
def test_any_change_to_an_example_gives_a_workflow_or_a_refusal(data):
    """Real text with a piece cut out, doubled or replaced reaches deeper than random text."""
    text = data.draw(st.sampled_from(EXAMPLES))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 40)))
        text = text[:start] + data.draw(PIECES | TEXTS | st.just(text[start:end] * 2)) + text[end:]
    if not is_templated(text):
        promise_kept(text)


class AsWritten(yaml.SafeLoader):
    """PyYAML's own reading, but that dates stay text and keys are words, as in ours."""

    def construct_mapping(self, node, deep=False):
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}


AsWritten.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if not tag.endswith((":timestamp", ":merge", ":value"))]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@bounded
@given(STRUCTURES.map(dumped))
def test_a_document_is_read_as_pyyaml_reads_it(text):
    result = outcome(parse_document, text, limits=SpecLimits())
    if isinstance(result, InvalidSpec):
        assert result.faults[0].code in {"yaml_character", "duplicate_key"}
    else:
        want = yaml.load(text, Loader=AsWritten)
        assert repr(result.data) == repr(want)  # repr, because NaN differs from itself


@few
@given(TEMPLATES.filter(is_templated))
@pytest.mark.timeout(1200)
def test_any_template_is_a_workflow_or_a_refusal(text):
    promise_kept(text)


@few
@given(
    st.lists(
        st.sampled_from(["{{host:a-b}}", "{{uuid}}", "{{workflow_id}}", "{{input:0}}", "{{output}}", "x"])
    )
)
@pytest.mark.timeout(1200)
def test_tokens_for_later_survive_any_rendering(pieces):
    text = " ".join(pieces)
    template = TemplateText(text="{{ 1 }}" + text, variables=(), string_variables=(), limits=SpecLimits())
    done = render(template).text
    assert done == "1" + text
