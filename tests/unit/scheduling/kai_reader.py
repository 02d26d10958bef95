"""Reads pod groups as KAI does, written from what was seen of running KAI and not from our renderer.

``read`` refuses whatever KAI would leave pending for ever. ``Group.in_order`` is the order in which a
version places siblings. ``place`` plays the placement itself on nodes that hold one pod each: siblings
one after the other, domains from the preferred level up to the required one, fullest first, a placed
sibling never moved, a node without a label of a Topology invisible to constraints on it, and the fault of
a required level without a preferred one.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

V013, V017 = (0, 13), (0, 17)


class NeverPlaced(Exception):
    """KAI would leave this pod group, or a pod of it, pending for ever."""


@dataclass
class Constraint:
    topology: list[str]
    required: str | None
    preferred: str | None

    def rank(self, label: str) -> int:
        return self.topology.index(label)


@dataclass
class Group:
    name: str
    constraint: Constraint | None
    minimum: int | None = None
    groups: list["Group"] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)

    def walk(self) -> Iterator["Group"]:
        yield self
        for group in self.groups:
            yield from group.walk()

    def leaves(self) -> list["Group"]:
        return [group for group in self.walk() if not group.groups]

    def all_pods(self) -> list[str]:
        return [pod for group in self.walk() for pod in group.pods]

    def in_order(self, version) -> list["Group"]:
        if version < (0, 15):
            return sorted(self.groups, key=lambda g: (not g.groups, g.name))
        return sorted(self.groups, key=lambda g: g.name)


def read(pod_group: Mapping, pods: Mapping, topologies: Sequence[Mapping]) -> Group:
    """The gang as KAI sees it; ``pods`` gives labels and annotations by pod."""
    known = {t["metadata"]["name"]: [lv["nodeLabel"] for lv in t["spec"]["levels"]] for t in topologies}
    spec = pod_group["spec"]
    root = Group("", _constraint(spec.get("topologyConstraint"), known))
    entries = spec.get("subGroups", [])
    if entries and "minMember" in spec:
        raise NeverPlaced("minMember beside subGroups is refused from v0.15 on")
    groups = {
        entry["name"]: Group(entry["name"], _constraint(entry.get("topologyConstraint"), known))
        for entry in entries
    }
    if len(groups) != len(entries):
        raise NeverPlaced("duplicate subgroup")
    for entry in entries:
        above = root
        if "parent" in entry:
            if entry["parent"].lower() not in groups:  # parents are looked up in lower case, names are not
                raise NeverPlaced(f"parent {entry['parent']} is not found")
            above = groups[entry["parent"].lower()]
        above.groups.append(groups[entry["name"]])
    _minimums(root, entries, spec)
    _attach(root, groups, pod_group["metadata"]["name"], pods)
    _check_nesting(root, None)
    return root


def _minimums(root: Group, entries: Sequence[Mapping], spec: Mapping) -> None:
    given = {entry["name"]: entry.get("minMember") for entry in entries}
    for group in root.walk():
        minimum = spec.get("minMember") if group is root else given[group.name]
        if group.groups and minimum is not None:
            raise NeverPlaced(f"inner subgroup {group.name} has minMember, refused from v0.15 on")
        if not group.groups:
            if minimum is None:
                raise NeverPlaced(f"leaf {group.name} lacks minMember, refused from v0.15 on")
            group.minimum = max(minimum, 1)


def _attach(root: Group, groups: Mapping[str, Group], name: str, pods: Mapping) -> None:
    for pod, parts in pods.items():
        if parts.annotations.get("pod-group-name") != name:
            raise NeverPlaced(f"pod {pod} does not belong to the pod group")
        label = parts.labels.get("kai.scheduler/subgroup-name")
        if not groups:
            if label is not None:
                raise NeverPlaced(f"pod {pod} names a subgroup, and there are none")
            root.pods.append(pod)
            continue
        leaf = groups.get(label or "default")
        if leaf is None or leaf.groups:
            raise NeverPlaced(f"pod {pod} is dropped: no leaf {label}")
        leaf.pods.append(pod)


def _constraint(entry: Mapping | None, known: Mapping[str, list[str]]) -> Constraint | None:
    if not entry or not entry.get("topology"):
        return None
    if entry["topology"] not in known:
        raise NeverPlaced(f"Requested topology {entry['topology']} does not exist")
    labels = known[entry["topology"]]
    required, preferred = entry.get("requiredTopologyLevel"), entry.get("preferredTopologyLevel")
    if required is None and preferred is None:
        raise NeverPlaced("a topology and no level")
    for level in (required, preferred):
        if level is not None and level not in labels:
            raise NeverPlaced(f"level {level} is not in the Topology")
    if required and preferred and labels.index(required) > labels.index(preferred):
        raise NeverPlaced("required is finer than preferred")
    return Constraint(labels, required, preferred)


def _check_nesting(group: Group, above: Constraint | None) -> None:
    mine = group.constraint
    if mine and above:
        shorter, longer = sorted((mine.topology, above.topology), key=len)
        if longer[: len(shorter)] != shorter:
            raise NeverPlaced("constraints on unrelated Topologies")
    for child in group.groups:
        _check_nesting(child, mine or above)


# Placement ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    name: str
    labels: Mapping[str, str] = field(hash=False)
    free: bool = True


def draw(picture: str) -> list[Node]:
    """Nodes from a drawing: ``.`` is a free node, ``x`` a busy one, ``-`` a label the nodes lack.

    zone a
      rack r1  ....
      rack -   x.
    """
    nodes: list[Node] = []
    above: list[tuple[int, str, str]] = []
    for line in picture.splitlines():
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        key, value, *slots = line.split()
        above = [entry for entry in above if entry[0] < depth] + [(depth, key, value)]
        labels = {f"topology/{k}": v for _, k, v in above if v != "-"}
        nodes += [Node(f"n{len(nodes) + i:02}", labels, slot == ".") for i, slot in enumerate("".join(slots))]
    return nodes


def place(root: Group, nodes: Sequence[Node], version) -> dict[str, Node] | None:
    """Where each pod goes, or None if the gang stays pending."""
    return _place(root, list(nodes), frozenset(n for n in nodes if n.free), version)


def _place(group: Group, nodes: list[Node], free: frozenset[Node], version) -> dict[str, Node] | None:
    need = len(group.all_pods())
    for domain in _candidates(group.constraint, nodes, free, need):
        room = free.intersection(domain)
        placed: dict[str, Node] | None = dict(
            zip(group.pods, sorted(room, key=lambda n: n.name), strict=False)
        )
        if len(placed) < len(group.pods):
            continue
        room -= set(placed.values())
        for child in group.in_order(version):
            inside = _place(child, domain, room, version)
            if inside is None:
                placed = None
                break
            placed |= inside
            room -= set(inside.values())
        if placed is not None:
            return placed
    return None


def _candidates(constraint: Constraint | None, nodes: list[Node], free: frozenset[Node], need: int):
    if constraint is None:
        yield nodes
        return
    labels = constraint.topology
    visible = [n for n in nodes if all(label in n.labels for label in labels)]
    last = constraint.rank(constraint.required) if constraint.required else -1
    first = constraint.rank(constraint.preferred) if constraint.preferred else last
    if (
        constraint.preferred is None
        and len(_domains(visible, labels[: last + 2])) == 1
        and last + 1 < len(labels)
    ):
        return  # the shortcut fault: capacity is looked up at a domain narrower than the required one
    for rank in range(first, last - 1, -1):
        sized = []
        for path, members in _domains(visible, labels[: rank + 1]).items():
            room = len(free.intersection(members))
            if room >= need:
                sized.append((room, path, members))
        yield from (members for _, _, members in sorted(sized, key=lambda entry: entry[:2]))


def _domains(nodes: Sequence[Node], labels: Sequence[str]) -> dict[tuple[str, ...], list[Node]]:
    domains: dict[tuple[str, ...], list[Node]] = defaultdict(list)
    for node in nodes:
        domains[tuple(node.labels[label] for label in labels)].append(node)
    return domains
