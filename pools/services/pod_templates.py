"""Writes of pod templates.

A template is checked alone and then together with every pool and platform that names it, because it takes
part in selecting their nodes. The results are written in the same transaction. A pool keeps its revision: its
document is unchanged, and its history would otherwise name a change that nobody made to it. A workflow shows
the revisions of the templates it was accepted under beside that of its pool.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from django.db.models import Q

from pools.checks.names import check_name
from pools.models import ConfigRevision, PodTemplate, Pool
from pools.pod_templates.applied import Templates, apply_to_pool
from pools.pod_templates.checks import contradictions
from pools.pod_templates.reading import plain
from pools.pod_templates.rules import template_faults
from pools.services.recording import (
    ConfigChange,
    configuration_change,
    expect,
    record,
    refuse,
    refuse_many,
    refuse_unless_may_use,
)
from scheduling.errors import MAX_FAULTS, Conflict, Fault, NotFound, Path
from scheduling.sentences import listing

POD_TEMPLATE = ConfigRevision.Type.POD_TEMPLATE


def put_pod_template(*, name: str, document: Any, change: ConfigChange) -> PodTemplate:
    """Create a template or replace it."""
    with configuration_change(change, written=document, pools=_pools_using([name])):
        expect(PodTemplate.objects.filter(name=name).first(), change)
        return _save({name: document}, change=change, nested=False)[0]


def put_pod_templates(*, documents: Mapping[str, Any], change: ConfigChange) -> list[PodTemplate]:
    """Create or replace each template named, all or none; others stay as they are.

    Raises InvalidSpec for more templates than a caller writes at once.
    """
    refuse_many(documents, change=change)
    pools = _pools_using(list(documents))
    with configuration_change(change, written=documents, pools=pools, objects=len(documents)):
        return _save(documents, change=change, nested=True)


def delete_pod_template(*, name: str, change: ConfigChange) -> None:
    """Delete a template. Raises Conflict naming the pools and platforms that use it."""
    with configuration_change(change):
        row = PodTemplate.objects.filter(name=name).first()
        if row is None:
            raise NotFound(f'There is no pod template "{name[:63]}".')
        expect(row, change)
        if used := users_of(name):
            message = f'Pod template "{name}" is used by {listing(used)}: remove it there first.'
            raise Conflict(message)
        record(config_type=POD_TEMPLATE, name=name, content=None, change=change)
        row.delete()


def users_of(name: str) -> list[str]:
    """The pools and platforms that name a template, as phrases."""
    users = []
    for pool in _using([name]):
        if name in pool.common_pod_template:
            users.append(f'pool "{pool.name}"')
        users += [
            f'platform "{row.name}" of pool "{pool.name}"'
            for row in pool.platforms.all()
            if name in row.override_pod_template
        ]
    return users


def all_templates() -> Templates:
    """Every template with its revision."""
    return {row.name: (row.content, row.revision) for row in PodTemplate.objects.all()}


def _using(names: list[str]) -> list[Pool]:
    """The pools that name any of these. The lock on configuration keeps others from changing them."""
    keys = Pool.objects.filter(_named(names)).values("pk")
    rows = Pool.objects.filter(pk__in=keys).select_related("backend").order_by("name")
    return list(rows.prefetch_related("platforms"))


def _pools_using(names: list[str]) -> list[str]:
    return list(Pool.objects.filter(_named(names)).values_list("name", flat=True).distinct())


def _named(names: list[str]) -> Q:
    return Q(common_pod_template__overlap=names) | Q(platforms__override_pod_template__overlap=names)


def write_pod_template(*, name: str, document: Any, change: ConfigChange, later: list[str]) -> None:
    """Write a template and add it to ``later`` if it changed.

    For an import that also writes pools: ``apply_again`` checks at the end whether they fit each other.
    """
    with configuration_change(change):
        _save({name: document}, change=change, nested=False, later=later)


def _save(
    documents: Mapping[str, Any], *, change: ConfigChange, nested: bool, later: list[str] | None = None
) -> list[PodTemplate]:
    rows = {row.name: row for row in PodTemplate.objects.filter(name__in=list(documents))}
    faults: list[Fault] = []
    contents: dict[str, Any] = {}
    for name, written in documents.items():
        if len(faults) >= MAX_FAULTS:  # the others need not be read
            break
        path: Path = (name,) if nested else ()
        wrong = check_name(name, path=("name",)) if name not in rows else []
        contents[name], unread = plain(written)
        wrong += unread or template_faults(contents[name])
        faults += [replace(fault, path=(*path, *fault.path)) for fault in wrong]
    refuse(faults)
    changed = [name for name in contents if name not in rows or rows[name].content != contents[name]]
    for name in changed:
        revision = record(config_type=POD_TEMPLATE, name=name, content=contents[name], change=change)
        row = rows.setdefault(name, PodTemplate(name=name))
        row.content, row.revision = contents[name], revision
        row.save()
    if later is None:
        apply_again(changed, change=change)
    else:
        later += changed
    return [rows[name] for name in contents]


def apply_again(changed: list[str], *, change: ConfigChange) -> None:
    """Apply changed templates to the pools that use them.

    Raises InvalidSpec where they do not fit, Forbidden where the pools run on a backend that is not the
    caller's to hand out: a template may do anything to a pod.
    """
    pools = _using(changed) if changed else []
    if not pools:
        return
    templates = all_templates()
    for pool in pools:
        why = "Pods of a pool that uses the template would change."
        refuse_unless_may_use(change, pool.backend.name, why=why)
    refuse([fault for pool in pools for fault in _unfit(pool, templates)])
    apply_to_pools(pools, templates)


def apply_to_pools(pools: Iterable[Pool], templates: Templates) -> None:
    """Write the results of templates, and of the backend's shard, on pools and their platforms."""
    for pool in pools:
        platforms = list(pool.platforms.all())
        apply_to_pool(pool, platforms, templates)
        pool.save(update_fields=["applied_template"])
        for row in platforms:
            row.save(update_fields=["applied_template"])


def _unfit(pool: Pool, templates: Templates) -> Iterator[Fault]:
    for fault in contradictions(
        pool=(pool.common_pod_template, pool.node_selector),
        platforms={row.name: (row.override_pod_template, row.node_selector) for row in pool.platforms.all()},
        templates=templates,
    ):
        yield Fault((), fault.code, f'In pool "{pool.name}": {fault.message}', fault.allowed)
