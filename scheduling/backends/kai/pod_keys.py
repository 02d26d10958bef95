"""The labels and annotations of a pod that KAI, or the scheduler it is built on, reads."""

import re

_KEYS = re.compile(r"runai[-/]|(priorityClassName|pod-group-name)$|([^/]*\.)?(run\.ai|kai\.scheduler)/")
_ANNOTATIONS = re.compile(r"gpu-(fraction|memory)")


def reads_label(key: str) -> bool:
    """Whether a pod's label of this key decides for it, or has the name of an annotation that binds it."""
    return _KEYS.match(key) is not None


def reads_annotation(key: str) -> bool:
    return reads_label(key) or _ANNOTATIONS.match(key) is not None
