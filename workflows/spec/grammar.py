"""OSMO's workflow grammar as strict models, and pydantic's errors as faults in the words of this service.

Every object refuses unknown fields. Scalars become text where the grammar has text. The models hold a
document as it was written: ``validation`` checks the document against them piece by piece, ``resolution``
resolves the references between them and builds the values.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SkipValidation
from pydantic_core import PydanticCustomError

from pools.documents.reading import FlagOrAuto
from pools.values.durations import parse_duration
from pools.values.news_targets import KINDS, MOST_TARGETS, NewsKind
from pools.values.recovery import MOST_ATTEMPTS, MOST_AVOIDED
from scheduling.errors import Fault, Path
from scheduling.sentences import did_you_mean
from scheduling.topology.requirements import RequirementWord
from scheduling.topology.segments import LEAST_SEGMENT, listed
from web.rest.expectations import EXPECTATIONS
from workflows.spec.syntax import quoted


def _text(value: Any) -> Any:
    """Accept scalars as OSMO does: a YAML number or truth value becomes text again."""
    return str(value) if isinstance(value, (bool, int, float)) else value


def _no_bool(value: Any) -> Any:
    """Refuse ``gpu: yes``, which Python would count as 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "a whole number is needed")
    return value


SpecText = Annotated[str, BeforeValidator(_text)]


def _number_of_tasks(value: Any, *, least: int) -> Any:
    """Refuse what is no number of tasks, also where pydantic would read one from it: ``"18"``, ``18.0``."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise PydanticCustomError("int_type", "a whole number is needed")
    if value < least:
        raise PydanticCustomError("least", f"it must be {least} or more")
    return value


def _segments(value: Any) -> Any:
    if not isinstance(value, (dict, list)):
        raise PydanticCustomError("segment", "write {size: 9, key: clique}, or a list of such")
    return listed(value)


def _positive(value: int) -> int:
    if value < 1:
        raise PydanticCustomError("seconds", "it must be one second or more")
    return value


def _duration(text: str) -> str:
    """Check it here, so that it is reported together with other faults of its piece."""
    try:
        parse_duration(text)
    except ValueError as error:
        raise PydanticCustomError(
            "duration", "write a duration above zero, such as 30s, 10m or PT8H"
        ) from error
    return text


def _some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse an empty list; pydantic's own check would also speak of one with a wrong entry."""
    if not values:
        raise PydanticCustomError("too_short", "at least one entry is needed")
    return values


ExitActionName = Literal["COMPLETE", "FAIL", "RESCHEDULE", "RESTART_GROUP"]
Count = Annotated[int, BeforeValidator(_no_bool), Field(ge=0, le=2**31 - 1)]
TaskCount = Annotated[int, BeforeValidator(partial(_number_of_tasks, least=1)), Field(le=2**31 - 1)]
SegmentSize = Annotated[
    int, BeforeValidator(partial(_number_of_tasks, least=LEAST_SEGMENT)), Field(le=2**31 - 1)
]
Recoveries = Annotated[int, BeforeValidator(_no_bool), Field(ge=0, le=MOST_ATTEMPTS)]
GracePeriod = Annotated[Count, AfterValidator(_positive)]
Duration = Annotated[SpecText, AfterValidator(_duration)]


class GrammarModel(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)


class Piece(GrammarModel):
    """A part of the document that is validated by itself and knows its path.

    ``complete``: no field was dropped as faulty; for a group, none of its tasks' fields.
    """

    __slots__ = ("complete", "path")  # private attributes would make parsing a twentieth slower

    path: ClassVar[Path]  # of the instance, but no field
    complete: ClassVar[bool]

    def placed(self, path: Path, *, complete: bool = True) -> Self:
        """Set the path of the piece; returns the piece."""
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "complete", complete)
        return self


class TopologyEntry(GrammarModel):
    key: SpecText
    group: SpecText = "default"
    requirementType: RequirementWord = "required"  # noqa: N815 -- OSMO's field; auto is ours
    waitSeconds: Count | None = None  # noqa: N815 -- ours, written as OSMO writes its own


class SegmentModel(GrammarModel):
    """Runs of so many consecutive tasks, each one co-location set at ``key``."""

    size: SegmentSize
    key: SpecText
    requirementType: RequirementWord = "required"  # noqa: N815 -- as those of TopologyEntry
    waitSeconds: Count | None = None  # noqa: N815


Segmentation = Annotated[tuple[SegmentModel, ...], BeforeValidator(_segments), Field(min_length=1)]
"""One level, or several from broad to narrow."""


class ResourceModel(Piece):
    cpu: Count = 0
    gpu: Count = 0
    memory: SpecText = ""
    storage: SpecText = ""
    platform: SpecText = ""
    nodesExcluded: tuple[SpecText, ...] = ()  # noqa: N815 -- OSMO's field
    topology: tuple[TopologyEntry, ...] | None = None  # null: that of its task group


class FileModel(GrammarModel):
    path: SpecText
    contents: SpecText | None = None
    base64: bool = False
    localpath: SpecText | None = None


