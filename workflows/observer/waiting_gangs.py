"""Gangs that others submitted to the schedulers of one cluster, while they wait.

Pods that have no node yet, reduced and grouped by gang, and of the schedulers' own objects those that such a
gang names, or that stand above one. Where a gang's object has templates of its pods (Kueue), the object is
here while it waits. Of all other pods and objects nothing is: they are dropped as soon as they are read.

So an object may have been passed over before a pod that names it begins to wait. Then it is *unread*: read
once by name, unless the watch brings it meanwhile, and followed by the watch from there on. A gang that has
an unread object, and one whose kinds were not all listed, has no news: absent and unknown stay apart.

Level driven: a complete list replaces what is here, so a lost event leaves a gang wrong until the next list
at the longest. Everything is bounded; what is beyond a bound is counted.

Rejected: rows of all objects, which would be written as often as others work; fingerprints of all, which is
memory for each finished job; informers with every object, as schedulers themselves have.
"""

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from pydantic_core import to_json

from scheduling.backends.base import ResourceKind
from scheduling.backends.facets import ForeignGangs, SchedulerBackend, gang_resource
from scheduling.foreign import written
from scheduling.foreign.gang import GangKept, PodKept, kept_pods
from scheduling.kubernetes_syntax import is_object_name
from workflows.values.foreign_pod import see_pod_terms

MOST_GANGS = 5_000
MOST_PODS = 50_000
MOST_GANG_BYTES = 65_536
"""Of the JSON of a gang."""
MOST_OBJECTS_BYTES = 48 * 1024
"""Of the object of a gang and of those above it, of which each has at most ``written.MOST_BYTES``."""
MOST_BYTES = 128 * 2**20
"""Of the JSON of all objects, and of all pods that differ, in the memory of a cluster."""
MOST_ABOVE = 8
"""Objects above each other."""
MOST_PODS_AT_ONCE = 5_000
"""Of the gangs that the writer takes at a time."""
MOST_UNLIKE_PODS = 1_000
"""Of a gang; no more of them fit into its bytes."""
MOST_READS = 1_000
"""If more objects than this are unread, a list is cheaper."""

TOO_LARGE: Mapping[str, Any] = {written.TOO_LARGE: True}
"""Stands for an object of which more is left than is kept."""

PODS = "pods"
"""The stream of waiting pods; those of objects are called as their kind."""

GangKey = tuple[str, str, str]
"""The kind of an object, its namespace and its name."""

