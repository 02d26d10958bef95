"""YAML text to plain data that remembers the place of every value.

A fault must name line and column, and hostile text must not cost more than its size. libyaml reads the text
as a stream of events, and this module assembles them without recursion; depth, aliases and duplicate keys are
refused while reading. Aliases share one object. The size that they would expand to is counted, so a few lines
that stand for a billion values are refused before anything walks them.

Scalars follow YAML 1.1 as PyYAML's SafeLoader reads them, which OSMO's users know, with three exceptions.
Keys are taken as written (``on: 1`` names ``on``, not ``True``). Dates stay text, because no field holds one.
So do numbers of absurd length, whose arithmetic would be the attack.

Rejected: ``yaml.compose``, which recurses in C (PyYAML 6.0.3 dies of a segmentation fault on a few million
``[``) and is slower than assembling the events here.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import yaml
from yaml.reader import Reader

from scheduling.errors import Fault, InvalidSpec, Path
from scheduling.sentences import character, count_of, listing
from web.children import JobBounds

LineAndColumn = tuple[int, int]
"""Line and column, counted from 1."""

ValueMarks = dict[str | int, yaml.Mark | LineAndColumn]
"""Where the values of one list or mapping begin: marks as they are read, of which few are ever needed."""

_PREFIX = "tag:yaml.org,2002:"
_MERGE = _PREFIX + "merge"
_STR = _PREFIX + "str"
_PLAIN_TAGS = frozenset(_PREFIX + name for name in ("null", "bool", "int", "float", "str", "map", "seq"))
_READ_TAGS = frozenset(_PREFIX + name for name in ("null", "bool", "int", "float"))
_LONGEST_NUMBER = 100
LONG_TEXT = 64
"""So many characters of a text count as one value more: a value that an alias repeats is checked, rendered
and stored anew each time, so a long text under many aliases costs as much as many values."""
INLINE_CHARACTERS = 16 * 1024
"""So long a text without aliases is read in a few hundredths of a second, and so where it is needed."""
READING_BOUNDS: Final = JobBounds(cpu_seconds=20, seconds=60.0, memory=512 * 2**20, answer=64 * 2**20)
"""What the reading of any other text may take, in a process of its own."""
_ANCHOR, _ALIAS = re.compile(r"&[\w-]"), re.compile(r"\*[\w-]")
LIKE_SPACE = re.compile("[\u00a0\u00ad\u1680\u180e\u2000-\u200f\u202f\u205f\u2060\u3000\ufeff]")
"""What looks like a space or like nothing, and is a letter to YAML."""
_MISPLACED = re.compile(rf"(?:^[ -]*|[:,[{{])({LIKE_SPACE.pattern})")
"""Such a character where YAML needs a space."""
_TAG_DIRECTIVE = re.compile("(?:^|[\r\x85\u2028\u2029\ufeff])%TAG", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLimits:
    """What a submitted text may cost to read. Sizes are in characters.

    ``entries`` bounds one list or mapping, ``values`` the whole document with its aliases followed,
    ``faults`` what is reported of a text that is wrong everywhere.
    """

    size: int = 8 * 2**20
    depth: int = 50
    aliases: int = 20_000
    entries: int = 20_000
    values: int = 1_000_000
    faults: int = 1_000


class LocatedText(Protocol):
    """What knows where the values of a text are."""

    def locate_all(self, paths: Sequence[Path]) -> list[LineAndColumn]:
        """Line and column of each path; of its nearest ancestor where the text has no such place."""


@dataclass(frozen=True, slots=True)
class Respelling:
    """A scalar that YAML 1.1 reads as a value that is written otherwise: ``0755`` is 493, ``no`` is False.

    ``count`` values below the same names are written so; ``path`` is that of the first of them.
    """

    path: Path
    written: str
    value: object
    count: int


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """Parsed data, and the place of every value in the text. A mapping's value is placed at its key."""

    data: Any
    _root: LineAndColumn
    _children: dict[int, ValueMarks]
    respellings: tuple[Respelling, ...] = ()

    def locate(self, path: Path) -> LineAndColumn:
        """Line and column of a path; of its nearest ancestor where the text has no such place."""
        value, place = self.data, self._root
        for step in path:
            places = self._children.get(id(value), {})
            if step not in places:
                break
            place = _place(places[step])
            value = value[step]
        return place

    def locate_all(self, paths: Sequence[Path]) -> list[LineAndColumn]:
        return [self.locate(path) for path in paths]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the places with their containers, since these have other ids elsewhere."""
        containers: dict[int, Any] = {}
        stack = [self.data]
        while stack:
            value = stack.pop()
            if isinstance(value, (dict, list)) and id(value) not in containers:
                containers[id(value)] = value
                stack += value.values() if isinstance(value, dict) else value
        places = [  # a mark takes four times as many bytes
            (value, {step: _place(mark) for step, mark in self._children.get(key, {}).items()})
            for key, value in containers.items()
        ]
        return _restored, (self.data, self._root, places, self.respellings)

    @classmethod
    def empty(cls) -> "ParsedDocument":
        """The document of no text, whose every path is at its beginning."""
        return cls(None, (1, 1), {})


def _restored(
    data: Any,
    root: LineAndColumn,
    places: Sequence[tuple[Any, ValueMarks]],
    respellings: tuple[Respelling, ...],
) -> ParsedDocument:
    return ParsedDocument(data, root, {id(value): children for value, children in places}, respellings)


def is_large(text: str) -> bool:
    """Whether reading may take long: a long text, or one that repeats parts of itself."""
    if len(text) > INLINE_CHARACTERS:
        return True
    return _ANCHOR.search(text) is not None and _ALIAS.search(text) is not None


def parse_document(text: str, *, limits: TextLimits) -> ParsedDocument:
    """Read one YAML document. Raises InvalidSpec with every fault that can be found at once."""
    check_text(text, limits=limits)
    builder = _Builder(limits)
    try:
        builder.take_all(iter(yaml.CSafeLoader(text).get_event, None))
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(text, error) from error
    except yaml.YAMLError as error:
        raise _refused(f"This is not YAML: {str(error)[:200]}.", "yaml_syntax") from error
    if builder.faults:
        raise InvalidSpec("The document cannot be accepted.", builder.faults)
    return builder.document()


def _syntax_error(text: str, error: yaml.MarkedYAMLError) -> InvalidSpec:
    """The refusal of what libyaml cannot read; a tab or what looks like a space is named as the cause."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    problem = ", ".join(part for part in (error.context, error.problem) if part)
    lines = text.splitlines()
    tab = re.match(r" *(\t)", lines[line - 1]) if line <= len(lines) else None
    misplaced = [(at, match) for at, words in enumerate(lines, 1) if (match := _MISPLACED.search(words))]
    near = [(at, match) for at, match in misplaced if line - 2 <= at <= line]
    if near:
        (line, match), others = near[0], len(misplaced) - 1
        column = match.start(1) + 1
        more = f", as in {count_of(others, 'other line')}" if others else ""
        problem = f"{character(match[1])} stands here{more}. YAML takes it for a letter; write a space"
    elif tab:
        column = tab.start(1) + 1
        problem = f"{character(tab[1])} stands here. YAML indents with spaces alone"
    return _refused(f"This is not YAML: {problem}.", "yaml_syntax", (line, column))


