"""The names of nodes and their host names (label ``kubernetes.io/hostname``), which need not be the same."""

from collections.abc import Sequence

from pools.models import Node
from scheduling.topology.levels import HOSTNAME_LABEL


def host_names(nodes: Sequence[str], *, cluster: str) -> list[str]:
    """The host names of these nodes, in their order; the own name of one that is not known or has none."""
    if not nodes:
        return []
    rows = Node.objects.filter(cluster_id=cluster, name__in=nodes).values_list("name", "labels")
    hosts = {name: labels.get(HOSTNAME_LABEL) or name for name, labels in rows}
    return [hosts.get(node, node) for node in nodes]
