"""The shape of a pool and its platforms."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from pools.documents.reading import Document, FlagOrAuto, Line, Text
from pools.documents.recovery import RecoveryDocument
from pools.models import Platform, Pool, TopologyKey
from scheduling.levels import Level, Levels

READ_ONLY = frozenset(
    {
        "capabilities",
        "conditions",
        "last_heartbeat",
        "name",
        "parsed_group_templates",
        "parsed_pod_template",
        "parsed_pod_template_for_accounting",
        "parsed_resource_validations",
        "revision",
        "status",
        "warnings",
    }
)
"""What a GET of a pool shows and a write ignores (``name`` must be the pool's own)."""


def _not_carried_out(value: Any) -> Any:
    if value:
        message = f"This is not carried out here ({', '.join(map(str, value))[:200]}): leave it empty"
        raise PydanticCustomError("not_carried", "{message}", {"message": message})
    return value


NoTemplates = Annotated[
    list[str],
    AfterValidator(_not_carried_out),
    Field(description="Group templates and resource validations are not carried out; must be empty."),
]
TemplateNames = Annotated[list[Line], Field(max_length=16)]
Variables = Annotated[dict[Line, Line | int | float], Field(max_length=16)]
Mount = Annotated[Line, Field(max_length=512)]
Mounts = Annotated[list[Mount], Field(max_length=64)]
Selector = Annotated[dict[Line, Line], Field(max_length=64)]

Most = Annotated[int, Field(ge=1, le=1_000_000)]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1, le=1e9)]


class TopologyKeyDocument(Document):
    """One level: ``key`` is the user's word, ``label`` the node label behind it.

    Rows, replies, the export and the admin's editor take a key's attributes from here.
    """

    key: Line
    label: Line


class TolerationDocument(Document):
    """A toleration as Kubernetes writes it."""

    key: Line = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: Line = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    tolerationSeconds: Annotated[int, Field(ge=0, le=2**31)] | None = None  # noqa: N815 -- Kubernetes' name


Tolerations = Annotated[list[TolerationDocument], Field(max_length=64)]


class GpuDocument(Document):
    """GPUs of a pool: guaranteed, at most, and its share of free ones. -1 is unlimited."""

    guarantee: Number = -1
    maximum: Number = -1
    weight: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e9)] = 1


class ResourcesDocument(Document):
    gpu: GpuDocument | None = None


class PlatformDocument(Document):
    """A kind of hardware inside a pool."""

    description: Text = ""
    node_selector: Selector = {}
    tolerations: Tolerations = []
    nvlink: FlagOrAuto = None
    host_network_allowed: bool = False
    privileged_allowed: bool = False
    allowed_mounts: Mounts = []
    default_mounts: Mounts = []
    override_pod_template: TemplateNames = []
    default_variables: Variables = {}
    resource_validations: NoTemplates = []


class PoolDocument(Document):
    """The whole configuration of a pool."""

    description: Text = ""
    backend: Line
    nvlink: bool = False
    compute_domains: Literal["every_group", "claiming_groups"] = "every_group"
    topology_keys: Annotated[list[TopologyKeyDocument], Field(max_length=64)] = []
    enable_maintenance: bool = False
    default_platform: Line = ""
    platforms: Annotated[dict[Line, PlatformDocument], Field(max_length=100)] = {}
    node_selector: Selector = {}
    tolerations: Tolerations = []
    split_gangs: Literal["refuse", "warn"] = "refuse"
    unsupported_preferred: Literal["refuse", "warn"] = "refuse"
    infeasible: Literal["accept", "warn", "refuse"] = "warn"
    free_preferences_after: Annotated[int, Field(ge=0, le=31_536_000)] = 60
    node_lost_after: Annotated[int, Field(ge=0, le=31_536_000)] = 300
    force_lost_pods: bool = False
    avoid_suspect_nodes: bool = False
    topology_source: Literal["managed", "external"] = "managed"
    topology_name: Line = ""
    local_queue: Line = ""
    shared_credentials: Annotated[list[Line], Field(max_length=64)] = []
    common_pod_template: TemplateNames = []
    common_default_variables: Variables = {}
    download_type: Literal["download"] | None = None
    default_exec_timeout: Line = ""
    default_queue_timeout: Line = ""
    max_exec_timeout: Line = ""
    max_queue_timeout: Line = ""
    default_exit_actions: Annotated[dict[Line, Line], Field(max_length=16)] = {}
    recovery: RecoveryDocument = RecoveryDocument()
    max_recoveries: Annotated[int, Field(ge=0, le=1000)] = 10
    max_grace_period_seconds: Annotated[int, Field(ge=1, le=86_400)] = 600
    resources: ResourcesDocument = ResourcesDocument()
    max_num_workflows: Most | None = None
    max_num_tasks: Most | None = None
    max_num_workflows_per_user: Most | None = None
    max_num_tasks_per_user: Most | None = None
    ended_workflow_days: Annotated[int, Field(ge=0, le=36_500)] | None = None
    common_resource_validations: NoTemplates = []
    common_group_templates: NoTemplates = []

    @property
    def levels(self) -> Levels:
        return tuple(Level(entry.key, entry.label) for entry in self.topology_keys)


