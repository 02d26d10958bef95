"""A what-if scenario and its meaning on a pool: looks up every name and reports all faults at once."""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from pools.models import Backend, Node, Pool
from pools.pod_templates.applied import node_selection
from pools.selectors import Caller, backend_visible_to, pool_levels, pool_visible_to
from scheduling.backends.registry import device_rule
from scheduling.errors import Fault, Forbidden, NotFound, Path, in_order
from scheduling.fit.edits import Edits, in_domain
from scheduling.fit.snapshot import FitNode, Snapshot
from scheduling.kubernetes_syntax import GPU
from scheduling.nodes.devices import NO_DEVICES, NodeDevices
from scheduling.topology.levels import HOSTNAME_LABEL, Levels, check_levels
from web.policy import Action
from workflows.feasibility.capacity.known_nodes import as_given, fit_node

MOST_ADDED = 20_000
_MOST_ALLOWED = 20
"""Values that a fault lists as allowed."""
_AMOUNT = re.compile(r"\d{1,15}(\.\d{1,3})?(m|k|Ki|M|Mi|G|Gi|T|Ti)?", re.ASCII)

Row = TypeVar("Row", Pool, Backend)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNodes:
    """``count`` nodes with the labels, taints and amounts of node ``like``; the fields here override them."""

    count: int
    like: str = ""
    labels: Mapping[str, str]
    allocatable: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """``drain`` are domains by key; ``topology_keys`` None: unchanged; ``without``: workflows that end."""

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

    ``resubmits``: the groups' frozen values no longer hold. ``moved``: it is not their own pool.
    """

    pool: Pool
    backend: Backend
    levels: Levels
    resubmits: bool
    moved: bool

    @property
    def elsewhere(self) -> bool:
        """Whether its nodes must be read separately."""
        return self.moved or self.backend.pk != self.pool.backend_id


def target_of(pool: Pool, scenario: Scenario, *, user: Caller) -> tuple[Target, list[Fault]]:
    """Resolve the pool, backend and keys of a scenario; the pool came with its keys and platforms."""
    faults: list[Fault] = []
    if scenario.backend and scenario.move_to:
        message = "Name either another backend for the pool or another pool for its groups, not both."
        faults.append(Fault(("move_to",), "one_of", message))
    home, backend = pool, pool.backend
    if scenario.move_to:
        home = _lookup(("move_to",), lambda: _pool(scenario.move_to, user), faults) or pool
        backend = home.backend
    elif scenario.backend:
        backend = _lookup(("backend",), lambda: backend_visible_to(user, scenario.backend), faults) or backend
    levels = pool_levels(home)
    if scenario.topology_keys is not None:
        faults += check_levels(scenario.topology_keys, path=("topology_keys",))
        levels = scenario.topology_keys
    resubmits = scenario.topology_keys is not None or bool(scenario.backend or scenario.move_to)
    return Target(
        pool=home, backend=backend, levels=levels, resubmits=resubmits, moved=home.pk != pool.pk
    ), faults


def _pool(name: str, user: Caller) -> Pool:
    return pool_visible_to(user, name, action=Action.CONFIG_READ)


def _lookup(path: Path, find: Callable[[], Row], faults: list[Fault]) -> Row | None:
    try:
        return find()
    except (NotFound, Forbidden) as error:
        faults.append(Fault(path, "unknown", error.message))
        return None


def edits_of(
    scenario: Scenario, snapshot: Snapshot, target: Target, *, workflows: Container[str]
) -> tuple[Edits, list[Fault]]:
    """The edits of a scenario on the target's nodes; ``workflows`` are those that may be named."""
    faults: list[Fault] = []
    keys = {level.key: level.label for level in pool_levels(target.pool)}
    domains = tuple(_domains(scenario, snapshot, keys, faults))
    node_names = {node.name for node in snapshot.nodes}
    for place, name in enumerate(scenario.drain_nodes):
        if name not in node_names:
            message = f"No node {name[:80]!a} of the pool is known."
            faults.append(Fault(("drain_nodes", place), "unknown_node", message))
    if sum(new.count for new in scenario.add_nodes) > MOST_ADDED:
        message = f"A scenario adds at most {MOST_ADDED} nodes."
        faults.append(Fault(("add_nodes",), "too_many", message))
        scenario = replace(scenario, add_nodes=())
    added = tuple(
        node for place, new in enumerate(scenario.add_nodes) for node in _new(place, new, target, faults)
    )
    for place, name in enumerate(scenario.without):
        if name not in workflows:
            message = f"No workflow {name[:80]!a} waits in the pool or has pods on its nodes."
            faults.append(Fault(("without", place), "unknown_workflow", message))
    edits = Edits(
        domains=domains, nodes=frozenset(scenario.drain_nodes), added=added, ended=frozenset(scenario.without)
    )
    return edits, in_order(faults)


