"""Which events arrive: KAI uses client-go's default broadcaster ("Events may not arrive").

Of each object and type 25 are let through, then one more every 300 s. A gang that waits costs its pod group
and each of its pods one event a cycle, whether or not its text is new, and KAI has a cycle a second whatever
happens; so after about 25 s of waiting nothing more is heard of it, an eviction included. From the tenth
event of one object, type and reason that differs from the others in its text alone, each stands for all of
them and has no annotations. At most 1,000 wait to be written; more are dropped.

Source: client-go ``tools/record/events_cache.go`` (spam filter, aggregator), ``tools/record/event.go``.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from localcluster.standins.kai.values import Event

BURST, SECONDS_FOR_ANOTHER = 25, 300.0
CYCLE_SECONDS = 1.0
SIMILAR, SIMILAR_SECONDS = 10, 600.0
QUEUE = 1000
REMEMBERED = 50_000
"""Objects of which the filter remembers what they have used up; client-go forgets from 4,096 on."""

K = TypeVar("K")
V = TypeVar("V")
ObjectKey = tuple[str, str, str]
"""Kind, uid (or name) and type."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled: float
    repeated: float | None = None
    """When the event that comes with each cycle was last counted; None if none does."""


@dataclass(slots=True)
class _Similar:
    since: float
    texts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Filter:
    """Decides for each event whether it is sent, and in which form; safe to use from several threads."""

    clock: Callable[[], float]
    limited: bool = True
    _buckets: "OrderedDict[ObjectKey, _Bucket]" = field(default_factory=OrderedDict)
    _similar: "OrderedDict[tuple[ObjectKey, str], _Similar]" = field(default_factory=OrderedDict)
    _texts: "OrderedDict[tuple[ObjectKey, str], str]" = field(default_factory=OrderedDict)
    _waiting: set[ObjectKey] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def cycle(self, events: Iterable[Event]) -> list[Event]:
        """Pass the events of one cycle; an object that has none any more has stopped to wait."""
        events = tuple(events)
        with self._lock:
            now = self.clock()
            waiting = {_key(event) for event in events}
            for key in (self._waiting - waiting) & self._buckets.keys():
                self._settle(self._buckets[key], now)
                self._buckets[key].repeated = None
            passed = [each for event in events if (each := self._pass(event, now))]
            self._waiting = waiting & self._buckets.keys()
            for bucket in map(self._buckets.__getitem__, self._waiting):
                bucket.repeated = now if bucket.repeated is None else bucket.repeated
            return passed

    def once(self, event: Event) -> Event | None:
        """Pass one event that no cycle repeats."""
        with self._lock:
            return self._pass(event, self.clock())

    def _pass(self, event: Event, now: float) -> Event | None:
        key = _key(event)
        text = (key, event.reason)
        news = bool(event.annotations) or self._texts.get(text) != event.message
        bucket = self._bucket(key, now)
        if not news and bucket.repeated is not None:
            return None  # counted with the time that has gone by
        if self.limited and bucket.tokens < 1:
            return None
        bucket.tokens -= 1
        _remember(self._texts, text, event.message)
        if not news:
            return None  # the broadcaster counts up the event that is there
        return self._aggregated(event, now) if self.limited else event

    def _bucket(self, key: ObjectKey, now: float) -> _Bucket:
        bucket = self._buckets.get(key) or _Bucket(float(BURST), now)
        _remember(self._buckets, key, bucket)
        self._settle(bucket, now)
        return bucket

    def _settle(self, bucket: _Bucket, now: float) -> None:
        """Count what has come in since: new tokens, and one event for each cycle of a gang that waits."""
        bucket.tokens = min(bucket.tokens + (now - bucket.filled) / SECONDS_FOR_ANOTHER, float(BURST))
        bucket.filled = now
        if bucket.repeated is not None and self.limited:
            cycles = int((now - bucket.repeated) / CYCLE_SECONDS)
            bucket.repeated += cycles * CYCLE_SECONDS
            while cycles and bucket.tokens >= 1:
                bucket.tokens -= 1
                cycles -= 1

    def _aggregated(self, event: Event, now: float) -> Event:
        key = (_key(event), event.reason)
        similar = self._similar.get(key)
        if similar is None or now - similar.since > SIMILAR_SECONDS:
            similar = _Similar(now)
        _remember(self._similar, key, similar)
        similar.texts.add(event.message)
        if len(similar.texts) < SIMILAR:
            return event
        similar.texts.pop()
        text = f"(combined from similar events): {event.message}"
        return replace(event, message=text, annotations={})


def _key(event: Event) -> ObjectKey:
    return (event.kind, event.uid or event.name, event.type)


def _remember(cache: "OrderedDict[K, V]", key: K, value: V) -> None:
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > REMEMBERED:
        cache.popitem(last=False)
