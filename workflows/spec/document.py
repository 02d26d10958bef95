"""YAML text to plain data that remembers where everything stood.

Problem: a fault must name line and column, and hostile text must not cost more than its size. The text
is read as a stream of events by libyaml and put together here without recursion, so depth, aliases and
duplicate keys are refused while reading. Aliases share one object; what they would expand to is counted,
so a few lines that stand for a billion are refused before anything walks them.

Scalars follow YAML 1.1 as PyYAML's SafeLoader reads them, which is what OSMO's users are used to, except
that dates stay text: no field holds one. Rejected: ``yaml.compose``, which recurses in C on nested text;
loading twice, once for the data and once for the marks.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from scheduling.errors import Fault, InvalidSpec, Path

Place = tuple[int, int]
"""Line and column, counted from 1; of an entry of a mapping, where its key stands."""

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_MERGE = "tag:yaml.org,2002:merge"
_STRING = "tag:yaml.org,2002:str"
_PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "map", "seq")}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a submitted text may cost.

    Sizes in characters, memory in bytes; ``expanded`` counts values with aliases followed.
    """

    size: int = 8 * 2**20
    depth: int = 40
    aliases: int = 20_000
    expanded: int = 2_000_000
    tasks: int = 10_000
    template_seconds: float = 5.0
    template_memory: int = 512 * 2**20


@dataclass(slots=True)
class Document:
    """Parsed data, and the place of every value in the text."""

    data: Any
    _own: dict[int, Place]
    _children: dict[int, dict[Hashable, Place]]

    def locate(self, path: Path) -> Place:
        """Line and column of a path; of its nearest ancestor where the text has no such place."""
        here, place = self.data, self._own.get(id(self.data), (1, 1))
        for step in path:
            places = self._children.get(id(here), {})
            if step not in places:
                break
            place = places[step]
            here = here[step]
        return place


def parse_document(text: str, *, limits: Limits) -> Document:
    """Read one YAML document. Raises InvalidSpec with every fault that can be told at once."""
    if len(text) > limits.size:
        raise _refused(
            f"The document has {len(text)} characters; at most {limits.size} are read.", "too_large"
        )
    builder = _Builder(limits)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise _refused(f"This is not YAML: {said}.", "yaml_syntax", place) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise _refused(f"This is not YAML: {_first_line(error)}.", "yaml_syntax") from error
    if builder.faults:
        raise InvalidSpec("The document cannot be accepted.", builder.faults)
    return builder.document()


@dataclass(slots=True)
class _Open:
    """A container being filled. ``key`` is a mapping's key that waits for its value."""

    value: dict[Hashable, Any] | list[Any]
    place: Place
    anchor: str | None
    places: dict[Hashable, Place] = field(default_factory=dict)
    key: Any = None
    has_key: bool = False
    merging: bool = False
    merged: list[Any] = field(default_factory=list)
    expanded: int = 1


