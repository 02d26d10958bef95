"""The small languages inside a spec: names, amounts, exit codes, labels, and the fields that reach a pod.

The service refuses here, with line and column, whatever the API server would refuse of a pod, because a pod
is created long after the reply. Names of variables follow Kubernetes 1.28 (later versions accept more);
patterns accept ASCII digits only, as Kubernetes does.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING, Decimal

from pools.documents.yaml_text import LIKE_SPACE
from scheduling import names
from scheduling.kubernetes_syntax import is_label_key, is_label_value, is_object_name
from scheduling.sentences import character, count_of, listing

NAME = re.compile(r"[a-zA-Z]([a-zA-Z0-9_-]*[a-zA-Z0-9])?")
MAX_NAME = 64
RESERVED_TASKS = frozenset({"osmo-ctrl", names.START_BARRIER})
MAX_LABELS = 16
MAX_QUOTED = 63
"""Most characters of a user's text that a message repeats."""

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
_USABLE_BYTES = 2**20
UNITS = tuple(unit for unit in _UNITS if unit)
_ANY_CASE = {unit.lower(): unit for unit in UNITS if unit != "m"} | {
    "tb": "T",
    "gb": "G",
    "mb": "M",
    "kb": "K",
}

_VARIABLE = re.compile(r"(?!\.\.|\.\Z)[-._a-zA-Z][-._a-zA-Z0-9]{0,252}")
_SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def quoted(text: str) -> str:
    """Quote a user's text in a message, cut to its first characters; what looks like a space is named."""
    words = listing([text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 3] + "..."])
    sign = re.search(f"{LIKE_SPACE.pattern}|\t", text)
    return f"{words} with {character(sign[0])}" if sign else words


def name_fault(name: str) -> str | None:
    """The fault of the name of a workflow, group or task; None if it is accepted."""
    if len(name) > MAX_NAME:
        return f"The name has {len(name)} characters; at most {MAX_NAME} are accepted."
    if not NAME.fullmatch(name):
        return (
            f"The name {quoted(name)} is not accepted. A name starts with a letter, ends with a letter or "
            'digit, and has letters, digits, "_" and "-" between.'
        )
    return None


def folded_name(name: str) -> str:
    """A name in lower case with ``-`` for ``_``; two names must differ in this form."""
    return name.lower().replace("_", "-")


def quantity(text: str) -> str:
    """An amount of memory or storage as Kubernetes writes it: ``16GiB`` is ``16Gi``. Raises ValueError.

    Parts of a byte are rounded up.
    """
    number, unit, size = _measured(text)
    return str(size) if unit == "m" or "." in number else str(int(number)) + unit


def tiny_amount(text: str) -> str | None:
    """The predicate of an amount that is less than any container needs; None for any other text."""
    try:
        number, unit, size = _measured(text)
    except ValueError:
        return None
    if not 0 < size < _USABLE_BYTES:
        return None
    why = {"": ", for a number without a unit counts bytes", "m": ', for "m" is a thousandth'}.get(unit, "")
    larger = number + {"m": "M", "k": "M", "M": "G", "Mi": "Gi"}.get(unit, "Mi")
    return f"is {count_of(size, 'byte')}{why}. Write for example {larger}."


def _measured(text: str) -> tuple[str, str, int]:
    """The number of an amount, its unit as Kubernetes writes it, and its bytes. Raises ValueError."""
    match = _AMOUNT.fullmatch(text.strip())
    if not match or match[2] not in _UNITS:
        near = _ANY_CASE.get(match[2].lower()) if match else None
        hint = f" Did you mean {match[1]}{near}?" if match and near else ""
        raise ValueError(
            f"{quoted(text)} is not an amount.{hint} Write a number and one of {', '.join(UNITS)}, "
            "for example 16Gi."
        )
    unit = _UNITS[match[2]]
    size = (Decimal(match[1]) * _BYTES[unit]).to_integral_value(ROUND_CEILING)
    if size > _MOST_BYTES:
        raise ValueError(f"{quoted(text)} is too large. Kubernetes accepts at most {_MOST_BYTES} bytes.")
    return match[1], unit, int(size)


