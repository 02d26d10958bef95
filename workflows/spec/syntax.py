"""The small languages inside a spec: names, amounts, exit codes, labels, and what becomes part of a pod.

Whatever the API server would refuse of a pod is refused here, with its place in the text, because a pod is
created long after the answer was given. What Kubernetes 1.28 accepts is the measure for names of variables
(later versions are laxer); patterns know ASCII digits only, as Kubernetes does.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING, Decimal

from scheduling import names
from scheduling.levels import is_label_key
from scheduling.sentences import listing

NAME = re.compile(r"[a-zA-Z]([a-zA-Z0-9_-]*[a-zA-Z0-9])?")
MAX_NAME = 64
RESERVED_TASKS = frozenset({"osmo-ctrl"})
MAX_LABELS = 16
MAX_SHOWN = 63
"""Characters of a user's text that a message repeats."""

_AMOUNT = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)")
_UNITS = {
    "T": "T", "Ti": "Ti", "TiB": "Ti", "G": "G", "Gi": "Gi", "GiB": "Gi", "M": "M", "Mi": "Mi", "MiB": "Mi",
    "K": "k", "Ki": "Ki", "KiB": "Ki", "B": "", "m": "m", "": "",
}  # fmt: skip
_BYTES: Mapping[str, int | Decimal] = {
    "T": 10**12, "Ti": 2**40, "G": 10**9, "Gi": 2**30, "M": 10**6, "Mi": 2**20, "k": 1000, "Ki": 1024, "": 1,
    "m": Decimal("0.001"),
}  # fmt: skip
_MOST_BYTES = 2**63 - 1
UNITS = tuple(unit for unit in _UNITS if unit)

_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]{0,252}")
_SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def shown(text: str) -> str:
    """A user's text, quoted, as much of it as a message can hold."""
    return listing([text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."])


def name_fault(name: str) -> str | None:
    """What is wrong with a workflow's, group's or task's name, or None."""
    if len(name) > MAX_NAME:
        return f"The name has {len(name)} characters; at most {MAX_NAME} are accepted."
    if not NAME.fullmatch(name):
        return (
            f'The name {shown(name)} is not accepted: start with a letter, then letters, digits, "_" and '
            '"-", and end with a letter or digit.'
        )
    return None


def folded(name: str) -> str:
    """What a name becomes where case and ``_`` do not count; names must differ in this."""
    return name.lower().replace("_", "-")


def quantity(text: str) -> str:
    """An amount of memory or storage as Kubernetes writes it: ``16GiB`` is ``16Gi``. Raises ValueError.

    Parts of a byte are rounded up.
    """
    match = _AMOUNT.fullmatch(text.strip())
    if not match or match[2] not in _UNITS:
        raise ValueError(
            f"{shown(text)} is no amount; write a number and one of {', '.join(UNITS)}, such as 16Gi."
        )
    unit = _UNITS[match[2]]
    size = (Decimal(match[1]) * _BYTES[unit]).to_integral_value(ROUND_CEILING)
    if size > _MOST_BYTES:
        raise ValueError(f"{shown(text)} is more than Kubernetes can count.")
    return str(int(size)) if unit == "m" or "." in match[1] else str(int(match[1])) + unit


def codes_text(ranges: tuple[tuple[int, int], ...]) -> str:
    """Ranges of exit codes as the grammar writes them: ``1-3,7``."""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def claimed_twice(
    actions: Mapping[str, tuple[tuple[int, int], ...]],
) -> tuple[str, str, int] | None:
    """Two exit actions that claim the same code, and that code; None if there are none."""
    spans = sorted((low, high, action) for action, ranges in actions.items() for low, high in ranges)
    until, holder = -1, ""
    for low, high, action in spans:
        if low <= until and action != holder:
            return holder, action, low
        if high > until:
            until, holder = high, action
    return None


def is_label_value(text: str) -> bool:
    """Whether a text may be the value of a label here: Kubernetes' rule, without the empty one."""
    return _LABEL_VALUE.fullmatch(text) is not None


def label_faults(labels: Mapping[str, str]) -> Iterator[tuple[str | None, str]]:
    """What is wrong with labels: (key, sentence); the key is None for a fault of all together."""
    if len(labels) > MAX_LABELS:
        yield None, f"There are {len(labels)} labels; at most {MAX_LABELS} are accepted."
    for key, value in labels.items():
        if not is_label_key(key):
            yield key, f"{shown(key)} is no label key of Kubernetes, such as team or example.com/team."
        if not is_label_value(value):
            message = (
                f'{shown(value)} is no label value: 1 to 63 letters, digits, "-", "_" and ".", beginning and '
                "ending with a letter or digit."
            )
            yield key, message


def variable(name: str) -> str | None:
    """What is wrong with the name of an environment variable, or None."""
    if _VARIABLE.fullmatch(name):
        return None
    return (
        f'{shown(name)} is no name of an environment variable: letters, digits, "_", "-" and ".", not '
        "beginning with a digit."
    )


def image(text: str) -> str | None:
    """What is wrong with an image's name as far as can be told without its registry, or None."""
    if text and text.isprintable() and not any(letter.isspace() for letter in text):
        return None
    return f"{shown(text)} is no image; write for example nvcr.io/nvidia/pytorch:25.10-py3."


def directory(text: str) -> str | None:
    """What is wrong with an absolute path, or None."""
    steps = text.split("/")
    if text.startswith("/") and ".." not in steps and ":" not in text and text.isprintable():
        return None
    return f'{shown(text)} is no path here: it begins with "/" and holds neither ".." nor ":".'


def place(text: str) -> str | None:
    """What is wrong with a path inside a container at which something is mounted, or None.

    An API server takes "/", and then no runtime starts the container.
    """
    if directory(text) is None and plain_path(text) == "/":
        return f"{shown(text)} is the whole container; write a path below it."
    return directory(text)


def plain_path(text: str) -> str:
    """A path without what says nothing: two paths are one place if this is the same."""
    return posixpath.normpath("/" + text.lstrip("/"))


def mount(text: str) -> str | None:
    """What is wrong with a volume mount, ``/source`` or ``/source:/target``, or None."""
    source, _, target = text.partition(":")
    if directory(source) is None and directory(target or source) is None and not text.endswith(":"):
        return place(target or source)
    return f'{shown(text)} is no mount; write /source or /source:/target, absolute paths without "..".'


def node(name: str) -> str | None:
    """What is wrong with a node's name, or None. It is compared with a label, so 63 characters at most."""
    if len(name) <= MAX_SHOWN and _SUBDOMAIN.fullmatch(name):
        return None
    return f"{shown(name)} is no name of a node."


def secret(name: str) -> str | None:
    """What is wrong with the name of a credential, which becomes that of a Secret, or None.

    Names of ours are refused: a task group's own files are Secrets in the same namespace.
    """
    if name.startswith(names.OWN_PREFIX):
        return f"{shown(name)} may be a Secret of a task group: no credential begins with {names.OWN_PREFIX}."
    if len(name) <= names.MAX_CREDENTIAL and _SUBDOMAIN.fullmatch(name):
        return None
    return (
        f'{shown(name)} is no name of a credential: lower-case letters, digits, "-" and ".", at most '
        f"{names.MAX_CREDENTIAL} characters."
    )


def secret_key(name: str) -> str | None:
    """What is wrong with a key of a Secret, or None."""
    if _SECRET_KEY.fullmatch(name):
        return None
    return f'{shown(name)} is no key of a Secret: letters, digits, "-", "_" and ".".'
