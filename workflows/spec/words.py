"""The small languages inside a spec: names, amounts, durations, exit codes, labels."""

import re
from collections.abc import Iterator, Mapping

NAME = re.compile(r"[a-zA-Z]([a-zA-Z0-9_-]*[a-zA-Z0-9])?")
MAX_NAME = 64
RESERVED_TASKS = frozenset({"osmo-ctrl"})
MAX_LABELS = 16

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_UNITS = {
    "T": "T", "Ti": "Ti", "TiB": "Ti", "G": "G", "Gi": "Gi", "GiB": "Gi", "M": "M", "Mi": "Mi", "MiB": "Mi",
    "K": "k", "Ki": "Ki", "KiB": "Ki", "B": "", "m": "m", "": "",
}  # fmt: skip
UNITS = tuple(unit for unit in _UNITS if unit)

_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|ms|us|m|s|)")
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")

_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def name_fault(name: str) -> str | None:
    """What is wrong with a workflow's, group's or task's name, or None."""
    if len(name) > MAX_NAME:
        return f"The name has {len(name)} characters; at most {MAX_NAME} are accepted."
    if not NAME.fullmatch(name):
        return (
            f'The name "{name}" is not accepted: start with a letter, then letters, digits, "_" and "-", '
            "and end with a letter or digit."
        )
    return None


def folded(name: str) -> str:
    """What a name becomes where case and ``_`` do not count; names must differ in this."""
    return name.lower().replace("_", "-")


def quantity(text: str) -> str:
    """An amount of memory or storage as Kubernetes writes it: ``16GiB`` is ``16Gi``. Raises ValueError."""
    match = _AMOUNT.fullmatch(text.strip())
    if not match or match[2] not in _UNITS:
        raise ValueError(
            f'"{text}" is no amount; write a number and one of {", ".join(UNITS)}, such as 16Gi.'
        )
    return match[1] + _UNITS[match[2]]


def seconds(text: str) -> float:
    """A duration: ``90`` (seconds), ``8h``, or ISO 8601 (``PT8H``). Raises ValueError."""
    written = text.strip()
    if match := _DURATION.fullmatch(written):
        return float(match[1]) * _SECONDS[match[2]]
    match = _ISO.fullmatch(written)
    if match and any(match.groups()):
        days, hours, minutes, rest = (float(part or 0) for part in match.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + rest
    raise ValueError(f'"{text}" is no duration; write 90 (seconds), 8h (one of d, h, m, s, ms, us) or PT8H.')


def exit_codes(text: str) -> Iterator[tuple[int, int]]:
    """Ranges of exit codes, both ends included: ``1-3,7`` is (1, 3) and (7, 7). Raises ValueError."""
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.strip().isdecimal()):
            raise ValueError(f'"{text}" is no list of exit codes; write for example 1-3,7.')
        low = int(first)
        high = int(last) if dash else low
        if high < low:
            raise ValueError(f'"{part.strip()}" runs backwards; write the smaller exit code first.')
        yield low, high


def label_faults(labels: Mapping[str, str]) -> Iterator[tuple[str | None, str]]:
    """What is wrong with labels: (key, sentence); the key is None for a fault of all together."""
    if len(labels) > MAX_LABELS:
        yield None, f"There are {len(labels)} labels; at most {MAX_LABELS} are accepted."
    for key, value in labels.items():
        prefix, slash, word = key.rpartition("/")
        if not _WORD.fullmatch(word) or (slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix))):
            yield key, f'"{key}" is no label key of Kubernetes, such as team or example.com/team.'
        if not _WORD.fullmatch(value):
            message = (
                f'"{value}" is no label value: 1 to 63 letters, digits, "-", "_" and ".", beginning and '
                "ending with a letter or digit."
            )
            yield key, message
