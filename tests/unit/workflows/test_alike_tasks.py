"""Common values of a gang's tasks are worked out once, and no pod and no weight differs for it."""

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.placements import GROUP
from workflows.admission.size import oversized_workflow
from workflows.manifests.group import Renderer, render_group
from workflows.values.placement import FrozenTemplate, GroupValues, TaskPlacement, TaskTry

NAMES = st.sampled_from(["A", "B", "OSMO_ATTEMPT"])
VALUES = st.sampled_from(["", "1", "{{uuid}}", "{{host:t1}}", "{{ workflow_id }}x", "{{host:nobody}}"])
ENVIRONMENTS = st.dictionaries(NAMES, VALUES, max_size=3)
CREDENTIALS = st.dictionaries(
    st.sampled_from(["s1", "s2"]),
    st.one_of(st.just("/mnt"), st.dictionaries(NAMES, st.sampled_from(["k1", "k2"]), max_size=2)),
    max_size=2,
)
PLACEMENTS = st.builds(
    TaskPlacement,
    image=st.just("ubuntu"),
    command=st.just(("train",)),
    args=st.lists(VALUES, max_size=2).map(tuple),
    environment=ENVIRONMENTS,
    credentials=CREDENTIALS,
    gpu=st.integers(0, 2),
)
TEMPLATE = FrozenTemplate(
    pod={"spec": {"containers": [{"name": "{{USER_CONTAINER_NAME}}", "env": [{"name": "A", "value": "0"}]}]}}
)


@st.composite
def groups(draw):
    placements = draw(st.lists(PLACEMENTS, min_size=1, max_size=5))
    tries = tuple(
        TaskTry(task_uuid=UUID(int=at + 1), name=f"t{at}", retry_id=0, placement=placement)
        for at, placement in enumerate(placements)
    )
    templates = draw(st.sampled_from([{}, {"": TEMPLATE}]))
    return GroupValues(
        uuid=UUID(int=99),
        name="g",
        generation=0,
        placement=replace(GROUP, templates=templates, start_barrier=None),
        tasks=tries,
    )


@given(groups())
def test_a_pod_is_the_same_alone_and_beside_its_peers(group):
    together = render_group(group).pods
    assert together == {task.name: Renderer(group).pod(task) for task in group.tasks}


@given(groups())
def test_no_pod_shares_its_list_of_variables_with_another(group):
    lists = [
        container["env"]
        for pod in render_group(group).pods.values()
        for container in pod["spec"]["containers"]
        if "env" in container
    ]
    assert len({id(variables) for variables in lists}) == len(lists)


def characters(value):
    """The weight of a value, counted plainly."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return 1 + sum(characters(part) for entry in value.items() for part in entry)
    if isinstance(value, (list, tuple)):
        return 1 + sum(map(characters, value))
    if hasattr(value, "__dataclass_fields__"):
        return 1 + sum(characters(getattr(value, name)) for name in value.__dataclass_fields__)
    return 1


@given(groups())
def test_a_workflow_is_refused_from_its_first_character_too_many(group):
    templates = group.placement.templates
    weight = sum(
        characters(task.placement) + (characters(templates[""]) if templates else 0) for task in group.tasks
    )
    assert list(oversized_workflow([group], most=weight)) == []
    assert len(list(oversized_workflow([group], most=weight - 1))) == 1
