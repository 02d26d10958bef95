"""A waiting group's reason beside what the cluster changed of its pods.

A scheduler's text and this service's verdict are about different pods then, and neither knows of the change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from scheduling.sentences import count_of
from workflows.explain.obstacles import MOST_EVIDENCE
from workflows.explain.reasons import Reason, Why
from workflows.values.pod_changes import PodChange, sentence_of

HELP_CHANGED = (
    "An administrator looks at what changes pods in the backend's namespace: admission policies, webhooks, "
    "limit ranges."
)
HELP_WITHOUT_TEMPLATE = (
    "An administrator makes the object that the scheduler names, or looks for what else names it: the pool "
    "has no pod template."
)
_OF_PLACES = frozenset(
    {Why.TOPOLOGY, Why.CAPACITY, Why.NODES, Why.POD, Why.SCHEDULER, Why.SILENT, Why.QUOTA, Why.RETRY}
)
_CAUSED = frozenset({Why.NODES, Why.POD, Why.SCHEDULER, Why.SILENT})
"""Reasons whose first suspect is a change that the pods' place depends on."""
_OF_STARTS = frozenset({Why.STARTING, Why.IMAGE, Why.BARRIER})
STARTS_BESIDE = Reason(Why.STARTING, "Some of its tasks run, and others are starting.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPods:
    """What the cluster changed; ``hanging``: in how many pods an injected init container has not ended."""

    changes: Sequence[PodChange] = ()
    hanging: Mapping[str, int] = field(default_factory=dict)

    has_template: bool
    """Whether the group's pods have a template of the pool."""


def beside_changes(reason: Reason, pods: ChangedPods) -> Reason:
    """The reason with the changes that may be behind it, and whom they ask to act."""
    places = reason.why in _OF_PLACES
    changes = [change for change in pods.changes if change.places or not places]
    if not (places or reason.why in _OF_STARTS) or not (changes or pods.hanging):
        if reason.why == Why.POD and not pods.has_template:
            return replace(reason, own_help=reason.own_help or HELP_WITHOUT_TEMPLATE)
        return reason
    hanging = () if places else pods.hanging.items()
    waits = [
        f"Init container {name}, which the cluster put into its pods, has not ended in "
        f"{count_of(count, 'pod')}."
        for name, count in hanging
    ]
    evidence = reason.evidence | {"pod_changes": [asdict(change) for change in changes[:MOST_EVIDENCE]]}
    own_help = HELP_CHANGED if reason.why in _CAUSED or waits else reason.own_help
    text = " ".join(filter(None, [reason.sentence, *waits, sentence_of(changes)]))
    return replace(reason, sentence=text, evidence=evidence, own_help=own_help)
