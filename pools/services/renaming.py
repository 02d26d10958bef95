"""New names for pools and platforms, and writes of single platforms.

A pool's name is the address that users submit to, the resource that roles grant, and a part of its queue's
name in the cluster. Accepted work keeps the old name and runs on: workflows carry the name as text, and their
frozen queue stays until they are released (``sync``). The pool's Topology objects are named by their levels
and do not change. Roles are not rewritten, because ``osmo-<pool>`` is a name of its own.

A rename is two revisions: the new name with its content, and the deletion of the old name, because a revision
belongs to one name. A rollback to either restores that one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pools.checks.names import check_name
from pools.documents import pool as shape
from pools.interfaces import usage
from pools.models import ConfigRevision, Pool
from pools.services.pools import locked_pool, put_pool, refuse_unended
from pools.services.recording import (
    ConfigChange,
    Saved,
    configuration_change,
    enqueue,
    expect,
    record,
    refuse,
    refuse_unless_may_read,
    refuse_unless_may_use,
)
from scheduling.errors import Fault, InvalidSpec, NotFound, Notice
from web.models import Profile

POOL = ConfigRevision.Type.POOL


def rename_pool(*, name: str, new_name: str, change: ConfigChange, force: bool) -> Saved[Pool]:
    """Rename a pool. Raises Conflict while workflows of the pool live, unless ``force``."""
    with configuration_change(change):
        pool = locked_pool(name)
        expect(pool, change)
        if new_name == name:
            return Saved(pool)
        refuse(_unusable(new_name))
        refuse_unless_may_use(
            change, pool.backend.name, why=f'Users of "{new_name}" may then do what the pool allows.'
        )
        if pool.notify:
            refuse_unless_may_read(change, new_name)
        living = usage().live_workflows(name)
        if living and not force:
            refuse_unended(name, living, act="rename, which leaves work under the old name")
        pool.name = new_name
        pool.revision = record(
            config_type=POOL, name=new_name, content=shape.document_of(pool), change=change
        )
        record(config_type=POOL, name=name, content=None, change=change)
        pool.save()
        Profile.objects.filter(pool=name).update(pool=new_name)
        enqueue("pools.sync_backend", pool.backend_id)
    message = f'Roles with grants on "{name}", and role osmo-{name}, do not apply to "{new_name}".'
    notices = [Notice("roles_not_renamed", message)]
    if living and pool.notify:
        message = f'The targets of "{new_name}" hear no more of the workflows that run on under "{name}".'
        notices.append(Notice("news_not_renamed", message))
    return Saved(pool, tuple(notices))


def _unusable(new_name: str) -> list[Fault]:
    faults = check_name(new_name, path=())
    if not faults and Pool.objects.filter(name=new_name).exists():
        faults.append(Fault((), "taken", f'There is a pool "{new_name}" already.'))
    return faults


def put_platform(*, name: str, platform: str, document: Any, change: ConfigChange) -> Saved[Pool]:
    """Add a platform to a pool or replace it; the pool's other platforms stay."""
    with configuration_change(change, written=document, pools=[name]) as part, _faults_of_platform(platform):
        pool = locked_pool(name)
        expect(pool, change)
        if document is None:  # in a pool's document it would stand for no platform, and take this one away
            refuse([Fault((), "not_a_mapping", "An object is needed here, not null.")])
        written = shape.document_of(pool)
        written["platforms"] = {**written["platforms"], platform: document}
        return put_pool(name=name, document=written, change=part)


@contextmanager
def _faults_of_platform(platform: str) -> Iterator[None]:
    """Give the faults of one platform their paths in its own document."""
    try:
        yield
    except InvalidSpec as error:
        above = ("platforms", platform)
        faults = [
            replace(fault, path=fault.path[2:]) if fault.path[:2] == above else fault
            for fault in error.faults
        ]
        raise InvalidSpec(error.message, faults) from error


def rename_platform(*, name: str, platform: str, new_name: str, change: ConfigChange) -> Saved[Pool]:
    """Rename a platform. Accepted work has its node selection frozen and runs on."""
    with configuration_change(change, pools=[name]) as part:
        pool = locked_pool(name)
        expect(pool, change)
        written = shape.document_of(pool)
        platforms = written["platforms"]
        if platform not in platforms:
            raise no_platform(name, platform, list(platforms))
        if new_name == platform:
            return Saved(pool)
        faults = check_name(new_name, path=())
        if new_name in platforms:
            faults.append(Fault((), "taken", f'There is a platform "{new_name}" already.'))
        refuse(faults)
        written["platforms"] = {
            new_name if name_of_platform == platform else name_of_platform: platforms[name_of_platform]
            for name_of_platform in platforms
        }
        if written["default_platform"] == platform:
            written["default_platform"] = new_name
        return put_pool(name=name, document=written, change=part)


def no_platform(pool: str, platform: str, names: list[str]) -> NotFound:
    hint = f"; there are {', '.join(sorted(names)[:20])}." if names else "; it has none."
    return NotFound(f'Pool "{pool[:63]}" has no platform "{platform[:63]}"{hint}')
