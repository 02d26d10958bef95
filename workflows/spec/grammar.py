"""OSMO's workflow grammar as strict models, and what pydantic says in our words.

Every object refuses fields it does not know. Scalars become text where the grammar has text. The models
hold what was written; ``reading`` resolves references and builds the values.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from scheduling.errors import Fault, Path


def _text(value: Any) -> Any:
    """Scalars as OSMO takes them: what YAML read as a number or a truth value is text again."""
    return str(value) if isinstance(value, (bool, int, float)) else value


Text = Annotated[str, BeforeValidator(_text)]
Whole = Annotated[int, Field(ge=0, le=2**31 - 1)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)


class TopologyEntry(Strict):
    key: Text
    group: Text = "default"
    requirementType: Literal["required", "preferred"] = "required"  # noqa: N815 -- OSMO's field


class ResourceModel(Strict):
    cpu: Whole = 0
    gpu: Whole = 0
    memory: Text = ""
    storage: Text = ""
    platform: Text = ""
    nodesExcluded: list[Text] = []  # noqa: N815 -- OSMO's field
    topology: list[TopologyEntry] = []


class FileModel(Strict):
    path: Text
    contents: Text | None = None
    base64: bool = False
    localpath: Text | None = None


class InputModel(Strict):
    task: Text | None = None
    url: Text | None = None
    regex: Text = ""
    dataset: dict[str, Any] | None = None


class OutputModel(Strict):
    url: Text | None = None
    regex: Text = ""
    dataset: dict[str, Any] | None = None


class KpiModel(Strict):
    index: Text
    path: Text


class CheckpointModel(Strict):
    path: Text
    url: Text
    frequency: Text
    regex: Text = ""


class TaskModel(Strict):
    name: Text
    image: Text
    command: Annotated[list[Text], Field(min_length=1)]
    args: list[Text] = []
    resource: Text = "default"
    lead: bool = False
    inputs: list[InputModel] = []
    outputs: list[OutputModel] = []
    kpis: list[KpiModel] = []
    environment: dict[Text, Text] = {}
    files: list[FileModel] = []
    privileged: bool = False
    hostNetwork: bool = False  # noqa: N815 -- OSMO's field
    volumeMounts: list[Text] = []  # noqa: N815 -- OSMO's field
    credentials: dict[Text, Any] = {}
    downloadType: Text | None = None  # noqa: N815 -- OSMO's field
    cacheSize: Text | None = None  # noqa: N815 -- OSMO's field
    exitActions: dict[Literal["COMPLETE", "FAIL", "RESCHEDULE"], Text] = {}  # noqa: N815 -- OSMO's field
    checkpoint: list[CheckpointModel] = []
    resources: Any = None
    backend: Text | None = None


class GroupModel(Strict):
    name: Text
    barrier: bool = True
    ignoreNonleadStatus: bool = True  # noqa: N815 -- OSMO's field
    nvlink: bool | None = None  # ours: whether the group gets a ComputeDomain; null: as its pool says
    tasks: Annotated[list[TaskModel], Field(min_length=1)]


class TimeoutModel(Strict):
    exec_timeout: Text | None = None
    queue_timeout: Text | None = None


class WorkflowModel(Strict):
    name: Text
    labels: dict[Text, Text] = {}
    pool: Text | None = None
    backend: Text | None = None
    groups: list[GroupModel] | None = None
    tasks: list[TaskModel] | None = None
    resources: dict[Text, ResourceModel] = {}
    timeout: TimeoutModel = TimeoutModel()


class FileRoot(Strict):
    version: Literal[2] = 2
    workflow: WorkflowModel


def read_models(data: Any) -> FileRoot:
    """Check parsed data against the grammar. Raises pydantic's ValidationError, see ``faults_of``."""
    return FileRoot.model_validate(data)


def faults_of(error: ValidationError) -> Iterator[Fault]:
    """Every error as a fault: where, in words, and what would be accepted there."""
    for one in error.errors(include_url=False, include_context=True, include_input=True):
        path = tuple(step for step in one["loc"] if step != "[key]")
        yield _fault(path, one)


def _fault(path: Path, one: Mapping[str, Any]) -> Fault:
    kind = one["type"]
    if kind == "extra_forbidden":
        return _unknown_field(path)
    if kind == "missing":
        return Fault(path[:-1], "missing", f'The field "{path[-1]}" is needed.')
    if kind == "literal_error":
        allowed = tuple(
            str(word).strip("'") for word in one["ctx"]["expected"].replace(" or ", ", ").split(", ")
        )
        message = f"{_shown(one['input'])} is not accepted; write {' or '.join(allowed)}."
        return Fault(path, "value", message, allowed=allowed)
    if kind == "too_short":
        return Fault(path, "empty", "At least one entry is needed.")
    words = _WORDS.get(kind) or one["msg"]
    return Fault(path, "type", f"{_shown(one['input'])} is not accepted: {words}.")


_WORDS = {
    "string_type": "a text is needed",
    "int_type": "a whole number is needed",
    "int_parsing": "a whole number is needed",
    "int_from_float": "a whole number is needed",
    "bool_type": "true or false is needed",
    "bool_parsing": "true or false is needed",
    "list_type": "a list is needed",
    "dict_type": "a mapping is needed",
    "model_type": "a mapping is needed",
    "greater_than_equal": "it must be zero or more",
    "less_than_equal": "it is too large",
}


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _unknown_field(path: Path) -> Fault:
    model = model_at(path[:-1])
    allowed = tuple(sorted(model.model_fields)) if model else ()
    near = difflib.get_close_matches(str(path[-1]), allowed, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    return Fault(path, "unknown_field", f'There is no field "{path[-1]}" here.{hint}', allowed=allowed)


_PLACES: Mapping[tuple[type[Strict], str], type[Strict]] = {
    (FileRoot, "workflow"): WorkflowModel,
    (WorkflowModel, "groups"): GroupModel,
    (WorkflowModel, "tasks"): TaskModel,
    (WorkflowModel, "resources"): ResourceModel,
    (WorkflowModel, "timeout"): TimeoutModel,
    (GroupModel, "tasks"): TaskModel,
    (TaskModel, "inputs"): InputModel,
    (TaskModel, "outputs"): OutputModel,
    (TaskModel, "kpis"): KpiModel,
    (TaskModel, "files"): FileModel,
    (TaskModel, "checkpoint"): CheckpointModel,
    (ResourceModel, "topology"): TopologyEntry,
}


def model_at(path: Path) -> type[Strict] | None:
    """The model that a path leads to; list places and names of resources lead on, a scalar to None."""
    model: type[Strict] | None = FileRoot
    steps = iter(path)
    for step in steps:
        if isinstance(step, int):
            continue
        model = _PLACES.get((model, step)) if model else None
        if model is ResourceModel:
            next(steps, None)
    return model
