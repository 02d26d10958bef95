"""The nodes that a workflow excludes by name, as a pool's cluster knows them.

Pods keep off a node by its label ``kubernetes.io/hostname``, which on several clouds is not the node's name.
A name that no node of the pool has is passed on as it is, with a warning: such a node may come.
"""

from collections.abc import Sequence
from dataclasses import replace

from pools.models import Pool
from pools.pod_templates.applied import node_selection
from scheduling.errors import Notice
from scheduling.sentences import agree, listing
from workflows.nodes.hosts import hosts_of
from workflows.spec.workflow_spec import Resource, WorkflowSpec

MOST_NAMED = 5


def by_host_names(spec: WorkflowSpec, pool: Pool) -> WorkflowSpec:
    """The workflow with the excluded nodes by their host names, and warnings of names without a node."""
    distinct = {id(task.resource): task.resource for group in spec.groups for task in group.tasks}
    resources = {resource.name: resource for resource in distinct.values()}
    names = {node for resource in resources.values() for node in resource.nodes_excluded}
    cluster = pool.backend.cluster_id
    if not names or not cluster:
        return spec
    hosts = hosts_of(sorted(names), cluster=cluster, selector=node_selection(pool))
    excluding = {
        key: replace(
            resource, nodes_excluded=tuple(hosts.get(node, node) for node in resource.nodes_excluded)
        )
        for key, resource in distinct.items()  # tasks of other segments have other ones of the same name
    }
    groups = tuple(
        replace(
            group,
            tasks=tuple(replace(task, resource=excluding[id(task.resource)]) for task in group.tasks),
        )
        for group in spec.groups
    )
    notices = (
        _unknown(resource, absent, pool.name)
        for resource in resources.values()
        if (absent := [node for node in resource.nodes_excluded if node not in hosts])
    )
    return replace(spec, groups=groups, warnings=(*spec.warnings, *notices))


def _unknown(resource: Resource, nodes: Sequence[str], pool: str) -> Notice:
    named = listing(nodes, limit=MOST_NAMED)
    effect = agree(len(nodes), "it excludes", "they exclude")
    message = f'No known node of pool "{pool}" is named {named}; {effect} none.'
    return Notice("no_such_node", message, (*resource.path, "nodesExcluded"))