class _Builder:
    """Puts events together; ``faults`` collects what does not stop the reading."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.faults: list[Fault] = []
        self._stack: list[_Open] = []
        self._root: Any = None
        self._documents = 0
        self._aliases = 0
        self._anchors: dict[str, tuple[Any, int, bool]] = {}  # value, expanded size, complete
        self._own: dict[int, Place] = {}
        self._children: dict[int, dict[Hashable, Place]] = {}
        self._scalars = _Scalars()

    def document(self) -> Document:
        return Document(self._root, self._own, self._children)

    def take(self, event: yaml.Event) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            mark = cast("yaml.Mark", event.start_mark)
            place = (mark.line + 1, mark.column + 1)
            handler(self, event, place)

    def _start_document(self, _: Any, place: Place) -> None:
        self._documents += 1
        if self._documents > 1:
            raise _refused("There is a second YAML document; a workflow is one.", "yaml_documents", place)

    def _scalar(self, event: yaml.ScalarEvent, place: Place) -> None:
        top = self._stack[-1] if self._stack else None
        wants_key = top is not None and isinstance(top.value, dict) and not top.has_key
        value, tag = self._scalars.read(event)
        if tag is None:
            self.faults.append(
                _fault(f"The tag {event.tag} is not accepted; leave it out.", "yaml_tag", place)
            )
        if tag == _MERGE and not wants_key:
            value = event.value
        if wants_key and tag == _MERGE:
            cast("_Open", top).has_key = cast("_Open", top).merging = True
            return
        if event.anchor:
            self._anchors[event.anchor] = (value, 1, True)
        self._add(value, place, 1)

    def _start(self, event: Any, place: Place) -> None:
        if len(self._stack) >= self.limits.depth:
            raise _refused(f"Nested deeper than {self.limits.depth} levels.", "too_deep", place)
        if event.tag is not None and event.tag not in _PLAIN_TAGS:
            self.faults.append(
                _fault(f"The tag {event.tag} is not accepted; leave it out.", "yaml_tag", place)
            )
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and not top.has_key:
            raise _refused("A key must be a plain word, not a list or a mapping.", "yaml_key", place)
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        if event.anchor:
            self._anchors[event.anchor] = (value, 0, False)
        self._stack.append(_Open(value, place, event.anchor))

    def _end(self, _: Any, __: Place) -> None:
        done = self._stack.pop()
        if isinstance(done.value, dict):
            self._merge(done)
        self._own[id(done.value)] = done.place
        self._children[id(done.value)] = done.places
        if done.anchor:
            self._anchors[done.anchor] = (done.value, done.expanded, True)
        self._add(done.value, done.place, done.expanded)

    def _alias(self, event: yaml.AliasEvent, place: Place) -> None:
        self._aliases += 1
        if self._aliases > self.limits.aliases:
            raise _refused(f"More than {self.limits.aliases} aliases.", "too_many_aliases", place)
        value, expanded, complete = self._anchors.get(event.anchor or "", (None, 0, False))
        if not complete:
            raise _refused(
                f"The alias *{event.anchor} stands for nothing defined before it.", "yaml_alias", place
            )
        self._add(value, place, expanded)

    def _add(self, value: Any, place: Place, expanded: int) -> None:
        if not self._stack:
            self._root = value
            return
        top = self._stack[-1]
        top.expanded += expanded
        if top.expanded > self.limits.expanded:
            raise _refused(f"Aliases expand to over {self.limits.expanded} values.", "too_large", place)
        if isinstance(top.value, list):
            top.places[len(top.value)] = place
            top.value.append(value)
        elif not top.has_key:
            self._take_key(top, value, place)
        elif top.merging:
            top.merged.append((value, place))
            top.has_key = top.merging = False
        else:
            top.value[top.key] = value
            top.has_key = False

    def _take_key(self, top: _Open, value: Any, place: Place) -> None:
        if not isinstance(value, (str, int, float, bool, type(None))):
            raise _refused("A key must be a plain word.", "yaml_key", place)
        key = value if isinstance(value, str) else str(value)
        if key in top.places:
            line = top.places[key][0]
            self.faults.append(
                _fault(f'The key "{key}" stands here already, in line {line}.', "duplicate_key", place)
            )
        top.places[key] = place
        top.key, top.has_key = key, True

    def _merge(self, done: _Open) -> None:
        """Carry out ``<<``: what a mapping says itself wins, then the earlier of those merged."""
        mapping = cast("dict[Hashable, Any]", done.value)
        for value, place in done.merged:
            for source in value if isinstance(value, list) else [value]:
                if not isinstance(source, dict):
                    self.faults.append(_fault("Only mappings can be merged with <<.", "yaml_merge", place))
                    continue
                places = self._children.get(id(source), {})
                for key, one in source.items():
                    if key not in mapping:
                        mapping[key] = one
                        done.places[key] = places.get(key, place)

    _handlers: dict[type[yaml.Event], Callable[["_Builder", Any, Place], None]] = {
        yaml.DocumentStartEvent: _start_document,
        yaml.ScalarEvent: _scalar,
        yaml.MappingStartEvent: _start,
        yaml.SequenceStartEvent: _start,
        yaml.MappingEndEvent: _end,
        yaml.SequenceEndEvent: _end,
        yaml.AliasEvent: _alias,
    }


class _Scalars:
    """Scalars as SafeLoader reads them; remembers, because words repeat in a long document."""

    def __init__(self) -> None:
        self._resolver: Any = yaml.resolver.Resolver()
        self._constructor = yaml.constructor.SafeConstructor()
        self._known: dict[tuple[str, str | None, bool], tuple[Any, str | None]] = {}

    def read(self, event: yaml.ScalarEvent) -> tuple[Any, str | None]:
        """The value and its tag; a tag of None says that the written one is not accepted."""
        if event.tag is None and not event.implicit[0]:
            return event.value, _STRING
        known = (event.value, event.tag, event.implicit[0])
        if known not in self._known:
            self._known[known] = self._read(event)
        return self._known[known]

    def _read(self, event: yaml.ScalarEvent) -> tuple[Any, str | None]:
        tag = event.tag or self._resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag in {_TIMESTAMP, _MERGE, _STRING, "tag:yaml.org,2002:value"} and not event.tag:
            return event.value, _MERGE if tag == _MERGE else _STRING
        if tag not in _PLAIN_TAGS:
            return event.value, None
        try:
            return self._constructor.construct_object(yaml.ScalarNode(tag, event.value)), tag
        except (ValueError, KeyError, yaml.YAMLError):
            return event.value, _STRING


def _fault(message: str, code: str, place: Place) -> Fault:
    return Fault((), code, message, line=place[0], column=place[1])


def _refused(message: str, code: str, place: Place = (1, 1)) -> InvalidSpec:
    return InvalidSpec(message, [_fault(message, code, place)])


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
