"""The costs that a submitted workflow may have to read: its text, its template, its tasks and their order."""

from dataclasses import dataclass

from pools.documents.yaml_text import TextLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecLimits(TextLimits):
    """Limits of a workflow's text.

    ``dependencies`` bounds the pairs of a group and a group that it waits for. Each is a row, and a name in
    every answer that shows the workflow, while a line of YAML may stand for thousands of them.
    """

    tasks: int = 10_000
    dependencies: int = 10_000
