"""Labels and environment given beside the spec: ``label=key=value`` and ``env_vars=NAME=value``.

A value is everything after the first ``=``: ``A=b=c`` sets ``A`` to ``b=c`` (OSMO cuts it to ``b``). The
request's values replace those of the spec.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduling.errors import Fault, Path
from scheduling.kubernetes_syntax import is_label_key, is_label_value
from workflows.spec.syntax import MAX_LABELS, MAX_QUOTED
from workflows.spec.workflow_spec import WorkflowSpec

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,252}", re.ASCII)


def with_overrides(spec: WorkflowSpec, *, labels: Sequence[str], env_vars: Sequence[str]) -> WorkflowSpec:
    """Lay the request's labels and variables over a spec; their faults are added to the spec's."""
    merged, label_faults = _merged_labels(spec.labels, labels)
    environment, variable_faults = _environment(env_vars)
    faults = (*label_faults, *variable_faults, *spec.faults)
    return replace(spec, labels=merged, environment=environment, faults=faults)


def _merged_labels(own: Mapping[str, str], labels: Sequence[str]) -> tuple[dict[str, str], list[Fault]]:
    """The spec's labels with those of the request over them."""
    pairs, faults = _pairs(labels, parameter="label", example="team=vision")
    for index, (key, value) in pairs.items():
        faults += _label_faults(key, value, ("label", index))
    merged = {**own, **dict(pairs.values())}
    if len(merged) > MAX_LABELS:
        message = (
            f"The workflow has {len(merged)} labels, those of the request included; at most {MAX_LABELS} are "
            "accepted."
        )
        faults.append(Fault(("workflow", "labels") if own else ("label",), "too_many_labels", message))
    return merged, faults


def _label_faults(key: str, value: str, path: Path) -> list[Fault]:
    faults = []
    if not is_label_key(key):
        message = f"{key[:MAX_QUOTED]!a} is not a Kubernetes label key."
        faults.append(Fault(path, "invalid_label", message, allowed=("team", "example.com/team")))
    if not (value and is_label_value(value)):
        message = (
            f"{value[:MAX_QUOTED]!a} is not a label value. Such a value has 1 to 63 letters, digits, '-', "
            "'_' and '.', and begins and ends with a letter or digit."
        )
        faults.append(Fault(path, "invalid_label_value", message))
    return faults


def _environment(env_vars: Sequence[str]) -> tuple[dict[str, str], list[Fault]]:
    """Environment variables of the request."""
    pairs, faults = _pairs(env_vars, parameter="env_vars", example="MODE=fast")
    for index, (name, _) in pairs.items():
        if not _VARIABLE.fullmatch(name):
            message = f"{name[:MAX_QUOTED]!a} is not a name of an environment variable."
            faults.append(
                Fault(("env_vars", index), "invalid_variable", message, allowed=(_VARIABLE.pattern,))
            )
    return dict(pairs.values()), faults


def _pairs(
    texts: Sequence[str], *, parameter: str, example: str
) -> tuple[dict[int, tuple[str, str]], list[Fault]]:
    """``key=value`` texts by their index; a text without ``=`` is a fault."""
    pairs = {}
    faults = []
    for index, text in enumerate(texts):
        key, equals, value = text.partition("=")
        if equals:
            pairs[index] = (key, value)
        else:
            message = f"{text[:MAX_QUOTED]!a} has no '='. Write {example}."
            faults.append(Fault((parameter, index), "no_value", message, allowed=(example,)))
    return pairs, faults
