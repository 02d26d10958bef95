"""The shape of a pool and its platforms."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from pools.documents.default_topology import DefaultTopologyDocument, default_content
from pools.documents.reading import Document, DocumentText, FlagOrAuto, Line
from pools.documents.recovery import RecoveryDocument
from pools.models import Platform, Pool, TopologyKey
from pools.values.news_targets import KINDS, MOST_TARGETS, WAITS_AFTER, NewsKind
from scheduling.topology.levels import Level, Levels

READ_ONLY = frozenset(
    {
        "capabilities",
        "conditions",
        "last_heartbeat",
        "name",
        "notify_problems",
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


NoTemplates = Annotated[list[str], AfterValidator(_not_carried_out), Field(description="Must be empty.")]
TemplateNames = Annotated[list[Line], Field(max_length=16)]
Variables = Annotated[dict[Line, Line | int | float], Field(max_length=16)]
Mount = Annotated[Line, Field(max_length=512)]
Mounts = Annotated[list[Mount], Field(max_length=64)]
Selector = Annotated[dict[Line, Line], Field(max_length=64)]

Seconds = Annotated[int, Field(ge=0, le=31_536_000)]
Most = Annotated[int, Field(ge=1, le=1_000_000)]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1, le=1e9)]


class TopologyKeyDocument(Document):
    """One level: ``key`` is the user's word, ``label`` the node label behind it.

    Rows, replies, the export and the admin's editor take a key's attributes from here.
    """

    key: Line = Field(description="Name users write in a workflow, e.g. rack.")
    label: Line = Field(description="Node label that carries the domain's name.")


class TolerationDocument(Document):
    """A toleration as Kubernetes writes it."""

    key: Line = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: Line = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    tolerationSeconds: Annotated[int, Field(ge=0, le=2**31)] | None = None  # noqa: N815 -- Kubernetes' name


Tolerations = Annotated[list[TolerationDocument], Field(max_length=64)]


class NewsTargetDocument(Document):
    """Where news of the pool's workflows goes: either ``webhook`` or ``email``."""

    webhook: Line = Field("", description="An https address; http only where OSMO_NOTIFY_HOSTS lists it.")
    email: Line = ""
    kinds: Annotated[list[NewsKind], Field(min_length=1, max_length=len(KINDS))] = ["ended"]
    waits_after: Seconds = Field(WAITS_AFTER, description="Seconds of waiting after which waits is news.")
    secret: Line = Field("", description="The entry of OSMO_NOTIFY_SECRETS that signs the webhook.")


class GpuDocument(Document):
    """GPUs of a pool: guaranteed, at most, and its share of free ones. -1 is unlimited."""

    guarantee: Number = -1
    maximum: Number = -1
    weight: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e9)] = 1


class ResourcesDocument(Document):
    gpu: GpuDocument | None = None


class PlatformDocument(Document):
    """A kind of hardware inside a pool."""

    description: DocumentText = ""
    nvlink: FlagOrAuto = Field(
        None, description="Whether its hardware has multi-node NVLink. null: as the pool."
    )
    host_network_allowed: bool = False
    privileged_allowed: bool = False
    allowed_mounts: Mounts = []
    default_mounts: Mounts = []
    node_selector: Selector = Field({}, description="Adds to the pool's; may not contradict it.")
    tolerations: Tolerations = []
    default_variables: Variables = Field({}, description="Replace the pool's of the same name.")
    resource_validations: NoTemplates = []
    override_pod_template: TemplateNames = Field(
        [], description="Pod templates laid over the pool's, in this order."
    )
    default_topology: DefaultTopologyDocument | None = Field(
        None, description="For groups all of whose tasks with GPUs are on it; null: as the pool."
    )


