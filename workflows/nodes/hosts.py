"""The names of nodes and their host names (label ``kubernetes.io/hostname``), which need not be the same."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pools.models import Node
from scheduling.kubernetes_syntax import selects
from scheduling.topology.levels import HOSTNAME_LABEL

NO_LABELS: Mapping[str, str] = MappingProxyType({})


def host_names(nodes: Sequence[str], *, cluster: str) -> list[str]:
    """The host names of these nodes, in their order; the own name of one that is not known or has none."""
    hosts = hosts_of(nodes, cluster=cluster) if nodes else {}
    return [hosts.get(node, node) for node in nodes]


def hosts_of(
    nodes: Sequence[str], *, cluster: str, selector: Mapping[str, str] = NO_LABELS
) -> dict[str, str]:
    """The host names of those of these nodes that are known and match the selector, by their names."""
    rows = Node.objects.filter(cluster_id=cluster, name__in=nodes).values_list("name", "labels")
    return {name: labels.get(HOSTNAME_LABEL) or name for name, labels in rows if selects(selector, labels)}
