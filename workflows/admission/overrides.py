"""Labels and environment given beside the spec: ``label=key=value`` and ``env_vars=NAME=value``.

A value is everything after the first ``=``: ``A=b=c`` sets ``A`` to ``b=c`` (OSMO cuts it to ``b``). The
request's values replace those of the spec.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduling.errors import Fault
from workflows.spec.syntax import MAX_LABELS, MAX_QUOTED, label_faults, variable_fault
from workflows.spec.workflow_spec import WorkflowSpec


def with_overrides(spec: WorkflowSpec, *, labels: Sequence[str], env_vars: Sequence[str]) -> WorkflowSpec:
    """Lay the request's labels and variables over a spec; their faults are added to the spec's."""
    merged, of_labels = _merged_labels(spec.labels, labels)
    environment, of_variables = _environment(env_vars)
    faults = (*of_labels, *of_variables, *spec.faults)
    return replace(spec, labels=merged, environment=environment, faults=faults)


def _merged_labels(own: Mapping[str, str], labels: Sequence[str]) -> tuple[dict[str, str], list[Fault]]:
    """The spec's labels with those of the request over them."""
    pairs, faults = _pairs(labels, parameter="label", example="team=vision")
    for index, (key, value) in pairs.items():
        faults += [Fault(("label", index), "label", message) for _, message in label_faults({key: value})]
    merged = {**own, **dict(pairs.values())}
    if len(merged) > MAX_LABELS:
        message = (
            f"The workflow has {len(merged)} labels, those of the request included; at most {MAX_LABELS} are "
            "accepted."
        )
        faults.append(Fault(("workflow", "labels") if own else ("label",), "too_many_labels", message))
    return merged, faults


def _environment(env_vars: Sequence[str]) -> tuple[dict[str, str], list[Fault]]:
    """Environment variables of the request."""
    pairs, faults = _pairs(env_vars, parameter="env_vars", example="MODE=fast")
    for index, (name, _) in pairs.items():
        if message := variable_fault(name):
            faults.append(Fault(("env_vars", index), "variable", message))
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
