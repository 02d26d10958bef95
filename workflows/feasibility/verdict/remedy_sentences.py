"""Sentences on nodes that a group may not use and with which it would fit, and what would help it."""

from collections.abc import Sequence

from scheduling.fit.remedies import NEW, Remedy, RemedyKind
from scheduling.fit.usable import TaintedNodes
from scheduling.fit.verdict import Answer, Verdict
from scheduling.nodes.taints import MOST_TAINTS
from scheduling.sentences import agree, count_of, plain_listing
from scheduling.topology.levels import CLIQUE_LABELS

HELP_NEVER = "Waiting does not help: ask for less, put fewer tasks in one domain, or use another pool."


def remedy_sentence(verdict: Verdict | None, remedies: Sequence[Remedy]) -> str:
    """Say with which nodes it would fit; empty without any, or where the verdict's own sentence says it."""
    if not remedies or (verdict and verdict.misfit):
        return ""
    work = " once running work has ended, and not before" if remedies[0].after_work else ""
    joint = " and " if remedies[0].together else ", or "
    return f" It would fit{work} if {joint.join(map(_condition, remedies))}."


def help_of(verdict: Verdict, remedies: Sequence[Remedy]) -> str:
    """What would help a group without a place; empty where waiting for work to end does."""
    if remedies:
        joint = " and " if remedies[0].together else ", or "
        actions = joint.join(map(_action, remedies))
        after = " Running work has to end as well." if remedies[0].after_work else ""
        return f"An administrator {actions}.{after}"
    return HELP_NEVER if verdict.answer is Answer.NEVER else ""


def _condition(remedy: Remedy) -> str:
    nodes = f"{count_of(remedy.nodes, 'node')} ({_names(remedy)})"
    was = agree(remedy.nodes, "was", "were")
    match remedy.kind:
        case RemedyKind.OPEN:
            return f"{nodes} that {agree(remedy.nodes, 'takes', 'take')} no new pods {was} open"
        case RemedyKind.TOLERATE:
            return f"{nodes} {was} without taints that it does not tolerate: {_taints(remedy)}"
        case RemedyKind.LABEL:
            return f"{nodes} without a label had {_labels(remedy)}"


def _action(remedy: Remedy) -> str:
    nodes = f"{count_of(remedy.nodes, 'node')} ({_names(remedy)})"
    match remedy.kind:
        case RemedyKind.OPEN:
            return f"opens {nodes}: uncordons them or looks after them"
        case RemedyKind.TOLERATE if all(tainted.may_pass for tainted in remedy.taints):
            return f"looks at {nodes} if what set the taints does not remove them"
        case RemedyKind.TOLERATE:
            return f"removes the taints of {nodes}, or lets the pool tolerate them"
        case RemedyKind.LABEL:
            clique = next((label for label in remedy.labels if label in CLIQUE_LABELS), "")
            source = f", of which NVIDIA's software writes {clique}" if clique else ""
            return f"sees to the labels of {nodes}{source}"


def _taints(remedy: Remedy) -> str:
    return plain_listing(map(_taint, remedy.taints), limit=MOST_TAINTS)


def _taint(tainted: TaintedNodes) -> str:
    """The taint with its nodes, and since when it stands if it may pass."""
    count = count_of(tainted.nodes, "node")
    since = f", since {tainted.since:%Y-%m-%d %H:%M} UTC" if tainted.since else ""
    return f"{tainted.taint} ({count}{since}{', may pass' if tainted.may_pass else ''})"


def _names(remedy: Remedy) -> str:
    return plain_listing(remedy.names, limit=len(remedy.names), total=remedy.nodes)


def _labels(remedy: Remedy) -> str:
    if NEW in remedy.labels.values():
        return "labels of one more domain"
    return plain_listing([f"{label}={value}" for label, value in remedy.labels.items()], limit=3)