class InputModel(GrammarModel):
    task: SpecText | None = None
    url: SpecText | None = None
    regex: SpecText = ""
    dataset: dict[str, Any] | None = None


class OutputModel(GrammarModel):
    url: SpecText | None = None
    regex: SpecText = ""
    dataset: dict[str, Any] | None = None


class KpiModel(GrammarModel):
    index: SpecText
    path: SpecText


class CheckpointModel(GrammarModel):
    path: SpecText
    url: SpecText
    frequency: SpecText
    regex: SpecText = ""


ResponseWord = Literal["requeue", "task", "fail"]


class BackoffModel(GrammarModel):
    first: Duration | None = None
    limit: Duration | None = None


class RecoveryModel(GrammarModel):
    """What follows when a group loses a task; a word that is left out is as the broader place says it."""

    preempted: ResponseWord | None = None
    node_lost: ResponseWord | None = None
    failed: ResponseWord | None = None
    unexplained: ResponseWord | None = None
    max: Recoveries | None = None
    max_preemptions: Recoveries | None = None
    replace_patience: Duration | None = None
    avoid_nodes: Annotated[int, BeforeValidator(_no_bool), Field(ge=0, le=MOST_AVOIDED)] | None = None
    backoff: BackoffModel | None = None


class TaskModel(Piece):
    name: SpecText
    image: SpecText
    command: Annotated[tuple[SpecText, ...], Field(min_length=1)]
    args: tuple[SpecText, ...] = ()
    resource: SpecText = "default"
    lead: bool = False
    count: TaskCount | None = None  # ours: so many equal tasks, `<name>-0` and on; `lead` is that of index 0
    segment: Segmentation | None = None  # ours
    inputs: tuple[InputModel, ...] = ()
    outputs: tuple[OutputModel, ...] = ()
    kpis: tuple[KpiModel, ...] = ()
    environment: dict[SpecText, SpecText] = Field(default_factory=dict)
    files: tuple[FileModel, ...] = ()
    privileged: bool = False
    hostNetwork: bool = False  # noqa: N815 -- OSMO's field
    volumeMounts: tuple[SpecText, ...] = ()  # noqa: N815 -- OSMO's field
    credentials: dict[SpecText, Any] = Field(default_factory=dict)
    nvlink: FlagOrAuto = None  # ours: whether it claims its node's channel; auto: see scheduling.gang.nvlink
    recovery: RecoveryModel | None = None  # ours; under `tasks:` alone, for its own group
    terminationGracePeriodSeconds: GracePeriod | None = None  # noqa: N815 -- Kubernetes' field
    downloadType: SpecText | None = None  # noqa: N815 -- OSMO's field
    cacheSize: SpecText | None = None  # noqa: N815 -- OSMO's field
    exitActions: dict[ExitActionName, SpecText] = Field(default_factory=dict)  # noqa: N815 -- OSMO's field
    checkpoint: tuple[CheckpointModel, ...] = ()
    resources: Any = None
    backend: SpecText | None = None


class GroupModel(Piece):
    """``tasks`` are validated one at a time, and only then are what their type says (``validation``)."""

    name: SpecText
    barrier: bool = True
    ignoreNonleadStatus: bool = True  # noqa: N815 -- OSMO's field
    nvlink: FlagOrAuto = None  # ours; false: no ComputeDomain; true: all its tasks with GPUs claim a channel
    recovery: RecoveryModel | None = None  # ours
    topology: tuple[TopologyEntry, ...] = ()  # ours: holds for every task that does not opt out
    segment: Segmentation | None = None  # ours: cuts its tasks with `count` in the order written
    tasks: Annotated[tuple[SkipValidation[TaskModel], ...], Field(min_length=1)]

    @property
    def bare(self) -> bool:
        """Whether it is the group of a task that was written under ``tasks:``."""
        return self.path[1] == "tasks"

    @classmethod
    def of_bare_task(cls, task: TaskModel) -> "GroupModel":
        """The task group that a task under ``tasks:`` is: its own."""
        group = cls.model_construct({"name", "tasks"}, name=f"{task.name}-group", tasks=(task,))
        return group.placed(task.path, complete=task.complete)


class NotifyModel(GrammarModel):
    """A target of news: either ``webhook`` or ``email``."""

    webhook: SpecText = ""
    email: SpecText = ""
    kinds: Annotated[tuple[NewsKind, ...], AfterValidator(_some), Field(max_length=len(KINDS))] = ("ended",)
    waits_after: Duration | None = None


class TimeoutModel(GrammarModel):
    exec_timeout: SpecText | None = None
    queue_timeout: SpecText | None = None