NO_TERMS = PodKept(requests={})


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod without a node; ``gang`` is None for one in no gang. Equal ``mark``: equal ``terms``."""

    uid: str
    gang: GangKey | None
    part: str
    terms: PodKept
    mark: bytes
    size: int


@dataclass(frozen=True, slots=True)
class GangObject:
    """An object of a scheduler; ``remainder`` is what its facet leaves of it, None for one that has ended."""

    key: GangKey
    uid: str
    created: str
    remainder: Mapping[str, Any] | None
    above: GangKey | None
    size: int


@dataclass(frozen=True, slots=True)
class GangsState:
    """Which waiting gangs are not known, and how many of them are left out.

    ``problems`` says why not by the kind of a gang's object: empty for one that is known, None for one that
    is not listed yet.
    """

    problems: Mapping[str, str | None]
    omitted: int


@dataclass(slots=True)
class GangChanges:
    """Gangs by key, None for one that does not wait; ``state`` comes with the last of them."""

    gangs: dict[GangKey, GangKept | None] = field(default_factory=dict)
    state: GangsState | None = None


@dataclass(slots=True)
class _Members:
    """Waiting pods of a gang by uid; of those beyond a bound a number each."""

    pods: dict[str, WaitingPod] = field(default_factory=dict)
    omitted: set[int] = field(default_factory=set)


class WaitingGangs:
    """The waiting gangs of one cluster, for several streams that change them and a writer that takes news.

    ``recorded`` are the keys that have rows.
    """

    def __init__(self, schedulers: Sequence[SchedulerBackend], recorded: Iterable[GangKey]) -> None:
        self.facets = tuple(scheduler.foreign for scheduler in schedulers if scheduler.foreign)
        self.name = ",".join(scheduler.name for scheduler in schedulers if scheduler.foreign)
        self._lock = threading.Lock()
        self._facet_of = {kind.crd: facet for facet in self.facets for kind in facet.kinds}
        self._members: dict[GangKey, _Members] = {}
        self._gang_of: dict[str, GangKey] = {}  # by uid of a pod
        self._objects: dict[GangKey, GangObject] = {}
        self._complete: dict[GangKey, None] = {}  # objects that are gangs by themselves
        self._needed: set[GangKey] = set()
        self._unread: set[GangKey] = set()
        self._reading: set[GangKey] = set()
        self._sought: set[GangKey] = (
            set()
        )  # unread since before a list began, which has them if they are there
        self._omitted: set[GangKey] = set()
        self._shared: dict[bytes, tuple[PodKept, int]] = {}  # with how many pods are so
        self._bytes = 0
        self._listed: set[str] = set()
        self._problems: dict[str, str] = {}
        self._news: dict[GangKey, None] = dict.fromkeys(recorded)
        self._state_news = False

    # What streams read

    @property
    def has_pods(self) -> bool:
        """Whether some gangs are made of pods."""
        return any(facet.made_of_pods for facet in self.facets)

    def see_pod(self, obj: Mapping[str, Any]) -> WaitingPod:
        """Reduce a pod that has no node."""
        metadata = obj["metadata"]
        uid, namespace = str(metadata["uid"]), str(metadata["namespace"])
        for facet in self.facets if not metadata.get("deletionTimestamp") else ():
            name, part = facet.gang_of(obj) if facet.made_of_pods else ("", "")
            if name:
                name = _name_of_row(name)
                terms = see_pod_terms(obj)
                text = to_json(terms.to_json())
                mark = hashlib.blake2b(text, digest_size=12).digest()
                shared, _ = self._shared.get(mark, (terms, 0))
                return WaitingPod(uid, (gang_resource(facet), namespace, name), part, shared, mark, len(text))
        return WaitingPod(uid, None, "", NO_TERMS, b"", 0)

    def see_object(self, kind: ResourceKind, obj: Mapping[str, Any]) -> GangObject | None:
        """Reduce an object of a scheduler; None for one that nothing here needs."""
        metadata = obj["metadata"]
        key = (kind.crd, str(metadata.get("namespace") or ""), str(metadata["name"]))
        facet = self._facet_of[kind.crd]
        if key not in self._needed and not self._has_templates(key):
            return None
        remainder = facet.keep(kind, obj, pod_of=see_pod_terms)
        size = len(to_json(remainder))
        above = facet.above(remainder) if remainder else None
        if size > written.MOST_BYTES:
            remainder, size = TOO_LARGE, 0
        return GangObject(
            key=key,
            uid=str(metadata.get("uid") or ""),
            created=str(metadata.get("creationTimestamp") or ""),
            remainder=remainder,
            above=(above[0].crd, key[1], above[1]) if above and above[0].crd in self._facet_of else None,
            size=size,
        )

    def is_listed(self, stream: str) -> bool:
        return stream in self._listed

    def before(self, stream: str) -> str:
        """The stream by which it is known which objects of this one are needed; empty if all are."""
        streams = _streams_of(self._facet_of[stream])
        return streams[streams.index(stream) - 1] if stream != streams[0] else ""

    def may_be_absent(self, resource: str) -> bool:
        """Whether a kind that is not served only means that nothing stands above a gang."""
        return gang_resource(self._facet_of[resource]) != resource

    # What streams change

    def pods_listed(self, pods: Iterable[WaitingPod]) -> None:
        """Take a complete list: a pod that is not in it waits no more."""
        with self._lock:
            self._note_listed(PODS)
            present = {pod.uid: pod for pod in pods}
            for uid in self._gang_of.keys() - present.keys():
                self._remove(uid)
            for key, members in list(self._members.items()):
                members.omitted.clear()
                self._drop_if_empty(key)
            self._omitted = {key for key in self._omitted if self._has_templates(key)}
            for pod in present.values():
                self._add(pod)

    def pod_changed(self, pod: WaitingPod) -> None:
        with self._lock:
            self._add(pod)

    def pod_deleted(self, pod: WaitingPod) -> None:
        with self._lock:
            self._remove(pod.uid)
            if pod.gang in self._members:
                self._members[pod.gang].omitted.discard(hash(pod.uid))
                self._drop_if_empty(pod.gang)

    def list_begins(self, resource: str) -> None:
        """Note that a list begins: what is unread now and is not in it is absent."""
        with self._lock:
            self._sought = {key for key in self._sought if key[0] != resource}
            self._sought |= {key for key in self._unread if key[0] == resource}

    def objects_listed(self, resource: str, objects: Iterable[GangObject]) -> None:
        """Take a complete list, of which those are left that were needed when they were read."""
        with self._lock:
            self._note_listed(resource)
            present = {obj.key: obj for obj in objects}
            self._omitted = {
                key for key in self._omitted if key[0] != resource or not self._has_templates(key)
            }
            for key in [key for key in self._complete if key[0] == resource and key not in present]:
                self._forget(key)
            self._unread |= {
                key for key in self._needed if key[0] == resource and key not in present and _may_exist(key)
            }
            absent = {key for key in self._sought if key[0] == resource}
            self._sought -= absent
            self._unread -= absent
            for obj in present.values():
                self._put(obj)

    def object_changed(self, obj: GangObject) -> None:
        with self._lock:
            self._put(obj)

    def object_deleted(self, key: GangKey) -> None:
        with self._lock:
            self._forget(key)

    def refused(self, stream: str, problem: str) -> None:
        """Forget what a stream has brought: it can no longer be followed."""
        with self._lock:
            self._problems[stream] = problem
            self._listed.discard(stream)
            self._state_news = True
            if stream == PODS:
                for uid in list(self._gang_of):
                    self._remove(uid)
                self._news |= dict.fromkeys(self._members)
                self._members.clear()
            for key in [key for key in self._objects if key[0] == stream]:
                self._forget(key)
            self._announce(stream)

    # What is read by name

    def unread(self, resource: str, *, most: int) -> list[GangKey]:
        """Some of the objects to read now; none before all of their kind were listed."""
        with self._lock:
            if resource not in self._listed:
                return []
            keys = [key for key in self._unread if key[0] == resource][:most]
            self._unread.difference_update(keys)
            self._reading.update(keys)
            return keys

    def is_behind(self, resource: str) -> bool:
        """Whether so many objects are to be read that a list is cheaper."""
        with self._lock:
            return sum(key[0] == resource for key in self._unread) > MOST_READS

    def answered(self, key: GangKey, obj: GangObject | None) -> None:
        """Take an object that was read, None for one that is absent; the watch's word is newer."""
        with self._lock:
            if key in self._reading and obj is not None:
                self._put(obj)
            elif key in self._reading:
                self._forget(key)

    def unanswered(self, keys: Iterable[GangKey]) -> None:
        """Note that these could not be read now."""
        with self._lock:
            again = self._reading.intersection(keys)
            self._reading -= again
            self._unread |= again

    # What the writer takes

    def take(self, *, most: int) -> GangChanges:
        """Some of the news."""
        with self._lock:
            self._sweep()
            settled = [key for key in self._news if self._is_settled(key)]
            copies: dict[GangKey, _Copy | None] = {}
            pods = 0
            for key in settled:
                if len(copies) >= most or pods >= MOST_PODS_AT_ONCE:
                    break
                del self._news[key]
                copies[key] = copy = self._copy(key)
                pods += len(copy.pods) if copy else 0
            state = self._state() if self._state_news and len(settled) == len(copies) else None
            self._state_news = self._state_news and state is None
        return GangChanges({key: _gang(copy) if copy else None for key, copy in copies.items()}, state)

    def put_back(self, changes: GangChanges) -> None:
        """Have news again that could not be written."""
        with self._lock:
            self._news |= dict.fromkeys(changes.gangs)
            self._state_news = self._state_news or changes.state is not None

    def _state(self) -> GangsState | None:
        """None before the streams have begun: what was recorded before is old, not wrong."""
        problems = {gang_resource(facet): self._problem_of(_streams_of(facet)) for facet in self.facets}
        has_begun = None not in problems.values() or any(problems.values())
        return GangsState(problems, len(self._omitted)) if has_begun else None

    def _problem_of(self, streams: Sequence[str]) -> str | None:
        if self._listed.issuperset(streams):
            return ""
        return " ".join(self._problems[stream] for stream in streams if stream in self._problems) or None

    def _is_settled(self, key: GangKey) -> bool:
        """Whether it is known if and how a gang waits."""
        facet = self._facet_of.get(key[0])
        if facet is None or any(stream in self._problems for stream in _streams_of(facet)):
            return True
        return self._listed.issuperset(_streams_of(facet)) and not any(
            each in self._unread or each in self._reading for each in self._chain(key)
        )

    def _copy(self, key: GangKey) -> "_Copy | None":
        """A gang as it is now; None for one that does not wait, or may not be known."""
        facet, obj = self._facet_of.get(key[0]), self._objects.get(key)
        if facet is None or any(stream in self._problems for stream in _streams_of(facet)):
            return None
        if (obj.remainder is None) if obj else key not in self._members:
            return None
        if facet.made_of_pods and key not in self._members:
            return None
        members = self._members.get(key, _Members())
        above = [self._objects.get(each) for each in self._chain(key)][1:]
        remainders = tuple(each.remainder if each else None for each in above)
        return _Copy(key, obj, remainders, tuple(members.pods.values()), len(members.omitted))

    # What is kept, under the lock

    def _has_templates(self, key: GangKey) -> bool:
        """Whether the object is a gang by itself."""
        facet = self._facet_of[key[0]]
        return not facet.made_of_pods and gang_resource(facet) == key[0]

    def _chain(self, key: GangKey) -> Iterator[GangKey]:
        """An object, and those above it, nearest first; a loop is followed once."""
        passed: list[GangKey] = []
        above: GangKey | None = key
        while above is not None and above not in passed and len(passed) <= MOST_ABOVE:
            passed.append(above)
            yield above
            above = obj.above if (obj := self._objects.get(above)) else None

    def _note_listed(self, stream: str) -> None:
        if stream not in self._listed:
            self._announce(stream)
        self._listed.add(stream)
        self._problems.pop(stream, None)
        self._state_news = True

    def _announce(self, stream: str) -> None:
        """All gangs that follow from a stream are news."""
        concerned = {gang_resource(facet) for facet in self.facets if stream in _streams_of(facet)}
        keys = (key for keys in (self._members, self._objects) for key in keys)
        self._news |= dict.fromkeys(key for key in keys if key[0] in concerned)

    def _add(self, pod: WaitingPod) -> None:
        before = self._gang_of.get(pod.uid)
        if before is not None:
            if self._members[before].pods[pod.uid] == pod:
                return
            self._remove(pod.uid)
        key = pod.gang
        if key is None:
            return
        if key not in self._members and not self._has_room():
            self._omit(key)
            return
        members = self._members.setdefault(key, _Members())
        self._omitted.discard(key)
        self._news[key] = None
        shared = self._shared.get(pod.mark)
        if len(self._gang_of) >= MOST_PODS or (shared is None and self._bytes + pod.size > MOST_BYTES):
            members.omitted.add(hash(pod.uid))
        else:
            members.omitted.discard(hash(pod.uid))
            self._gang_of[pod.uid] = key
            terms, count = shared or (pod.terms, 0)
            self._shared[pod.mark] = (terms, count + 1)
            self._bytes += 0 if count else pod.size
            members.pods[pod.uid] = replace(pod, terms=terms)
        self._need(key)

    def _remove(self, uid: str) -> None:
        key = self._gang_of.pop(uid, None)
        if key is None:
            return
        pod = self._members[key].pods.pop(uid)
        terms, count = self._shared.pop(pod.mark)
        if count > 1:
            self._shared[pod.mark] = (terms, count - 1)
        else:
            self._bytes -= pod.size
        self._news[key] = None
        self._drop_if_empty(key)

    def _drop_if_empty(self, key: GangKey) -> None:
        if not (self._members[key].pods or self._members[key].omitted):
            del self._members[key]
            self._news[key] = None

    def _has_room(self) -> bool:
        return len(self._members) + len(self._complete) < MOST_GANGS

    def _omit(self, key: GangKey) -> None:
        if len(self._omitted) < MOST_PODS:
            self._omitted.add(key)
            self._state_news = True

    def _need(self, key: GangKey) -> None:
        if key not in self._needed:
            self._needed.add(key)
            self._sought.discard(key)
            if key not in self._objects and _may_exist(key):
                self._unread.add(key)

    def _put(self, obj: GangObject) -> None:
        key, before = obj.key, self._objects.get(obj.key)
        self._unread.discard(key)
        self._reading.discard(key)
        if obj == before:
            return
        if self._has_templates(key):
            self._omitted.discard(key)
            if obj.remainder is None:
                self._forget(key)
                return
            if before is None and not (self._has_room() and self._bytes + obj.size <= MOST_BYTES):
                self._omit(key)
                return
            self._complete[key] = None
        self._bytes += obj.size - (before.size if before else 0)
        self._objects[key] = obj
        if obj.above:
            self._need(obj.above)
        self._touch(key)

    def _forget(self, key: GangKey) -> None:
        self._unread.discard(key)
        self._reading.discard(key)
        self._omitted.discard(key)
        self._complete.pop(key, None)
        if before := self._objects.pop(key, None):
            self._bytes -= before.size
        self._touch(key)

    def _touch(self, key: GangKey) -> None:
        """The gangs that an object belongs to are news."""
        facet = self._facet_of[key[0]]
        if gang_resource(facet) == key[0]:
            self._news[key] = None
            return
        for gang in (*self._members, *self._complete):
            if gang[1] == key[1] and key in self._chain(gang):
                self._news[gang] = None

    def _sweep(self) -> None:
        """Drop the objects that no waiting gang names any more; those above each other may name a loop."""
        gangs = (*self._members, *self._complete)
        self._needed = {key for gang in gangs for key in self._chain(gang)}
        self._unread &= self._needed
        self._reading &= self._needed
        for key in self._objects.keys() - self._needed:
            self._bytes -= self._objects.pop(key).size


