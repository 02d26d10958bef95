"""Kubernetes' grammar of names and labels, how a selector matches, and its name of GPUs: in one place.

Patterns accept ASCII only, as Kubernetes does.
"""

import re
from collections.abc import Mapping

GPU = "nvidia.com/gpu"
"""The resource by which a node offers GPUs and a container asks for them."""

MAX_OBJECT_NAME = 253

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def is_dns_label(text: str) -> bool:
    """Whether Kubernetes accepts the text as a DNS label, such as the name of a namespace."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_object_name(text: str, *, limit: int = MAX_OBJECT_NAME) -> bool:
    """Whether Kubernetes accepts the text as the name of an object; ``limit`` is the most characters."""
    return len(text) <= limit and _OBJECT_NAME.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Whether Kubernetes accepts the text as a label's key."""
    prefix, slash, name = text.rpartition("/")
    if not _LABEL_NAME.fullmatch(name):
        return False
    if not slash:
        return True
    return len(prefix) <= MAX_OBJECT_NAME and all(_DNS_LABEL.fullmatch(part) for part in prefix.split("."))


def is_label_value(text: str) -> bool:
    """Whether Kubernetes accepts the text as a label's value, the empty text included."""
    return not text or _LABEL_NAME.fullmatch(text) is not None


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether a selector matches an object with these labels; an empty one matches every object."""
    return all(labels.get(key) == value for key, value in selector.items())
