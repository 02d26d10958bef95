"""The rule that limits must satisfy: no default above its maximum. Pure."""

from pools.documents.workflow import WorkflowConfigDocument
from pools.values.durations import parse_duration
from scheduling.errors import Fault, in_order


def check_workflow_config(document: WorkflowConfigDocument) -> list[Fault]:
    """Find the default timeouts that are over their maximum."""
    return in_order(
        over_maximum(f"default_{kind}_timeout", default, f"max_{kind}_timeout", most)
        for kind, default, most in (
            ("exec", document.default_exec_timeout, document.max_exec_timeout),
            ("queue", document.default_queue_timeout, document.max_queue_timeout),
        )
        if parse_duration(default) > parse_duration(most)
    )


def over_maximum(field: str, value: str, maximum: str, bound: str) -> Fault:
    """The fault of a field whose value is over that of the field ``maximum``."""
    return Fault((field,), "over_maximum", f"{value} is over {maximum}, which is {bound}.")
