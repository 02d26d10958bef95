"""What is asked, and its meaning on a pool: every name is looked up, all faults are found at once."""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from pools.models import Backend, Node, Pool
from pools.pod_templates.applied import node_selection
from pools.selectors import Caller, backend_visible_to, pool_levels, pool_visible_to
from scheduling.errors import Fault, Forbidden, NotFound, Path, in_order
from scheduling.fit.edits import Edits, in_domain
from scheduling.fit.snapshot import FitNode, Snapshot
from scheduling.levels import HOSTNAME_LABEL, Levels, check_levels
from web.policy import Action
from workflows.feasibility.nodes import fit_node

MOST_ADDED = 20_000
_SHOWN = 20
_AMOUNT = re.compile(r"\d{1,15}(\.\d{1,3})?(m|k|Ki|M|Mi|G|Gi|T|Ti)?", re.ASCII)

Found = TypeVar("Found", Pool, Backend)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNodes:
    """``count`` nodes with the labels, taints and amounts of node ``like``, and over them what is said."""

    count: int
    like: str = ""
    labels: Mapping[str, str]
    allocatable: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """``drain`` are domains by key; ``topology_keys`` None: as they are; ``without`` names what ends."""

    drain: tuple[Mapping[str, str], ...] = ()
    drain_nodes: tuple[str, ...] = ()
    add_nodes: tuple[NewNodes, ...] = ()
    topology_keys: Levels | None = None
    backend: str = ""
    move_to: str = ""
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the groups would be: the pool whose nodes and platforms they get, its backend, its keys.

    ``anew`` says that what is frozen of them no longer holds; ``moved`` that it is not their own pool.
    """

    pool: Pool
    backend: Backend
    levels: Levels
    anew: bool
    moved: bool

    @property
    def elsewhere(self) -> bool:
        """Whether its nodes are read anew."""
        return self.moved or self.backend.pk != self.pool.backend_id


def target_of(pool: Pool, asked: Asked, *, user: Caller) -> tuple[Target, list[Fault]]:
    """Whose nodes and keys; the pool came with its keys and platforms."""
    faults: list[Fault] = []
    if asked.backend and asked.move_to:
        said = "The pool moves to another backend, or its groups to another pool; say one."
        faults.append(Fault(("move_to",), "one_of", said))
    home, backend = pool, pool.backend
    if asked.move_to:
        home = _seen(("move_to",), lambda: _pool(asked.move_to, user), faults) or pool
        backend = home.backend
    elif asked.backend:
        backend = _seen(("backend",), lambda: backend_visible_to(user, asked.backend), faults) or backend
    levels = pool_levels(home)
    if asked.topology_keys is not None:
        faults += check_levels(asked.topology_keys, path=("topology_keys",))
        levels = asked.topology_keys
    anew = asked.topology_keys is not None or bool(asked.backend or asked.move_to)
    return Target(pool=home, backend=backend, levels=levels, anew=anew, moved=home.pk != pool.pk), faults


def _pool(name: str, user: Caller) -> Pool:
    return pool_visible_to(user, name, action=Action.CONFIG_READ)


def _seen(path: Path, find: Callable[[], Found], faults: list[Fault]) -> Found | None:
    try:
        return find()
    except (NotFound, Forbidden) as error:
        faults.append(Fault(path, "unknown", error.message))
        return None


def edits_of(
    asked: Asked, snapshot: Snapshot, target: Target, *, workflows: Container[str]
) -> tuple[Edits, list[Fault]]:
    """What is asked of the nodes, in terms of the target's; ``workflows`` are those that may be named."""
    faults: list[Fault] = []
    keys = {level.key: level.label for level in pool_levels(target.pool)}
    domains = tuple(_domains(asked, snapshot, keys, faults))
    known = {node.name for node in snapshot.nodes}
    for place, name in enumerate(asked.drain_nodes):
        if name not in known:
            said = f"No node {name[:80]!a} of the pool is known."
            faults.append(Fault(("drain_nodes", place), "unknown_node", said))
    if sum(new.count for new in asked.add_nodes) > MOST_ADDED:
        said = f"At most {MOST_ADDED} nodes are added at once."
        faults.append(Fault(("add_nodes",), "too_many", said))
        asked = replace(asked, add_nodes=())
    added = tuple(
        node for place, new in enumerate(asked.add_nodes) for node in _new(place, new, target, faults)
    )
    for place, name in enumerate(asked.without):
        if name not in workflows:
            said = f"No workflow {name[:80]!a} waits in the pool or holds a node of it."
            faults.append(Fault(("without", place), "unknown_workflow", said))
    edits = Edits(
        domains=domains, nodes=frozenset(asked.drain_nodes), added=added, ended=frozenset(asked.without)
    )
    return edits, in_order(faults)


def _domains(
    asked: Asked, snapshot: Snapshot, keys: Mapping[str, str], faults: list[Fault]
) -> Iterable[dict[str, str]]:
    for place, domain in enumerate(asked.drain):
        unknown = sorted(domain.keys() - keys.keys())
        if unknown or not domain:
            said = (
                f"The pool has no key {unknown[0][:63]!a}." if unknown else "A domain names at least one key."
            )
            faults.append(Fault(("drain", place), "unknown_key", said, allowed=tuple(keys)))
            continue
        values = {keys[key]: value for key, value in domain.items()}
        if any(in_domain(node, values) for node in snapshot.nodes):
            yield values
            continue
        narrowest = [label for label in keys.values() if label in values][-1]
        there = sorted({node.labels[narrowest] for node in snapshot.nodes if narrowest in node.labels})
        said = "No known node of the pool stands in this domain."
        faults.append(Fault(("drain", place), "unknown_domain", said, allowed=tuple(there[:_SHOWN])))


def _new(place: int, new: NewNodes, target: Target, faults: list[Fault]) -> list[FitNode]:
    """The nodes that one entry adds; each is one of the target pool's."""
    path: Path = ("add_nodes", place)
    before = len(faults)
    row = None
    if new.like:
        row = Node.objects.filter(cluster_id=target.backend.cluster_id, name=new.like).first()
        if row is None:
            faults.append(Fault((*path, "like"), "unknown_node", f"No node {new.like[:80]!a} is known."))
    elif not new.allocatable:
        faults.append(
            Fault((*path, "allocatable"), "required", "Say what such a node has, or which it is like.")
        )
    for name, amount in new.allocatable.items():
        if not _AMOUNT.fullmatch(amount):
            said = f"{amount[:30]!a} is no amount as Kubernetes writes it."
            faults.append(
                Fault((*path, "allocatable", name), "invalid_amount", said, allowed=("8", "64", "512Gi"))
            )
    own = node_selection(target.pool)
    labels = {**own, **(row.labels if row else {}), **new.labels}
    if wrong := sorted(key for key, value in own.items() if labels[key] != value):
        said = f"The node would not be one of the pool's, whose nodes carry {wrong[0]}={own[wrong[0]]}."
        faults.append(Fault((*path, "labels"), "not_in_pool", said))
    if len(faults) > before:
        return []
    written = {**(row.allocatable if row else {}), **new.allocatable}
    taints = row.taints if row else []
    names = [f"added-{place + 1}-{number + 1:05}" for number in range(new.count)]
    return [fit_node(name, {**labels, HOSTNAME_LABEL: name}, written, taints) for name in names]