class WorkflowModel(GrammarModel):
    name: SpecText
    labels: dict[SpecText, SpecText] = Field(default_factory=dict)
    pool: SpecText | None = None
    backend: SpecText | None = None
    groups: list[Any] | None = None
    tasks: list[Any] | None = None
    recovery: RecoveryModel | None = None  # ours; holds for every group that does not say otherwise
    notify: Annotated[tuple[NotifyModel, ...], Field(max_length=MOST_TARGETS)] = ()  # ours
    topology: tuple[TopologyEntry, ...] = ()  # never carried out: refused, or warned of
    resources: dict[SpecText, Any] = Field(default_factory=dict)
    timeout: TimeoutModel = TimeoutModel()


class RootModel(GrammarModel):
    version: Literal[2] = 2
    workflow: Any
    default_values: Any = Field(None, alias="default-values")  # used up by rendering, if there was any


_EXPECTATIONS = EXPECTATIONS | {
    "greater_than_equal": "it must be zero or more",
    "less_than_equal": "it must be {le:,} or less",
}


def fault_of(error: Mapping[str, Any], *, model: type[GrammarModel], at: Path) -> Fault:
    """One of pydantic's errors about a ``model`` whose path is ``at``, as a fault."""
    inside = tuple(step for step in error["loc"] if step != "[key]")
    path = (*at, *inside)
    kind = error["type"]
    if kind == "extra_forbidden":
        return _unknown_field(inside, model=model, path=path)
    if kind == "missing":
        return Fault(path[:-1], "missing", f'The field "{path[-1]}" is needed.')
    if kind == "literal_error":
        allowed = tuple(
            str(word).strip("'") for word in error["ctx"]["expected"].replace(" or ", ", ").split(", ")
        )
        message = f"{_described(error['input'])} is not accepted; write {' or '.join(allowed)}."
        if isinstance(error["input"], str):
            message += did_you_mean(error["input"], allowed)
        return Fault(path, "value", message, allowed=allowed)
    if kind == "too_short":
        return Fault(path, "empty", "At least one entry is needed.")
    if kind == "too_long":
        return Fault(path, "too_many", f"At most {error['ctx']['max_length']} entries are accepted.")
    expectation = _EXPECTATIONS.get(kind, "").format_map(error.get("ctx", {})) or str(error["msg"])
    if kind == "string_type" and error["input"] is None:
        expectation += ', and "" is the empty one'
    return Fault(path, "type", f"{_described(error['input'])} is not accepted: {expectation}.")


def _described(value: Any) -> str:
    if value is None:
        return "An empty value (null)"
    if isinstance(value, dict):
        return "A mapping"
    if isinstance(value, list):
        return "A list"
    return quoted(value) if isinstance(value, str) else str(value)[:63]


def _unknown_field(inside: Path, *, model: type[GrammarModel], path: Path) -> Fault:
    parent = model_at(inside[:-1], model)
    allowed = fields_of(parent) if parent else ()
    name = str(inside[-1])
    if parent is RootModel and name == "resources":
        hint = " It belongs under workflow."
    else:
        hint = did_you_mean(name, allowed)
    return Fault(path, "unknown_field", f"There is no field {quoted(name)} here.{hint}", allowed=allowed)


def fields_of(model: type[GrammarModel]) -> tuple[str, ...]:
    """The fields of a model as users write them."""
    return tuple(sorted(field.alias or name for name, field in model.model_fields.items()))


def _has_part(annotation: Any, kind: type) -> bool:
    return annotation is kind or any(_has_part(part, kind) for part in get_args(annotation))


def _fields_with(kind: type) -> frozenset[str]:
    models = (ResourceModel, FileModel, GroupModel, TaskModel, RecoveryModel, TopologyEntry, SegmentModel)
    return frozenset(
        name
        for model in models
        for name, field in model.model_fields.items()
        if _has_part(field.annotation, kind)
    )


FLAGS, NUMBERS = _fields_with(bool), _fields_with(int)
"""The fields that take a truth value, and those that take a number."""

_PLACES: Mapping[tuple[type[GrammarModel], str], type[GrammarModel]] = {
    (WorkflowModel, "timeout"): TimeoutModel,
    (WorkflowModel, "notify"): NotifyModel,
    (WorkflowModel, "recovery"): RecoveryModel,
    (GroupModel, "recovery"): RecoveryModel,
    (TaskModel, "recovery"): RecoveryModel,
    (RecoveryModel, "backoff"): BackoffModel,
    (TaskModel, "segment"): SegmentModel,
    (GroupModel, "segment"): SegmentModel,
    (TaskModel, "inputs"): InputModel,
    (TaskModel, "outputs"): OutputModel,
    (TaskModel, "kpis"): KpiModel,
    (TaskModel, "files"): FileModel,
    (TaskModel, "checkpoint"): CheckpointModel,
    (ResourceModel, "topology"): TopologyEntry,
    (GroupModel, "topology"): TopologyEntry,
    (WorkflowModel, "topology"): TopologyEntry,
}


def model_at(inside: Path, model: type[GrammarModel]) -> type[GrammarModel] | None:
    """The model that a path below ``model`` leads to; places in lists lead on, a scalar to None."""
    child: type[GrammarModel] | None = model
    for step in inside:
        if isinstance(step, str):
            child = _PLACES.get((child, step)) if child else None
    return child
