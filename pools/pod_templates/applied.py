"""The combination of the templates that a pool and its platforms name.

A pool stores the result beside its configuration (``applied_template``), written whenever the pool or one of
its templates is. Readers of the pool therefore read no template, and a pool without templates costs nothing.
The result has ``pod``, the templates laid over one another, ``variables``, the defaults in force, and
``revisions``, the revision of each template. A platform's result includes its pool's, under its own.

``node_selection`` is the one place that says which nodes belong to a pool or a platform.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pools.documents.backend import shard_of
from pools.models import Platform, Pool
from pools.pod_templates.merge import overlay
from scheduling.fit.usable import PodKind

AppliedContent = Mapping[str, Any]
Templates = Mapping[str, tuple[Mapping[str, Any], int]]
"""Name -> content and revision."""


def applied(
    below: AppliedContent, *, named: Sequence[str], variables: Mapping[str, Any], templates: Templates
) -> dict[str, Any]:
    """The named templates, in order, over ``below``; empty where nothing is applied."""
    pod = dict(below.get("pod", {}))
    for name in named:
        pod = overlay(pod, templates[name][0])
    revisions = {**below.get("revisions", {}), **{name: templates[name][1] for name in named}}
    defaults = {**below.get("variables", {}), **{name: str(value) for name, value in variables.items()}}
    parts = {"pod": pod, "variables": defaults, "revisions": revisions}
    return {part: value for part, value in parts.items() if value}


def apply_to_pool(pool: Pool, platforms: Sequence[Platform], templates: Templates) -> None:
    """Set the results on unsaved rows. The backend's shard selects nodes like a template below all others."""
    shard = shard_of(pool.backend)
    below = {"pod": {"spec": {"nodeSelector": shard}}} if shard else {}
    pool.applied_template = applied(
        below, named=pool.common_pod_template, variables=pool.common_default_variables, templates=templates
    )
    for row in platforms:
        row.applied_template = applied(
            pool.applied_template,
            named=row.override_pod_template,
            variables=row.default_variables,
            templates=templates,
        )


def node_selection(pool: Pool, platform: Platform | None = None) -> dict[str, str]:
    """The labels that select the nodes of a pool, or of one of its platforms.

    Templates count. They cannot contradict the pool: that was checked when it was saved.
    """
    own = {**_of_template(pool.applied_template, "nodeSelector", {}), **pool.node_selector}
    if platform is None:
        return own
    return {
        **own,
        **_of_template(platform.applied_template, "nodeSelector", {}),
        **platform.node_selector,
    } | own


def tolerations_of(pool: Pool, platform: Platform) -> list[Mapping[str, Any]]:
    """Every toleration of the platform's pods, each once."""
    entries = [
        *pool.tolerations,
        *platform.tolerations,
        *_of_template(pool.applied_template, "tolerations", []),
        *_of_template(platform.applied_template, "tolerations", []),
    ]
    return [entry for place, entry in enumerate(entries) if entry not in entries[:place]]


def pod_kinds(pool: Pool) -> tuple[PodKind, ...]:
    """The pods that a pool can send to nodes. Reads ``platforms``."""
    return tuple(
        PodKind(selector=node_selection(pool, platform), tolerations=tolerations_of(pool, platform))
        for platform in list(pool.platforms.all()) or [Platform(pool=pool, name="")]
    )


def requested_resources(pool: Pool) -> frozenset[str]:
    """The resources that the templates of a pool and of its platforms request. Reads ``platforms``."""
    results = (pool.applied_template, *(platform.applied_template for platform in pool.platforms.all()))
    return frozenset(
        name
        for result in results
        for kind in ("containers", "initContainers")
        for container in _of_template(result, kind, [])
        for amounts in ("requests", "limits")
        for name in (container.get("resources") or {}).get(amounts) or {}
    )


def frozen_pod(platform: Platform) -> dict[str, Any]:
    """The platform's template as a submission freezes it, without what placements of tasks hold."""
    pod = dict(platform.applied_template.get("pod", {}))
    if "spec" in pod:
        spec = {k: v for k, v in pod["spec"].items() if k not in {"nodeSelector", "tolerations"}}
        pod["spec"] = spec
    return {part: value for part, value in pod.items() if value}


def _of_template(result: AppliedContent, field: str, empty: Any) -> Any:
    return result.get("pod", {}).get("spec", {}).get(field, empty)