def exit_codes_text(ranges: tuple[tuple[int, int], ...]) -> str:
    """Ranges of exit codes as the grammar writes them: ``1-3,7``."""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def shared_exit_code(
    actions: Mapping[str, tuple[tuple[int, int], ...]],
) -> tuple[str, str, int] | None:
    """Two exit actions that name the same exit code, and that code; None if no two do."""
    spans = sorted((low, high, action) for action, ranges in actions.items() for low, high in ranges)
    until, last = -1, ""
    for low, high, action in spans:
        if low <= until and action != last:
            return last, action, low
        if high > until:
            until, last = high, action
    return None


def label_faults(labels: Mapping[str, str]) -> Iterator[tuple[str | None, str]]:
    """The faults of labels as (key, sentence); the key is None for a fault of all labels together."""
    if len(labels) > MAX_LABELS:
        yield None, f"There are {len(labels)} labels; at most {MAX_LABELS} are accepted."
    for key, value in labels.items():
        if not is_label_key(key):
            yield (
                key,
                f"{quoted(key)} is not a Kubernetes label key. Write for example team or example.com/team.",
            )
        if not (value and is_label_value(value)):  # OSMO has no empty label
            message = (
                f'{quoted(value)} is not a label value. Such a value has 1 to 63 letters, digits, "-", "_" '
                'and ".", and begins and ends with a letter or digit.'
            )
            yield key, message


def variable_fault(name: str) -> str | None:
    """The fault of the name of an environment variable; None if it is accepted."""
    if _VARIABLE.fullmatch(name):
        return None
    return (
        f'{quoted(name)} is not a name of an environment variable. Such a name has letters, digits, "_", "-" '
        'and ".", and begins neither with a digit nor with "..".'
    )


def _directory_fault(text: str) -> str | None:
    """The fault of an absolute path; None if it is accepted."""
    steps = text.split("/")
    if text.startswith("/") and ".." not in steps and ":" not in text and text.isprintable():
        return None
    return f'{quoted(text)} is not accepted as a path. A path begins with "/" and has neither ".." nor ":".'


def mount_path_fault(text: str) -> str | None:
    """The fault of a path inside a container at which something is mounted; None if it is accepted.

    An API server accepts "/", but then no runtime starts the container.
    """
    if _directory_fault(text) is None and normal_path(text) == "/":
        return f"Nothing can be mounted at {quoted(text)}, the whole container. Write a path below it."
    return _directory_fault(text)


def normal_path(text: str) -> str:
    """A path in normal form: two paths name one place if their normal forms are equal."""
    return posixpath.normpath("/" + text.lstrip("/"))


def mount_fault(text: str) -> str | None:
    """The fault of a volume mount, ``/source`` or ``/source:/target``; None if it is accepted."""
    source, _, target = text.partition(":")
    if (
        _directory_fault(source) is None
        and _directory_fault(target or source) is None
        and not text.endswith(":")
    ):
        return mount_path_fault(target or source)
    return f'{quoted(text)} is not a mount. Write /source or /source:/target, absolute paths without "..".'


def node_fault(name: str) -> str | None:
    """The fault of a node's name; None if it is accepted. It must fit the label that it is compared with."""
    if is_object_name(name, limit=names.MAX_NAME):
        return None
    return (
        f'{quoted(name)} is not a name of a node. Such a name has lower-case letters, digits, "-" and ".", '
        f"at most {names.MAX_NAME} characters."
    )


def credential_fault(name: str) -> str | None:
    """The fault of the name of a credential, which becomes that of a Secret; None if it is accepted.

    Names that begin as the service's own do are refused: a task group's files are Secrets in the same
    namespace.
    """
    if name.startswith(names.OWN_PREFIX):
        return (
            f"{quoted(name)} is not a name of a credential: those that begin with {names.OWN_PREFIX} are "
            "reserved for task groups."
        )
    if is_object_name(name, limit=names.MAX_CREDENTIAL):
        return None
    return (
        f'{quoted(name)} is not a name of a credential. Such a name has lower-case letters, digits, "-" and '
        f'".", at most {names.MAX_CREDENTIAL} characters.'
    )


def secret_key_fault(name: str) -> str | None:
    """The fault of a key of a Secret; None if it is accepted."""
    if _SECRET_KEY.fullmatch(name):
        return None
    return f'{quoted(name)} is not a key of a Secret. A key has letters, digits, "-", "_" and ".".'
