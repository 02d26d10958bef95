"""Variables of pod templates: ``{{USER_CPU}}`` is the CPU that the task asks for.

A variable is replaced once by a text that is known of the task. The replacement is not read again and nothing
is evaluated, so neither a template nor a user's text can run anything. Names are OSMO's; names without a
meaning here (``USER_CACHE``) are refused when a template is saved, like everything else in double braces. An
amount whose variable has no value is left out of the pod: ``nvidia.com/gpu: "{{USER_GPU}}"`` of a task
without GPUs.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from scheduling import names

FieldPath = tuple[int | str, ...]

_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_ALL_UNITS: Mapping[str, Decimal] = {
    "": Decimal(1),
    "B": Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    **{unit: Decimal(size) for unit, size in _UNITS.items()},
}
_OF_AMOUNT = ("VAL", "UNIT", *_UNITS)
CONTAINER = "USER_CONTAINER_NAME"
USER_CONTAINER = "{{USER_CONTAINER_NAME}}"
"""How a template names the container that runs the user's command."""

SUBMITTED_BY = "WF_SUBMITTED_BY"
UNIQUE_SUBMITTED_BY = "WF_SUBMITTED_BY_UNIQUE"
"""The user in a form that no other user has; the label of ``WF_SUBMITTED_BY`` may be that of several."""

DEFAULTS = ("USER_CPU", "USER_MEMORY", "USER_STORAGE")
"""Variables to which a pool and a platform may give a default, for tasks that ask for none."""

WORKFLOW: Mapping[str, str] = {
    "WF_GROUP_NAME": "osmo.group_name",
    "WF_GROUP_UUID": "osmo.group_uuid",
    "WF_ID": "osmo.workflow_id",
    "WF_LEAD_CONTAINER": "osmo.lead_container",
    "WF_PLATFORM": "osmo.platform",
    "WF_POOL": "osmo.pool",
    "WF_PRIORITY": "osmo.priority",
    "WF_RETRY_ID": "osmo.retry_id",
    SUBMITTED_BY: "osmo.submitted_by",
    "WF_TASK_NAME": "osmo.task_name",
    "WF_TASK_UUID": "osmo.task_uuid",
    "WF_UUID": "osmo.workflow_uuid",
}
"""Variable -> the label of the pod whose value it is."""

VARIABLES = tuple(
    sorted(
        {
            CONTAINER,
            UNIQUE_SUBMITTED_BY,
            "USER_CPU",
            "USER_EXCLUDED_NODES",
            "USER_GPU",
            *(f"USER_{kind}" for kind in ("MEMORY", "STORAGE")),
            *(f"USER_{kind}_{part}" for kind in ("MEMORY", "STORAGE") for part in _OF_AMOUNT),
            *WORKFLOW,
        }
    )
)

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
QUANTITY = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(m|k|[MGT]|[KMGT]i|B)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskValues:
    """The values of a task; amounts are Kubernetes quantities, empty for none."""

    container: str
    submitted_by: str
    cpu: str
    gpu: str
    memory: str
    storage: str
    excluded: tuple[str, ...]
    labels: Mapping[str, str]


def values_of(task: TaskValues, *, defaults: Mapping[str, str]) -> dict[str, str]:
    """Every variable with its text, empty where the task has no value."""
    values = dict.fromkeys(VARIABLES, "")
    values |= {
        CONTAINER: task.container,
        UNIQUE_SUBMITTED_BY: unique_word(task.submitted_by),
        "USER_CPU": task.cpu or str(defaults.get("USER_CPU", "")),
        "USER_GPU": task.gpu,
        "USER_EXCLUDED_NODES": ",".join(task.excluded),
        **_amount("USER_MEMORY", task.memory or str(defaults.get("USER_MEMORY", ""))),
        **_amount("USER_STORAGE", task.storage or str(defaults.get("USER_STORAGE", ""))),
    }
    return values | {name: task.labels.get(label, "") for name, label in WORKFLOW.items()}


def _amount(name: str, text: str) -> dict[str, str]:
    match = QUANTITY.fullmatch(text)
    if match is None:
        return {name: text}
    number, unit = match[1], match[2] or ""
    exact = Decimal(number) * _ALL_UNITS[unit]
    parts = {f"{name}_{binary_unit}": _plain(exact / size) for binary_unit, size in _UNITS.items()}
    return {name: text, f"{name}_VAL": number, f"{name}_UNIT": unit or "B", **parts}


def _plain(number: Decimal) -> str:
    """A number without exponent and trailing zeros, with at most ten places."""
    text = f"{number:.10f}".rstrip("0").rstrip(".")
    return text or "0"


def unique_word(name: str) -> str:
    """A user's name in a-z, 0-9, ``-`` and ``_``: one word for each name, also where case does not count.

    Every other character is written as ``_`` and two hex digits for each of its bytes. A word of more than 63
    characters is cut; two underscores, which no other word has, and a digest of the name take the place of
    the remainder.
    """
    word = "".join(
        character if character in _PLAIN else "".join(f"_{octet:02x}" for octet in character.encode())
        for character in name
    )
    if len(word) <= names.MAX_NAME:
        return word
    return f"{word[:29]}__{names.digest(name, length=32)}"


def variables_in(text: str) -> list[str]:
    """The names of the variables in a text."""
    return _VARIABLE.findall(text)


def fill(value: Any, values: Mapping[str, str], *, amounts: bool = False) -> Any:
    """A structure with every variable replaced; empty amounts are left out."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: values.get(match[1], match[0]), value) if "{{" in value else value
    if isinstance(value, Mapping):
        result = {}
        for key, entry in value.items():
            inner = key in {"limits", "requests"}
            filled = fill(entry, values, amounts=inner)
            if amounts and filled == "" and entry != "":
                continue
            result[key] = filled
        return result
    if isinstance(value, list):
        return [fill(entry, values) for entry in value]
    return value


def texts(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    """Every text of a structure, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from texts(entry, (*path, str(key)))
    elif isinstance(value, list):
        for place, entry in enumerate(value):
            yield from texts(entry, (*path, place))


def unknown_variables(text: str) -> list[str]:
    """Everything in double braces that is no variable, and the delimiters of OSMO's templating."""
    names = [match[0] for match in _VARIABLE.finditer(text) if match[1] not in VARIABLES]
    remainder = _VARIABLE.sub("", text)
    return names + [mark for mark in ("{{", "{%", "{#") if mark in remainder]
