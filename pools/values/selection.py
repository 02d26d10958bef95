"""Kubernetes' grammar of node labels and tolerations, checked before a pod is refused for them.

Pools, platforms and pod templates share it, because all of them select nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduling.errors import Fault, Path
from scheduling.kubernetes_syntax import is_label_key, is_label_value

MAX_QUOTED = 63

_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")


def label_faults(labels: Mapping[str, str], *, path: Path) -> Iterator[Fault]:
    """Find labels whose key or value Kubernetes refuses."""
    for label, value in labels.items():
        if not is_label_key(label):
            message = f"{label[:MAX_QUOTED]!r} is no Kubernetes label key."
            yield Fault((*path, label), "invalid_label", message, allowed=("example.com/pool",))
        if not is_label_value(value):
            message = (
                f"{value[:MAX_QUOTED]!r} is no label value: at most 63 letters, digits, '-', '_' and '.', "
                "beginning and ending with a letter or digit."
            )
            yield Fault((*path, label), "invalid_label_value", message)


def toleration_faults(entries: Sequence[Mapping[str, Any]], *, path: Path) -> Iterator[Fault]:
    """Find tolerations that Kubernetes refuses. An empty field counts as left out."""
    for i, entry in enumerate(entries):
        where = (*path, i)
        key, value = entry.get("key") or "", entry.get("value") or ""
        operator, effect = entry.get("operator") or "Equal", entry.get("effect") or ""
        for field, text, accepted in (
            ("operator", operator, _OPERATORS),
            ("effect", effect, ("", *_EFFECTS)),
        ):
            if text not in accepted:
                message = f"{text[:MAX_QUOTED]!r} is no {field} of a toleration."
                yield Fault((*where, field), "invalid_toleration", message, allowed=accepted)
        if key and not is_label_key(key):
            yield Fault((*where, "key"), "invalid_label", f"{key[:MAX_QUOTED]!r} is no taint's key.")
        if not key and operator != "Exists":
            message = "A toleration without a key tolerates every taint, and then its operator is Exists."
            yield Fault((*where, "operator"), "invalid_toleration", message, allowed=("Exists",))
        if operator == "Exists" and value:
            message = "With the operator Exists there is no value."
            yield Fault((*where, "value"), "invalid_toleration", message, allowed=("",))
        if not is_label_value(value):
            yield Fault(
                (*where, "value"), "invalid_label_value", f"{value[:MAX_QUOTED]!r} is no taint's value."
            )
        if entry.get("tolerationSeconds") is not None and effect != "NoExecute":
            message = "Only the effect NoExecute has seconds."
            yield Fault((*where, "tolerationSeconds"), "invalid_toleration", message)