def check_text(text: str, *, limits: TextLimits) -> None:
    """Refuse text that is too long or holds characters YAML forbids. Raises InvalidSpec."""
    if len(text) > limits.size:
        raise _refused(f"The text has {len(text)} characters; at most {limits.size} are read.", "too_large")
    if bad := Reader.NON_PRINTABLE.search(text):
        at = bad.start()
        place = (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
        raise _refused(f"The character {bad[0]!a} is not allowed in YAML.", "yaml_character", place)
    if "%TAG" in text and (directive := _TAG_DIRECTIVE.search(text)):  # libyaml compares each with all before
        place = (text.count("\n", 0, directive.end()) + 1, 1)
        raise _refused("The directive %TAG is not accepted; leave it out.", "yaml_tag", place)


@dataclass(slots=True)
class _Open:
    """A container being filled."""

    value: Any
    mark: Any
    anchor: str | None
    is_mapping: bool

    wants_key: bool
    """Whether what comes next is a key."""

    places: ValueMarks = field(default_factory=dict)

    key: str = ""
    """A mapping's key that waits for its value."""

    merging: bool = False
    """Whether it is what ``<<`` merges."""

    merged: list[tuple[Any, yaml.Mark]] = field(default_factory=list)
    count: int = 1


@dataclass(frozen=True, slots=True)
class _Anchored:
    """The value of an anchor, and how many values it stands for; 0 while it is still being read."""

    value: Any
    count: int


class _Builder:
    """Assembles events; ``faults`` collects what does not stop the reading."""

    def __init__(self, limits: TextLimits) -> None:
        self.limits = limits
        self._most_values, self._most_entries = limits.values, limits.entries
        self.faults: list[Fault] = []
        self._document = _Open([], None, None, is_mapping=False, wants_key=False, count=0)
        self._stack = [self._document]
        self._documents = 0
        self._aliases = 0
        self._anchors: dict[str, _Anchored] = {}
        self._children: dict[int, ValueMarks] = {}
        self._scalars = _Scalars()
        self._respellings: dict[tuple[str, ...], Respelling] = {}

    def document(self) -> ParsedDocument:
        respellings = tuple(self._respellings.values())
        if not self._document.value:
            return ParsedDocument.empty()
        root = _place(self._document.places[0])
        return ParsedDocument(self._document.value[0], root, self._children, respellings)

    def take_all(self, events: Iterable[Any]) -> None:
        """Assemble events; nearly all the time of a long text is spent in here, event by event.

        Most are short words without anything special: those are assembled right here.
        """
        handlers, stack, words = self._handlers, self._stack, self._scalars.words
        scalar, most_values, most_entries = yaml.ScalarEvent, self._most_values, self._most_entries
        for event in events:
            kind, top = type(event), stack[-1]
            if kind is scalar and event.tag is None and not event.anchor and top.count < most_values:
                text = event.value
                if len(text) >= LONG_TEXT or "\0" in text:
                    pass
                elif top.wants_key:
                    if text != "<<" and text not in top.places:
                        top.places[text] = event.start_mark
                        top.key, top.wants_key = text, False
                        top.count += 1
                        continue
                elif ((word := words.get(text)) or not event.implicit[0]) and len(top.value) < most_entries:
                    if not top.is_mapping:
                        top.places[len(top.value)] = event.start_mark
                        top.value.append(word or text)
                        top.count += 1
                        continue
                    if not top.merging:
                        top.value[top.key] = word or text
                        top.wants_key = True
                        top.count += 1
                        continue
            if handler := handlers.get(kind):
                handler(self, event)

    def _start_document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            message = "A second YAML document begins here; only one is read."
            raise _refused(message, "yaml_documents", _place(event.start_mark))

    def _scalar(self, event: Any) -> None:
        top, text, mark = self._stack[-1], event.value, event.start_mark
        value, tag = self._scalars.read(event, as_key=top.wants_key)
        if tag is not _STR:
            if tag is None:
                self._fault(f"The tag {event.tag[:63]} is not accepted; leave it out.", "yaml_tag", mark)
            elif tag is _MERGE:
                top.merging, top.wants_key = True, False
                return
            elif value is not None and event.tag is None and str(value) != text:
                self._note_respelling(text, value)
        if "\0" in text:
            self._fault("Text cannot hold the character NUL.", "yaml_character", mark)
        count = 1 + len(text) // LONG_TEXT
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, count)
        self._add(value, mark, count)

    def _note_respelling(self, written: str, value: object) -> None:
        path = tuple(part.key if part.is_mapping else len(part.value) for part in self._stack[1:])
        names = (*(step for step in path if isinstance(step, str)), written)
        if first := self._respellings.get(names):
            self._respellings[names] = replace(first, count=first.count + 1)
        elif len(self._respellings) < self.limits.faults:
            self._respellings[names] = Respelling(path, written, value, count=1)

    def _start(self, event: Any) -> None:
        mark = event.start_mark
        if len(self._stack) > self.limits.depth:
            raise _refused(f"Nested deeper than {self.limits.depth} levels.", "too_deep", _place(mark))
        if event.tag is not None and event.tag not in _PLAIN_TAGS:
            self._fault(f"The tag {event.tag[:63]} is not accepted; leave it out.", "yaml_tag", mark)
        if self._stack[-1].wants_key:
            raise _bad_key(mark)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        value: Any = {} if is_mapping else []
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, 0)
        self._stack.append(_Open(value, mark, event.anchor, is_mapping, wants_key=is_mapping))

    def _end(self, _: Any) -> None:
        done = self._stack.pop()
        if done.merged:
            self._merge(done)
        self._children[id(done.value)] = done.places
        if done.anchor:
            self._anchors[done.anchor] = _Anchored(done.value, done.count)
        self._add(done.value, done.mark, done.count)

    def _alias(self, event: Any) -> None:
        mark = event.start_mark
        self._aliases += 1
        if self._aliases > self.limits.aliases:
            raise _refused(f"More than {self.limits.aliases} aliases.", "too_many_aliases", _place(mark))
        anchored = self._anchors.get(event.anchor)
        if anchored is None or anchored.count == 0:
            target = "nothing defined before it" if anchored is None else "something that holds it"
            message = f"The alias *{event.anchor[:63]} stands for {target}."
            raise _refused(message, "yaml_alias", _place(mark))
        self._add(anchored.value, mark, anchored.count)

    def _add(self, value: Any, mark: yaml.Mark, count: int) -> None:
        top = self._stack[-1]
        top.count = total = top.count + count
        if total > self._most_values:
            message = f"The document holds over {self.limits.values} values, aliases followed."
            raise _refused(message, "too_large", _place(mark))
        if top.wants_key:
            self._take_key(top, value, mark)
            return
        if not top.is_mapping:
            top.places[len(top.value)] = mark
            top.value.append(value)
        elif top.merging:
            top.merged.append((value, mark))
            top.merging, top.wants_key = False, True
        else:
            top.value[top.key] = value
            top.wants_key = True
        if len(top.value) > self._most_entries:
            message = f"A list or mapping has over {self.limits.entries} entries."
            raise _refused(message, "too_large", _place(mark))

    def _take_key(self, top: _Open, value: Any, mark: yaml.Mark) -> None:
        if isinstance(value, (list, dict)):
            raise _bad_key(mark)
        key = value if isinstance(value, str) else str(value)
        if key in top.places:
            line, _ = _place(top.places[key])
            message = f"The key {listing([key[:63]])} is in this mapping already, in line {line}."
            self._fault(message, "duplicate_key", mark)
        else:
            top.places[key] = mark
        top.key, top.wants_key = key, False

    def _merge(self, done: _Open) -> None:
        """Apply ``<<``: a mapping's own keys win, then those of the earlier merged mapping."""
        for value, mark in done.merged:
            for source in value if isinstance(value, list) else [value]:
                if not isinstance(source, dict):
                    self._fault("Only mappings can be merged with <<.", "yaml_merge", mark)
                    continue
                places = self._children[id(source)]
                for key, merged_value in source.items():
                    if key not in done.value:
                        done.value[key] = merged_value
                        done.places[key] = places.get(key, mark)

    def _fault(self, message: str, code: str, mark: yaml.Mark) -> None:
        if len(self.faults) < self.limits.faults:
            self.faults.append(_fault(message, code, _place(mark)))

    _handlers: dict[type[yaml.Event], Callable[["_Builder", Any], None]] = {
        yaml.DocumentStartEvent: _start_document,
        yaml.ScalarEvent: _scalar,
        yaml.MappingStartEvent: _start,
        yaml.SequenceStartEvent: _start,
        yaml.MappingEndEvent: _end,
        yaml.SequenceEndEvent: _end,
        yaml.AliasEvent: _alias,
    }


