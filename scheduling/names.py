"""The name of every object that the service creates in a cluster.

All names are generated here, so a dry run shows them in their final form and a repeated create meets its own
object. Invariants: lower-case, at most 63 characters (most become label values or DNS labels), unique in the
cluster because they are derived from uuids, and the same whenever they are generated again. A user's text
never becomes part of a name: two users may write the same, in letters that Kubernetes refuses. Pools are the
exception, since OSMO's queues are named after them; see ``queue``.

KAI finds pod groups by name in all namespaces (observed in v0.13 and v0.17), so uuids are needed and
namespaces do not help.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from uuid import UUID

from scheduling.kubernetes_syntax import is_dns_label
from scheduling.topology.requirements import SetPath

MAX_NAME = 63

OWN_PREFIX = "osmo-"
"""Begins every generated name that is not a bare uuid; users may name no object by it."""

INSTALLATION_LABEL = "osmo.nvidia.com/installation"
"""Carries our installation's uuid; only objects with ours on them may be edited or removed."""

NAMESPACE_LABEL = "osmo.nvidia.com/namespace"
"""Of a Queue. Not OSMO's ``osmo.namespace``: an OSMO beside us deletes what it does not know with its own."""

POOL_LABEL = "osmo.pool"
GROUP_LABEL = "osmo.nvidia.com/task-group"
"""Carries the task group's uuid, on everything made for it."""

CHANNEL_CLAIM = "channel"
"""Name by which a pod knows its claim on the ComputeDomain."""

START_BARRIER = "osmo-start-barrier"
"""The container and the volume of a pod's start barrier."""

MAX_CREDENTIAL = 200
"""Characters of a credential's name: what a Secret's 253 leave beside the prefix, and some."""

USER_PREFIX = "user-"
"""Begins the name of every Secret that is one user's; no pool may share such a one."""

_as_json = json.JSONEncoder(separators=(",", ":")).encode  # ``json.dumps`` would make one for each call
_HASHED = re.compile(r".*-[0-9a-f]{10}")


def digest(*parts: object, length: int) -> str:
    """Hex digits for these parts; they are hashed as JSON, so ``a-b, c`` differs from ``a, b-c``."""
    return hashlib.sha256(_as_json(parts).encode()).hexdigest()[:length]


def pod_group(group: UUID) -> str:
    """A task group's KAI pod group: its uuid, as in OSMO."""
    return group.hex


def uneditable_pod_group(group: UUID, *, generation: int) -> str:
    """A pod group of a scheduler whose pod groups cannot be edited: a new name for each generation."""
    return f"{group.hex}-{generation}"


def compute_domain(group: UUID) -> str:
    return f"osmo-{group.hex}"


def claim_template(group: UUID) -> str:
    return f"osmo-{group.hex}-channel"


def headless_service(group: UUID) -> str:
    """The service that gives a group's pods their host names; also their subdomain."""
    return f"osmo-{group.hex}"


def secret(group: UUID, purpose: str) -> str:
    """A group's secret for one purpose: a short lower-case word, such as ``files``."""
    return f"osmo-{group.hex}-{purpose}"


def credential_prefix(installation: UUID, user: str) -> str:
    """Begins the names of the Secrets that tasks of this user may read, in every backend's namespace.

    The digest stands for one user of one installation, so no user can write the name of another's Secret.
    """
    return f"{USER_PREFIX}{digest('credential', installation.hex, user, length=20)}-"


def pod(task: UUID, *, retry: int) -> str:
    """A try of a task. Each retry has its own name, because the old pod may still be terminating."""
    return f"{task.hex}-{retry}"


def container(task: str) -> str:
    """The container of a task's command."""
    return task.lower().replace("_", "-")[:MAX_NAME].strip("-")


def hostname(task: UUID) -> str:
    """A task's host name, the same on every retry, so that peers find the new pod under the old name."""
    return task.hex


def topology(installation: UUID, labels: Sequence[str]) -> str:
    """A Topology object, by its content: never edited, shared by all pools with these levels."""
    return f"osmo-topology-{digest(installation.hex, list(labels), length=32)}"


def flavor(installation: UUID, node_labels: Mapping[str, str], *, topology: str) -> str:
    """A ResourceFlavor, by its content: never edited, shared by all pools with these nodes and levels."""
    return f"osmo-flavor-{digest(installation.hex, sorted(node_labels.items()), topology, length=32)}"


QUEUE_PREFIX = "osmo-topology"
"""What names of queues and PriorityClasses begin with; OSMO's own begin with ``osmo`` in the same cluster."""


def priority_class(priority: str, *, prefix: str = QUEUE_PREFIX) -> str:
    """The PriorityClass of OSMO's HIGH, NORMAL or LOW."""
    return f"{prefix}-{priority.lower()}"


def parent_queue(namespace: str, *, prefix: str = QUEUE_PREFIX) -> str:
    """The queue above all pool queues of one backend."""
    return _fitting(f"{prefix}-default-", namespace)


def queue(namespace: str, pool: str, *, prefix: str = QUEUE_PREFIX) -> str:
    """A pool's queue: ``<prefix>-pool-<namespace>-<pool>``, as OSMO names them, if that is unambiguous.

    A pool's name may have capitals, ``_`` and ``.``, and ``a`` + ``b-c`` gives the same text as ``a-b`` +
    ``c``: such names end in a hash of both parts. A plain name that ends like a hash is hashed too, so the
    two kinds cannot collide.
    """
    plain = f"{prefix}-pool-{namespace}-{pool}"
    if "-" not in namespace and is_dns_label(pool) and not _HASHED.fullmatch(pool) and len(plain) <= MAX_NAME:
        return plain
    return _hashed(plain, digest("queue", namespace, pool, length=10))


def own_queue(
    namespace: str, pool: str, *, flavor: str, resources: Sequence[str], prefix: str = QUEUE_PREFIX
) -> str:
    """A pool's LocalQueue and ClusterQueue; other nodes, levels or resources have queues of another name."""
    mark = digest("own queue", namespace, pool, flavor, list(resources), length=10)
    return _hashed(f"{prefix}-pool-{namespace}-{pool}", mark)


def _fitting(prefix: str, suffix: str) -> str:
    name = prefix + suffix
    return name if len(name) <= MAX_NAME else _hashed(name, digest(suffix, length=10))


def _hashed(name: str, mark: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[: MAX_NAME - len(mark) - 1].strip("-")
    return f"{slug}-{mark}"


def subgroup(place: int, siblings: int, path: SetPath, *, kind: str = "") -> str:
    """A subgroup: its zero-padded place among its siblings, then a hash of its path.

    Schedulers place siblings in order of name, so the place comes first. ``kind`` tells a set's generated
    leaves (``free``, ``all``) from the set itself. No subgroup is ever called ``default``, the name that KAI
    uses for pods without a label.
    """
    width = max(2, len(str(siblings - 1)))
    name = f"{place:0{width}d}-{digest(path, length=16)}"
    return f"{name}-{kind}" if kind else name
