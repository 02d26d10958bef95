"""What the cluster changed of a pod on its way in: the pod as it was sent beside the pod as it is.

Admission policies, webhooks and limit ranges change pods as they are created, and no API tells what they did.
So a pod carries the fields on which its place and its end depend, as they were sent, in an annotation, and
whoever reads the pod compares. What Kubernetes itself fills in is no change. Nothing is known of a pod
without the annotation.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.quantities import quantity
from scheduling.sentences import plain_listing

SENT_ANNOTATION = "osmo.nvidia.com/sent"

MOST_CHANGES = 20
"""Of one pod that are kept."""
MOST_NAMED = 5
MOST_TEXT = 200
MOST_SENT = 64 * 1024

_LISTS = ("containers", "initContainers")
_AMOUNTS = ("].requests[", "].limits[")
_OF_NODES = "node.kubernetes.io/"
"""Begins the keys of taints that Kubernetes lets pods tolerate by default."""
_AFFINITY = "affinity.nodeAffinity"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodChange:
    """A field of a pod with both values; empty: it is not there. ``places``: its place may depend on it."""

    field: str
    sent: str
    present: str
    places: bool

    @property
    def words(self) -> str:
        if self.field == _AFFINITY:
            return f"changed {self.field}"
        if self.sent and self.present:
            return f"changed {self.field} from {self.sent} to {self.present}"
        value = self.present or self.sent
        detail = "" if f"[{value}]" in self.field else f" ({value})"
        return f"{'took away' if self.sent else 'added'} {self.field}{detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodComparison:
    """``injected`` are the names of the containers that were not sent, init containers among them."""

    changes: tuple[PodChange, ...] = ()
    injected: frozenset[str] = frozenset()


def sent_text(spec: Mapping[str, Any]) -> str:
    """The annotation of a pod with this spec."""
    return json.dumps(dict(_fields(spec)), separators=(",", ":"), sort_keys=True)


def compare(sent: object, spec: Mapping[str, Any]) -> PodComparison:
    """Compare the annotation of a pod with its spec."""
    before = _read(sent)
    if not before:
        return PodComparison()
    injected = {
        f"{kind}[{container['name']}]": container
        for kind in _LISTS
        for container in spec.get(kind) or ()
        if f"{kind}[{container['name']}].image" not in before
    }
    present = dict(_fields(spec))
    parts = tuple(f"{field}." for field in injected)
    changes = [
        *(_injection(field, container) for field, container in injected.items()),
        *(
            _change(field, before, present)
            for field in sorted({field for field, _ in before.items() ^ present.items()})
            if not field.startswith(parts)
            and not _is_same_amount(field, before, present)
            and not _is_usual(field, before, present)
        ),
    ]
    return PodComparison(
        changes=tuple(changes[:MOST_CHANGES]),
        injected=frozenset(str(container["name"]) for container in injected.values()),
    )


def sentence_of(changes: Iterable[PodChange]) -> str:
    """Say what was changed in pods of a group, each change once; empty for none."""
    words = list(dict.fromkeys(change.words for change in changes))
    if not words:
        return ""
    return (
        "The cluster changed its pods as they were created, by an admission policy, a webhook or a limit "
        f"range: it {plain_listing(words, limit=MOST_NAMED)}."
    )


def _fields(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The compared fields of a pod's spec with their values, but for those that are empty."""
    for field in ("schedulerName", "priorityClassName"):
        if value := spec.get(field):
            yield field, str(value)
    for key, value in (spec.get("nodeSelector") or {}).items():
        yield f"nodeSelector[{key}]", str(value) or '""'
    for toleration in spec.get("tolerations") or ():
        text = _toleration(toleration)
        yield f"tolerations[{text}]", text
    for gate in spec.get("schedulingGates") or ():
        yield f"schedulingGates[{gate['name']}]", str(gate["name"])
    if affinity := (spec.get("affinity") or {}).get("nodeAffinity"):
        text = json.dumps(affinity, sort_keys=True)
        yield _AFFINITY, hashlib.sha256(text.encode()).hexdigest()[:16]
    for kind in _LISTS:
        for container in spec.get(kind) or ():
            yield from _of_container(f"{kind}[{container['name']}]", container)


def _of_container(name: str, container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield f"{name}.image", str(container.get("image") or "none")
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    for resource, amount in {**limits, **(resources.get("requests") or {})}.items():
        yield f"{name}.requests[{resource}]", str(amount)
    for resource, amount in limits.items():
        yield f"{name}.limits[{resource}]", str(amount)


def _toleration(toleration: Mapping[str, Any]) -> str:
    """A toleration as kubectl prints it."""
    value, effect = toleration.get("value"), toleration.get("effect")
    seconds = toleration.get("tolerationSeconds")
    text = f"{toleration.get('key') or ''}{f'={value}' if value else ''}{f':{effect}' if effect else ''}"
    text += f" op={toleration['operator']}" if toleration.get("operator") == "Exists" else ""
    return f"{text} for {seconds}s" if seconds is not None else text


def _read(sent: object) -> dict[str, str]:
    """The fields of an annotation; none of a text that is not ours any more."""
    if not isinstance(sent, str) or len(sent) > MOST_SENT:
        return {}
    try:
        fields = json.loads(sent)
    except ValueError:
        return {}
    if not isinstance(fields, dict):
        return {}
    return {key: value for key, value in fields.items() if isinstance(value, str)}


def _injection(field: str, container: Mapping[str, Any]) -> PodChange:
    places = any(".requests[" in name for name, _ in _of_container(field, container))
    image = str(container.get("image") or "none")[:MOST_TEXT]
    return PodChange(field=field[:MOST_TEXT], sent="", present=image, places=places)


def _change(field: str, before: Mapping[str, str], present: Mapping[str, str]) -> PodChange:
    return PodChange(
        field=field[:MOST_TEXT],
        sent=before.get(field, "")[:MOST_TEXT],
        present=present.get(field, "")[:MOST_TEXT],
        places=not field.endswith("].image") and "].limits[" not in field,
    )


def _is_same_amount(field: str, before: Mapping[str, str], present: Mapping[str, str]) -> bool:
    """Whether two amounts are equal as numbers: an API server writes 0.5 as 500m."""
    sent, value = before.get(field), present.get(field)
    if sent is None or value is None or not any(part in field for part in _AMOUNTS):
        return False
    try:
        return quantity(sent) == quantity(value)
    except ValueError:
        return False


def _is_usual(field: str, before: Mapping[str, str], present: Mapping[str, str]) -> bool:
    """Whether it is a toleration that Kubernetes adds: of ill nodes, or of nodes with what the pod asks for.

    The latter by the admission plugin ExtendedResourceToleration.
    """
    if field in before or not field.startswith("tolerations["):
        return False
    key = re.split("[ :=]", present[field], maxsplit=1)[0]
    asked_for = (name for name in present if name.endswith(f"].requests[{key}]"))
    return key.startswith(_OF_NODES) or ("/" in key and any(asked_for))
