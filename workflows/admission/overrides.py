"""Labels and environment given beside the spec: ``label=key=value`` and ``env_vars=NAME=value``.

A value is everything after the first ``=``: ``A=b=c`` sets ``A`` to ``b=c`` (OSMO cuts it to ``b``). What
is given here goes over what the spec says.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduling.errors import Fault, Path
from scheduling.levels import is_label_key
from workflows.spec.syntax import MAX_LABELS, is_label_value
from workflows.spec.workflow_spec import WorkflowSpec

MAX_SHOWN = 63

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,252}", re.ASCII)


def overridden(spec: WorkflowSpec, *, labels: Sequence[str], env_vars: Sequence[str]) -> WorkflowSpec:
    """The spec with the request's labels and variables over its own, and their faults before its own."""
    merged, label_faults = _merged_labels(spec.labels, labels)
    environment, variable_faults = _environment(env_vars)
    faults = (*label_faults, *variable_faults, *spec.faults)
    return replace(spec, labels=merged, environment=environment, faults=faults)


def _merged_labels(own: Mapping[str, str], given: Sequence[str]) -> tuple[dict[str, str], list[Fault]]:
    """The spec's labels with those of the request over them."""
    pairs, faults = _pairs(given, parameter="label", example="team=vision")
    for place, (key, value) in pairs.items():
        faults += _label_faults(key, value, ("label", place))
    labels = {**own, **dict(pairs.values())}
    if len(labels) > MAX_LABELS:
        said = f"A workflow has at most {MAX_LABELS} labels, not {len(labels)}; those of the request count."
        faults.append(Fault(("workflow", "labels") if own else ("label",), "too_many_labels", said))
    return labels, faults


def _label_faults(key: str, value: str, path: Path) -> list[Fault]:
    faults = []
    if not is_label_key(key):
        said = f"{key[:MAX_SHOWN]!a} is no Kubernetes label key."
        faults.append(Fault(path, "invalid_label", said, allowed=("team", "example.com/team")))
    if not is_label_value(value):
        said = (
            f"{value[:MAX_SHOWN]!a} is no label value: 1 to 63 letters, digits, '-', '_' and '.', beginning "
            "and ending with a letter or digit."
        )
        faults.append(Fault(path, "invalid_label_value", said))
    return faults


def _environment(given: Sequence[str]) -> tuple[dict[str, str], list[Fault]]:
    """Environment variables of the request."""
    pairs, faults = _pairs(given, parameter="env_vars", example="MODE=fast")
    for place, (name, _) in pairs.items():
        if not _VARIABLE.fullmatch(name):
            said = f"{name[:MAX_SHOWN]!a} is no name of an environment variable."
            faults.append(Fault(("env_vars", place), "invalid_variable", said, allowed=(_VARIABLE.pattern,)))
    return dict(pairs.values()), faults


def _pairs(
    given: Sequence[str], *, parameter: str, example: str
) -> tuple[dict[int, tuple[str, str]], list[Fault]]:
    """``key=value`` texts by their place; what has no ``=`` is a fault."""
    pairs = {}
    faults = []
    for place, text in enumerate(given):
        key, equals, value = text.partition("=")
        if equals:
            pairs[place] = (key, value)
        else:
            said = f"{text[:MAX_SHOWN]!a} has no '='."
            faults.append(Fault((parameter, place), "no_value", said, allowed=(example,)))
    return pairs, faults