def _domains(
    scenario: Scenario, snapshot: Snapshot, keys: Mapping[str, str], faults: list[Fault]
) -> Iterable[dict[str, str]]:
    for place, domain in enumerate(scenario.drain):
        unknown = sorted(domain.keys() - keys.keys())
        if unknown or not domain:
            message = (
                f"The pool has no key {unknown[0][:63]!a}." if unknown else "A domain names at least one key."
            )
            faults.append(Fault(("drain", place), "unknown_key", message, allowed=tuple(keys)))
            continue
        values = {keys[key]: value for key, value in domain.items()}
        if any(in_domain(node, values) for node in snapshot.nodes):
            yield values
            continue
        narrowest = [label for label in keys.values() if label in values][-1]
        values_known = sorted({node.labels[narrowest] for node in snapshot.nodes if narrowest in node.labels})
        message = "No known node of the pool is in this domain."
        faults.append(
            Fault(("drain", place), "unknown_domain", message, allowed=tuple(values_known[:_MOST_ALLOWED]))
        )


def _new(place: int, new: NewNodes, target: Target, faults: list[Fault]) -> list[FitNode]:
    """The nodes that one entry adds, all in the target pool."""
    path: Path = ("add_nodes", place)
    before = len(faults)
    row = None
    if new.like:
        row = Node.objects.filter(cluster_id=target.backend.cluster_id, name=new.like).first()
        if row is None:
            faults.append(Fault((*path, "like"), "unknown_node", f"No node {new.like[:80]!a} is known."))
    elif not new.allocatable:
        faults.append(
            Fault(
                (*path, "allocatable"),
                "required",
                "State what such a node has, or name a node that it is like.",
            )
        )
    for name, amount in new.allocatable.items():
        if not _AMOUNT.fullmatch(amount):
            message = f"{amount[:30]!a} is not an amount in Kubernetes' notation."
            faults.append(
                Fault((*path, "allocatable", name), "invalid_amount", message, allowed=("8", "64", "512Gi"))
            )
    own = node_selection(target.pool)
    labels = {**own, **(row.labels if row else {}), **new.labels}
    if wrong := sorted(key for key, value in own.items() if labels[key] != value):
        message = f"The node would not belong to the pool, whose nodes carry {wrong[0]}={own[wrong[0]]}."
        faults.append(Fault((*path, "labels"), "not_in_pool", message))
    if len(faults) > before:
        return []
    written = {**(row.allocatable if row else {}), **new.allocatable}
    taints = row.taints if row else []
    devices = NodeDevices.from_json(row.devices) if row and GPU not in new.allocatable else NO_DEVICES
    rule = device_rule(target.backend.scheduler_type, problem="")
    names = [f"added-{place + 1}-{number + 1:05}" for number in range(new.count)]
    nodes = (fit_node(name, {**labels, HOSTNAME_LABEL: name}, written, taints, devices) for name in names)
    return [as_given(node, rule) for node in nodes]
