"""The messages of kube-scheduler's plugins on a pod's claims and resources, as codes.

KAI runs the same plugins and passes their texts on, so all scheduler backends share these patterns. A gang's
first reasons may hide the cause, so callers read the pods' own messages as well. Source: kube-scheduler 1.34
to 1.36, plugins DynamicResources and NodeResourcesFit; KAI from v0.13.2 on words claims in its own way
(``plugins/dynamicresources``).
"""

import re
from collections.abc import Iterable
from enum import StrEnum


class PluginMessage(StrEnum):
    """The resource that a plugin could not find for a pod."""

    CLAIMS_IN_USE = "claims_in_use"
    NOT_ENOUGH_RESOURCES = "not_enough_resources"


CLAIMS_IN_USE = re.compile(r"cannot allocate (?:all claims|(?:all )?DRA claims on node)")
NOT_ENOUGH_RESOURCES = re.compile(r"didn't have enough resources?: (?P<what>(?:[^,.\n]|\.(?=\w))+)")

_PATTERNS = (
    (CLAIMS_IN_USE, PluginMessage.CLAIMS_IN_USE),
    (re.compile(r"didn't have enough resource"), PluginMessage.NOT_ENOUGH_RESOURCES),
)


def plugin_messages(texts: Iterable[str]) -> frozenset[PluginMessage]:
    """The codes of all messages in the texts."""
    return frozenset(code for text in texts for pattern, code in _PATTERNS if pattern.search(text))
