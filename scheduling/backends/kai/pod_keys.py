"""The labels and annotations of a pod that KAI, or the scheduler it is built on, reads."""

import re

_LABELS = re.compile(r"runai[-/]|priorityClassName$|([^/]*\.)?(run\.ai|kai\.scheduler)/")
_ANNOTATIONS = re.compile(r"gpu-(fraction|memory)|pod-group-name$")


def reads_label(key: str) -> bool:
    return _LABELS.match(key) is not None


def reads_annotation(key: str) -> bool:
    return reads_label(key) or _ANNOTATIONS.match(key) is not None
