"""What to do about the shared objects of a cluster: desired against observed, from values alone.

A Topology of ours whose levels differ from those its name stands for was made by hand, since the schema lets
nobody edit them. It would place gangs against their requirements, so it is deleted and created again at once,
whoever waits on it: a pending gang finds none for a moment and keeps waiting.

An object goes after all that name it; a finalizer of the scheduler may keep it for longer, and meanwhile
nothing that names it is created. Objects without our label are never touched. A foreign object under a name
that we need is reported and left alone. Queues and topologies that unreleased task groups name outlive their
pool, because its deletion ends no group.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from cluster.errors import ClusterError
from cluster.interface import Obj
from cluster.kinds import PRIORITY_CLASS, Kind
from pools.clusters.kinds import (
    kind_of,
    leads_to,
    owned_kinds,
    parent_of,
    removable_fields,
    topology_labels,
    whole_fields,
)
from scheduling.backends.base import Manifest

Name = tuple[Kind, str]
"""``namespace/name`` of an object in a namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredObjects:
    """The desired objects, and the queues that may stay because unreleased groups name them.

    ``foreign_parents`` are somebody else's objects that ours stand below.
    """

    objects: Mapping[Name, Manifest]
    kept_queues: AbstractSet[str]
    foreign_parents: AbstractSet[Name] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedObjects:
    """The observed objects with our label, foreign objects under names of ours, and the kinds not served.

    ``refused`` are the kinds that may not be listed, with the cluster's answer; ``left_out`` those that were
    not asked for.
    """

    own: Mapping[Name, Obj]
    foreign: Mapping[Name, Obj] = field(default_factory=dict)
    unserved: AbstractSet[Kind] = frozenset()
    refused: Mapping[Kind, ClusterError] = field(default_factory=dict)
    left_out: AbstractSet[Kind] = frozenset()

    @property
    def unread(self) -> AbstractSet[Kind]:
        """Kinds of whose objects nothing is known."""
        return self.unserved | self.refused.keys() | self.left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """The actions that remove the difference; ``deletes`` has observed objects, children before parents.

    ``replaces`` pairs an observed object that cannot be edited with the manifest that replaces it, ``clears``
    one that has fields too many with the merge patch that removes them. ``ending`` are needed objects that
    somebody has deleted and a finalizer keeps.
    """

    creates: tuple[Manifest, ...] = ()
    replaces: tuple[tuple[Obj, Manifest], ...] = ()
    updates: tuple[Manifest, ...] = ()
    clears: tuple[tuple[Obj, Manifest], ...] = ()
    deletes: tuple[Obj, ...] = ()
    foreign: tuple[str, ...] = ()
    ending: tuple[str, ...] = ()


def plan(desired: DesiredObjects, observed: ObservedObjects) -> SyncPlan:
    """Decide on the actions. An object that is as desired needs none."""
    creates, replaces, updates, clears, foreign = [], [], [], [], []
    ending = _ending(desired, observed)
    skipped = _without_basis(desired, observed).union(ending)
    for name, manifest in desired.objects.items():
        kind = name[0]
        if kind in observed.unread or name in skipped:
            continue
        if own := observed.own.get(name):
            if _lists_other_levels(own, manifest):
                replaces.append((own, manifest))
            elif not _satisfies(own, manifest) or _has_additions(own, manifest):
                updates.append(_with_uid(manifest, own))
            if superfluous := _superfluous(own, manifest):
                clears.append((own, superfluous))
        elif other := observed.foreign.get(name):
            if not _substitutes(other, manifest):
                foreign.append(f"{kind.name} {name[1]}")
        else:
            creates.append(manifest)
    queues = _queues_to_keep(desired, observed)
    orphans = [
        obj for name, obj in observed.own.items() if name not in desired.objects and name not in queues
    ]
    return SyncPlan(
        creates=tuple(creates),
        replaces=tuple(replaces),
        updates=tuple(updates),
        clears=tuple(clears),
        deletes=tuple(sorted(orphans, key=_children_first)),
        foreign=tuple(sorted(foreign)),
        ending=tuple(f"{kind.name} {name}" for kind, name in ending),
    )


