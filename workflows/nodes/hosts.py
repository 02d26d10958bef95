"""The names of nodes and their host names (label ``kubernetes.io/hostname``), which need not be the same."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from django.db.models import Q

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
    """The host names of those of these nodes that are known and match the selector, by their names.

    A text that is the host name of a node counts as a name of that node, too.
    """
    either = Q(name__in=nodes) | Q(**{f"labels__{HOSTNAME_LABEL}__in": list(nodes)})
    rows = Node.objects.filter(either, cluster_id=cluster).values_list("name", "labels")
    hosts = {name: labels.get(HOSTNAME_LABEL) or name for name, labels in rows if selects(selector, labels)}
    return {host: host for host in hosts.values()} | hosts