@dataclass(frozen=True, slots=True)
class _Copy:
    """A gang at a moment; its JSON is made without the lock."""

    key: GangKey
    obj: GangObject | None
    above: tuple[Mapping[str, Any] | None, ...]
    pods: tuple[WaitingPod, ...]
    omitted: int


def _name_of_row(name: str) -> str:
    """The name that a pod gives its gang; if no object can have it, one that fits a row and a path."""
    if is_object_name(name):
        return name
    return f"{written.printable(name[: written.MOST_SIGNS - 1]).replace('/', '|')}…"


def _may_exist(key: GangKey) -> bool:
    """Whether an object can have this name: no other one is put into the path of a request."""
    return is_object_name(key[2])


def _streams_of(facet: ForeignGangs) -> list[str]:
    """The streams that a scheduler's gangs follow from."""
    return [*([PODS] if facet.made_of_pods else []), *(kind.crd for kind in facet.kinds)]


def _gang(copy: _Copy) -> GangKept:
    """A gang within its bound: what stands above is left out, then pods that differ."""
    resource, namespace, name = copy.key
    marks = {*islice({pod.mark: None for pod in copy.pods}, MOST_UNLIKE_PODS)}
    chosen = [(pod.part, pod.terms) for pod in copy.pods if pod.mark in marks]
    gang = GangKept(
        resource=resource,
        namespace=namespace,
        name=name,
        uid=copy.obj.uid if copy.obj else "",
        created=copy.obj.created if copy.obj else "",
        obj=copy.obj.remainder if copy.obj else None,
        above=copy.above,
        pods=kept_pods(chosen),
        omitted=copy.omitted + len(copy.pods) - len(chosen),
    )
    if gang.above and len(to_json([gang.obj, gang.above])) > MOST_OBJECTS_BYTES:
        gang = replace(gang, above=(TOO_LARGE,))
    while gang.pods and len(to_json(gang.to_json())) > MOST_GANG_BYTES:
        left = len(gang.pods) // 2
        omitted = gang.omitted + sum(pods.count for pods in gang.pods[left:])
        gang = replace(gang, pods=gang.pods[:left], omitted=omitted)
    return gang