def _ending(desired: DesiredObjects, observed: ObservedObjects) -> list[Name]:
    """Of queues of ours, the needed objects that somebody has deleted, and a finalizer keeps."""
    owned = owned_kinds()
    present = (name for name in desired.objects if name[0] in owned and name in observed.own)
    return [name for name in present if _is_going(observed.own[name])]


def _is_going(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _without_basis(desired: DesiredObjects, observed: ObservedObjects) -> set[Name]:
    """Of queues of ours, those missing objects that would lead to what is going or is somebody else's."""
    unusable = {name for name, obj in observed.own.items() if _is_going(obj)} | observed.foreign.keys()
    waiting: set[Name] = set()
    for name, manifest in desired.objects.items():
        is_owned, is_missing = name[0] in owned_kinds(), name not in observed.own
        if is_owned and is_missing and not unusable.isdisjoint(leads_to(manifest)):
            unusable.add(name)
            waiting.add(name)
    return waiting - observed.foreign.keys()


def _queues_to_keep(desired: DesiredObjects, observed: ObservedObjects) -> set[Name]:
    """Queues in use, with all that they lead to."""
    to_follow = [name for name, obj in observed.own.items() if obj["metadata"]["name"] in desired.kept_queues]
    needed: set[Name] = set()
    while to_follow:
        name = to_follow.pop()
        needed.add(name)
        if obj := observed.own.get(name):
            to_follow += [below for below in leads_to(obj) if below not in needed]
    return needed


def _children_first(obj: Obj) -> tuple[int, bool, str]:
    """An object that names others goes before them."""
    kind, owned = kind_of(obj), owned_kinds()
    rank = -owned.index(kind) if kind in owned else 0
    return rank, not parent_of(obj), str(obj["metadata"]["name"])


def name_of(obj: Obj) -> Name:
    kind, metadata = kind_of(obj), obj["metadata"]
    return kind, f"{metadata['namespace']}/{metadata['name']}" if kind.namespaced else str(metadata["name"])


def _superfluous(own: Obj, manifest: Manifest) -> Manifest:
    """The merge patch that removes fields of ours which are not set any more; empty for none."""
    spec, desired = own.get("spec") or {}, manifest.get("spec") or {}
    fields = [name for name in removable_fields(manifest) if name in spec and name not in desired]
    return {"spec": dict.fromkeys(fields)} if fields else {}


def _lists_other_levels(own: Obj, manifest: Manifest) -> bool:
    """Whether both are topology objects, of different levels."""
    return topology_labels(own) != topology_labels(manifest)


def _has_additions(own: Obj, manifest: Manifest) -> bool:
    """Whether somebody has added to a map that is ours as a whole, such as another label to a selector."""
    spec, desired = own.get("spec") or {}, manifest.get("spec") or {}
    return any(spec.get(name) != desired.get(name) for name in whole_fields(manifest))


def _satisfies(observed: Any, desired: Any) -> bool:
    """Whether an object has everything desired; the server adds defaults and fields of its own."""
    if isinstance(desired, Mapping):
        return isinstance(observed, Mapping) and all(
            _satisfies(observed.get(k), v) for k, v in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(observed, list)
            and len(observed) == len(desired)
            and all(_satisfies(a, b) for a, b in zip(observed, desired, strict=True))
        )
    return bool(observed == desired or (desired is False and observed is None))


def _with_uid(manifest: Manifest, own: Obj) -> Manifest:
    """The manifest for this very object: an apply to a new one under the same name is refused."""
    return {**manifest, "metadata": {**manifest["metadata"], "uid": own["metadata"]["uid"]}}


def _substitutes(other: Obj, manifest: Manifest) -> bool:
    """Whether a foreign object does what ours would; OSMO's chart brings the same priorities."""
    bare = {key: value for key, value in manifest.items() if key not in {"metadata", "description"}}
    return manifest["kind"] == PRIORITY_CLASS.name and _satisfies(other, bare)
