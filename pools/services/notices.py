"""Notices: what is accepted and the author should know, in the reply to a save and in the admin."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pools import conditions, selectors
from pools.clusters.capabilities import capabilities_of
from pools.interfaces import Unreleased, usage
from pools.models import Backend, Pool
from pools.pod_templates.applied import pod_kinds
from pools.pod_templates.notices import template_notices
from scheduling.capabilities import Capability, places_by_topology
from scheduling.errors import Notice, format_path
from scheduling.gang.checks import slices_alone
from scheduling.kubernetes_syntax import selects
from scheduling.nodes.taints import MOST_TAINTS, barring, passes_by_condition, taint_name
from scheduling.sentences import agree, count_of, plain_listing
from scheduling.topology.levels import Levels, check_look_alikes

OSMO_SCHEDULER_TIMEOUT = 30
"""Seconds; the default of OSMO's own service."""


def pool_notices(pool: Pool) -> list[Notice]:
    """Notices of a saved pool about its cluster and its templates. At most five queries."""
    notices = [*_of_backend(pool), *_of_source(pool), *_of_labels(pool), *_of_templates(pool)]
    notices += _of_taints(pool)
    notices += _of_preferences(pool)
    if pool.download_type is not None:
        notices.append(_not_carried_out("download_type", "no data is downloaded"))
    return notices


FROZEN = (
    "backend",
    "topology_keys",
    "default_topology",
    "topology_source",
    "topology_name",
    "local_queue",
    "nvlink",
    "node_selector",
    "tolerations",
    "platforms",
    "common_pod_template",
    "common_default_variables",
    "shared_credentials",
    "default_exit_actions",
    "recovery",
)
"""Fields of a pool that a workflow keeps as they were when it was accepted."""


def frozen_notices(name: str, *, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Notice]:
    """Tell which workflows keep their accepted configuration although a change may suggest otherwise."""
    changed = [field for field in FROZEN if before[field] != after[field]]
    left = usage().unreleased_in_pool(name) if changed else Unreleased()
    if not left.groups:
        return []
    workflows, groups = count_of(left.workflows, "workflow"), count_of(left.groups, "task group")
    placements = "; ".join(_accepted(backend, levels) for backend, levels in left.accepted)
    message = (
        f"{workflows} with {groups} accepted earlier and not released yet keep their accepted configuration, "
        f"for {placements}: this change of {', '.join(changed)} does not affect them. What they need in the "
        "cluster stays until they are released."
    )
    return [Notice("frozen", message, (changed[0],))]


def _accepted(backend: str, levels: Levels) -> str:
    keys = ", ".join(f"{level.key} ({level.label})" for level in levels)
    return f"backend {backend} {f'with topology_keys {keys}' if keys else 'without topology_keys'}"


def _of_templates(pool: Pool) -> list[Notice]:
    """Notices on the templates that the pool and its platforms apply, each once."""
    results = [pool.applied_template, *(row.applied_template for row in pool.platforms.all())]
    notices = [notice for result in results for notice in template_notices(result.get("pod", {}))]
    messages = dict.fromkeys(f"In its pod templates, {format_path(n.path)}: {n.message}" for n in notices)
    return [Notice("pod_template", message) for message in messages]


def backend_notices(backend: Backend) -> list[Notice]:
    """Notices of a saved backend about its cluster and fields without effect."""
    notices = []
    for kind, code in (("Reachable", "unreachable"), ("SchedulerServed", "scheduler_unknown")):
        if (entry := conditions.find(backend.conditions, kind)) and entry["status"] != "True":
            notices.append(Notice(code, entry["message"]))
    if backend.scheduler_timeout != OSMO_SCHEDULER_TIMEOUT:
        why = "the timeouts of pools and workflows end what waits"
        notices.append(_not_carried_out("scheduler_timeout", why, "scheduler_settings"))
    if backend.tests:
        notices.append(_not_carried_out("tests", "no tests of backends are run"))
    return notices


def _not_carried_out(field: str, why: str, *above: str) -> Notice:
    """About a field of OSMO's that nothing reads, where its value is not OSMO's default."""
    message = f'"{field}" is accepted but not carried out: {why}.'
    return Notice("not_carried_out", message, (*above, field))


