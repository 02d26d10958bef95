"""What the demo must know of the drawn cluster: labels, racks and which pool is under which scheduler."""

from localcluster import nodes, scenario

LABELS = {
    "zone": scenario.ZONE,
    "spine": scenario.SPINE,
    "rack": scenario.RACK,
    "clique": scenario.CLIQUE,
}


def keys_of(pool: str) -> list[str]:
    """The pool's topology keys, broadest first."""
    return list(scenario.PLACES[pool].keys)


def backend_of(pool: str) -> str:
    return scenario.PLACES[pool].backend


def namespace_of(pool: str) -> str:
    return scenario.namespace(backend_of(pool))


def first_nodes(pool: str) -> list[str]:
    """The first node of each of the pool's racks."""
    place = scenario.PLACES[pool]
    return [place.names(rack)[0] for rack in place.racks]


def all_nodes(pool: str) -> list[str]:
    """The names of the pool's nodes."""
    return [node.name for node in scenario.PLACES[pool].machines({})]


def spare_node(pool: str, rack: str) -> nodes.Node:
    """One more node for a rack, as the others of it."""
    labels = {scenario.POOL_LABEL: pool, **scenario.PLACES[pool].racks[rack]}
    return nodes.Node(name=f"{rack}-{scenario.NODES_PER_RACK}", labels=labels, gpus=scenario.GPUS)


def domain_counts(pool: str) -> dict[str, int]:
    """How many domains each key of the pool has: a domain is a path of label values."""
    place = scenario.PLACES[pool]
    labels = list(place.keys.values())
    return {
        key: len({tuple(rack[label] for label in labels[: depth + 1]) for rack in place.racks.values()})
        for depth, key in enumerate(place.keys)
    }


def drawing() -> str:
    """The cluster as text: pool by pool, each rack with its labels and nodes."""
    lines: list[str] = []
    for name, place in scenario.PLACES.items():
        link = "NVLink" if place.nvlink else "no NVLink"
        lines.append(f"pool {name}: {link}, scheduler {scenario.BACKENDS[place.backend]}")
        for rack, labels in place.racks.items():
            where = " / ".join(f"{key} {labels[label]}" for key, label in place.keys.items())
            lines.append(f"    {where:32} " + " ".join(f"[{name}]" for name in place.names(rack)))
    return "\n".join(lines)