class PoolDocument(Document):
    """The whole configuration of a pool. Each field is a field of the replies too (``pools.api.shapes``)."""

    description: DocumentText = ""
    download_type: Literal["download"] | None = Field(None, description="null or download.")
    enable_maintenance: bool = False
    backend: Line
    nvlink: bool = Field(False, description="Multi-node NVLink: each task group gets a ComputeDomain.")
    default_platform: Line = ""
    default_exec_timeout: Line = ""
    default_queue_timeout: Line = ""
    max_exec_timeout: Line = ""
    max_queue_timeout: Line = ""
    default_exit_actions: Annotated[dict[Line, Line], Field(max_length=16)] = {}
    recovery: RecoveryDocument = RecoveryDocument()
    max_recoveries: Annotated[int, Field(ge=0, le=1000)] = Field(
        10, description="The most that `recovery.max` of a workflow or task group may say."
    )
    max_grace_period_seconds: Annotated[int, Field(ge=1, le=86_400)] = Field(
        600, description="The most that a task's terminationGracePeriodSeconds may say."
    )
    resources: ResourcesDocument = ResourcesDocument()
    topology_keys: Annotated[list[TopologyKeyDocument], Field(max_length=64)] = []
    platforms: Annotated[dict[Line, PlatformDocument], Field(max_length=100)] = {}
    node_selector: Selector = Field({}, description="Empty: all nodes of the backend.")
    tolerations: Tolerations = []
    compute_domains: Literal["every_group", "claiming_groups"] = Field(
        "every_group",
        description="every_group or claiming_groups: "
        "which task groups of an NVLink pool get a ComputeDomain.",
    )
    unsupported_preferred: Literal["refuse", "warn"] = Field(
        "refuse",
        description="refuse or warn: what to do with a preference that its scheduler cannot hold.",
    )
    infeasible: Literal["accept", "warn", "refuse"] = Field(
        "warn",
        description="accept, warn or refuse: what to do with a task group that can never be placed.",
    )
    default_topology: DefaultTopologyDocument | None = Field(
        None, description="What groups of two or more tasks with GPUs get that name no key; null: nothing."
    )
    free_preferences_after: Seconds = Field(
        60,
        description="Seconds of waiting after which a preference gives way, "
        "if there is room now that it does not see; 0: never.",
    )
    node_lost_after: Seconds = Field(
        300,
        description="Seconds for which a node may be not ready or unreachable before it is lost; "
        "0: for ever.",
    )
    force_lost_pods: bool = Field(
        False, description="Whether pods of a lost node are deleted although nobody can confirm their end."
    )
    avoid_suspect_nodes: bool = Field(
        False,
        description="Whether new workflows avoid nodes on which groups of several users were lost lately.",
    )
    topology_source: Literal["managed", "external"] = Field(
        "managed", description="managed: this service makes the Topology objects; external: it uses one."
    )
    topology_name: Line = Field("", description="Name of the external Topology object.")
    local_queue: Line = Field(
        "", description="Kueue: the LocalQueue that its groups join; empty: the one of the pool's own name."
    )
    notify: Annotated[list[NewsTargetDocument], Field(max_length=MOST_TARGETS)] = Field(
        [], description="Targets of news of its workflows."
    )
    shared_credentials: Annotated[list[Line], Field(max_length=64)] = Field(
        [], description="Secrets of the backend's namespace that tasks of everybody in this pool may read."
    )
    allow_exec: bool = Field(
        False, description="Whether users may run commands in running tasks; a shell is one."
    )
    allow_port_forward: bool = Field(
        False, description="Whether users may forward ports of running tasks to their machines."
    )
    max_num_workflows: Most | None = Field(
        None, description="Most workflows that have not ended; null is no limit."
    )
    max_num_tasks: Most | None = Field(None, description="Most tasks that have not ended; null is no limit.")
    max_num_workflows_per_user: Most | None = Field(
        None, description="Most workflows that have not ended, of one user; null is no limit."
    )
    max_num_tasks_per_user: Most | None = Field(
        None, description="Most tasks that have not ended, of one user; null is no limit."
    )
    ended_workflow_days: Annotated[int, Field(ge=0, le=36_500)] | None = Field(
        None,
        description="Days for which its ended workflows are kept; "
        "0: for ever; null: as the installation is set.",
    )
    common_default_variables: Variables = Field(
        {}, description="Defaults of template variables, such as USER_CPU: 4."
    )
    common_resource_validations: NoTemplates = []
    common_pod_template: TemplateNames = Field(
        [], description="Pod templates laid over its pods, in this order."
    )
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
        "notify",
        "recovery",
        "resources",
        "default_topology",
        "topology_keys",
        "platforms",
        "common_resource_validations",
        "common_group_templates",
    }
)
"""Fields of a pool that are columns of the same name and meaning."""

PLATFORM_COLUMNS = tuple(
    name
    for name in PlatformDocument.model_fields
    if name not in {"tolerations", "resource_validations", "default_topology"}
)


def tolerations(entries: list[TolerationDocument]) -> list[dict[str, Any]]:
    """Tolerations as in a pod's spec, without fields that were left out."""
    return [entry.model_dump(exclude_defaults=True) | {"operator": entry.operator} for entry in entries]


def write(document: PoolDocument, pool: Pool) -> None:
    """Put a document's fields into a row, except its backend and its lists of rows."""
    for name in COLUMNS:
        setattr(pool, name, getattr(document, name))
    pool.tolerations = tolerations(document.tolerations)
    pool.notify = [target.model_dump() for target in document.notify]
    pool.resources = document.resources.model_dump()
    pool.default_topology = default_content(document.default_topology)
    pool.recovery = document.recovery.model_dump(exclude_none=True)


def platform_rows(document: PoolDocument, pool: Pool) -> list[Platform]:
    """The rows of a document's platforms, unsaved."""
    return [
        Platform(
            pool=pool,
            name=name,
            tolerations=tolerations(platform.tolerations),
            default_topology=default_content(platform.default_topology),
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
        "notify": pool.notify,
        "resources": {"gpu": None, **pool.resources},
        "recovery": RecoveryDocument.model_validate(pool.recovery).model_dump(),
        "default_topology": pool.default_topology,
        "topology_keys": keys,
        "platforms": {row.name: _platform(row) for row in platforms},
        "common_resource_validations": [],
        "common_group_templates": [],
    }


def _platform(row: Platform) -> dict[str, Any]:
    return {
        **{column: getattr(row, column) for column in PLATFORM_COLUMNS},
        "tolerations": row.tolerations,
        "default_topology": row.default_topology,
        "resource_validations": [],
    }