def _of_backend(pool: Pool) -> list[Notice]:
    backend = pool.backend
    if conditions.status_of(backend.conditions, "Reachable") != "True":
        message = (
            f'Backend "{backend.name}" does not answer: the pool was checked against the oldest supported '
            f'version of "{backend.scheduler_type}".'
        )
        return [Notice("unreachable", message, ("backend",))]
    if pool.nvlink and conditions.status_of(backend.conditions, "ComputeDomainServed") == "False":
        message = (
            f'Backend "{backend.name}" serves no ComputeDomain (NVIDIA\'s DRA driver is not installed): task '
            "groups of this pool will wait for it."
        )
        return [Notice("compute_domain_not_served", message, ("nvlink",))]
    return []


def _of_preferences(pool: Pool) -> list[Notice]:
    """A word on preferences that the scheduler cannot hold, where it holds all of them, or has no keys."""
    if pool.unsupported_preferred == Pool.UnsupportedPreferred.REFUSE:
        return []
    capabilities = capabilities_of(pool.backend)
    if Capability.TOPOLOGY_PREFERRED not in capabilities and places_by_topology(capabilities):
        return []
    if slices_alone(capabilities):
        return []
    scheduler = capabilities.scheduler
    word = "holds every preference" if places_by_topology(capabilities) else "takes no topology keys"
    message = f'It has no effect on backend "{pool.backend.name}": scheduler "{scheduler}" {word}.'
    return [Notice("no_effect", message, ("unsupported_preferred",))]


def _of_source(pool: Pool) -> list[Notice]:
    if pool.topology_source != Pool.TopologySource.EXTERNAL:
        return []
    message = (
        f'Topology "{pool.topology_name}" is used as it is and never written: nodes without the label of its '
        "narrowest level are invisible to every requirement of this pool."
    )
    return [Notice("external_topology", message, ("topology_name",))]


def _of_labels(pool: Pool) -> list[Notice]:
    """Notices of labels that nodes lack; none while no node of the pool is known."""
    levels = selectors.pool_levels(pool)
    if not levels:
        return []
    domains = selectors.domains_of(pool)
    if not domains.nodes:
        return []
    notices = []
    if any(key.outside == domains.nodes for key in domains.keys):
        carried = selectors.node_labels(selectors.pool_nodes(pool))
        notices += check_look_alikes(levels, carried, path=("topology_keys",))
    before = [
        0,
        *(key.outside for key in domains.keys),
    ]  # nodes outside a broader key are in that key's notice
    return notices + [
        Notice(
            "nodes_without_label",
            f"{key.outside} of the pool's {domains.nodes} nodes lack {key.level.label} or the label of a "
            f'broader key: no requirement on "{key.level.key}" can use them.',
            ("topology_keys", rank, "label"),
        )
        for rank, key in enumerate(domains.keys)
        if key.outside > before[rank]
    ]


def _of_taints(pool: Pool) -> list[Notice]:
    """A word on each platform whose nodes all carry taints that it does not tolerate."""
    nodes = selectors.pool_nodes(pool)
    platforms = list(pool.platforms.all())
    if (not platforms and nodes.filter(taints=[]).exists()) or not nodes.exists():
        return []
    rows = list(nodes.values_list("labels", "taints"))
    notices = []
    for place, kind in enumerate(pod_kinds(pool)):
        refused = [
            barring([t for t in taints if not passes_by_condition(t.get("key", ""))], kind.tolerations)
            for labels, taints in rows
            if selects(kind.selector, labels)
        ]
        if not refused or not all(refused):
            continue
        counts = Counter(name for taints in refused for name in {*map(taint_name, taints)})
        listed = plain_listing(
            [f"{name} ({nodes})" for name, nodes in counts.most_common()], limit=MOST_TAINTS
        )
        owner = f'platform "{platforms[place].name}"' if platforms else "the pool"
        message = (
            f"{_all(len(refused))} of {owner} {agree(len(refused), 'carries', 'carry')} taints that its pods "
            f"do not tolerate: {listed}. Nothing runs there until a toleration is added or the taints are "
            "removed."
        )
        notices.append(
            Notice("nodes_tainted", message, (*(("platforms", place) if platforms else ()), "tolerations"))
        )
    return notices


def _all(nodes: int) -> str:
    return "The only node" if nodes == 1 else f"All {nodes} nodes"