KEY_FIELDS = tuple(TopologyKeyDocument.model_fields)
"""Attributes of a topology key: columns of the same name, in the order in which people see them."""

COLUMNS = tuple(
    name
    for name in PoolDocument.model_fields
    if name
    not in {
        "backend",
        "tolerations",
        "recovery",
        "resources",
        "topology_keys",
        "platforms",
        "common_resource_validations",
        "common_group_templates",
    }
)
"""Fields of a pool that are columns of the same name and meaning."""

PLATFORM_COLUMNS = tuple(
    name for name in PlatformDocument.model_fields if name not in {"tolerations", "resource_validations"}
)


def tolerations(entries: list[TolerationDocument]) -> list[dict[str, Any]]:
    """Tolerations as in a pod's spec, without fields that were left out."""
    return [entry.model_dump(exclude_defaults=True) | {"operator": entry.operator} for entry in entries]


def write(document: PoolDocument, pool: Pool) -> None:
    """Put a document's fields into a row, except its backend and its lists of rows."""
    for name in COLUMNS:
        setattr(pool, name, getattr(document, name))
    pool.tolerations = tolerations(document.tolerations)
    pool.resources = document.resources.model_dump()
    pool.recovery = document.recovery.model_dump(exclude_none=True)  # an older release knows fewer words


def platform_rows(document: PoolDocument, pool: Pool) -> list[Platform]:
    """The rows of a document's platforms, unsaved."""
    return [
        Platform(
            pool=pool,
            name=name,
            tolerations=tolerations(platform.tolerations),
            **{column: getattr(platform, column) for column in PLATFORM_COLUMNS},
        )
        for name, platform in document.platforms.items()
    ]


def key_rows(document: PoolDocument, pool: Pool) -> list[TopologyKey]:
    """The rows of a document's topology keys, unsaved."""
    return [
        TopologyKey(pool=pool, position=position, **entry.model_dump())
        for position, entry in enumerate(document.topology_keys)
    ]


def key_documents(pool: Pool) -> list[dict[str, Any]]:
    """The documents of a saved pool's topology keys, broadest first."""
    return [{name: getattr(row, name) for name in KEY_FIELDS} for row in pool.topology_keys.all()]


def document_of(pool: Pool) -> dict[str, Any]:
    """The document of a saved pool; reads ``backend``, ``platforms`` and ``topology_keys``."""
    return _assembled(pool, key_documents(pool), pool.platforms.all())


def content_of(document: PoolDocument, pool: Pool) -> dict[str, Any]:
    """The document of a pool that ``write`` has filled and whose lists of rows are not written yet."""
    keys = [entry.model_dump() for entry in document.topology_keys]
    return _assembled(pool, keys, platform_rows(document, pool))


def _assembled(pool: Pool, keys: list[dict[str, Any]], platforms: Iterable[Platform]) -> dict[str, Any]:
    return {
        **{name: getattr(pool, name) for name in COLUMNS},
        "backend": pool.backend.name,
        "tolerations": pool.tolerations,
        "resources": {"gpu": None, **pool.resources},
        "recovery": RecoveryDocument.model_validate(pool.recovery).model_dump(),
        "topology_keys": keys,
        "platforms": {row.name: _platform(row) for row in platforms},
        "common_resource_validations": [],
        "common_group_templates": [],
    }


def _platform(row: Platform) -> dict[str, Any]:
    return {
        **{column: getattr(row, column) for column in PLATFORM_COLUMNS},
        "tolerations": row.tolerations,
        "resource_validations": [],
    }