class _Scalars:
    """Scalars as SafeLoader reads them, with a cache of short ones, because words repeat."""

    def __init__(self) -> None:
        self._resolver: Any = yaml.resolver.Resolver()  # its stubs carry no annotations
        self._constructor = yaml.constructor.SafeConstructor()
        self._cache: dict[tuple[str, str | None], tuple[Any, str | None]] = {}
        self.words: dict[str, str] = {}
        """Plain texts that stand for themselves, each as one object wherever it is written."""

    def read(self, event: Any, *, as_key: bool) -> tuple[Any, str | None]:
        """The value and its tag; the tag is None if the written one is not accepted."""
        text, tag = event.value, event.tag
        if tag is None and not event.implicit[0]:
            return text, _STR
        if as_key and tag is None:
            return text, _MERGE if text == "<<" else _STR
        if len(text) > _LONGEST_NUMBER:
            return text, _STR if tag is None or tag in _PLAIN_TAGS else None
        scalar = self._cache.get((text, tag))
        if scalar is None:
            scalar = self._cache[text, tag] = self._read(text, tag)
            if scalar[1] is _STR and tag is None:
                self.words[text] = text
        return scalar

    def _read(self, text: str, written: str | None) -> tuple[Any, str | None]:
        if written is not None and written not in _PLAIN_TAGS:
            return text, None
        tag = written or self._resolver.resolve(yaml.ScalarNode, text, (True, False))
        if tag not in _READ_TAGS:
            return text, _STR
        try:
            return self._constructor.construct_object(yaml.ScalarNode(tag, text)), tag
        except (ValueError, KeyError, IndexError, OverflowError, yaml.YAMLError):
            return text, _STR  # `!!int word`, or `0x_`: no number after all


def _bad_key(mark: yaml.Mark) -> InvalidSpec:
    message = "A key must be a plain word, not a list or a mapping. Text that begins with { needs quotes."
    return _refused(message, "yaml_key", _place(mark))


def _place(mark: yaml.Mark | LineAndColumn) -> LineAndColumn:
    return mark if isinstance(mark, tuple) else (mark.line + 1, mark.column + 1)


def _fault(message: str, code: str, place: LineAndColumn) -> Fault:
    return Fault((), code, message, line=place[0], column=place[1])


def _refused(message: str, code: str, place: LineAndColumn = (1, 1)) -> InvalidSpec:
    return InvalidSpec(message, [_fault(message, code, place)])
