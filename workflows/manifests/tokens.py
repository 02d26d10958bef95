"""Tokens whose values exist only once a workflow has a name and its tasks have host names.

They are ``{{workflow_id}}``, ``{{uuid}}`` and ``{{host:task}}``; the last is a DNS name that stays the same
over retries. A token that names a task of another group stays as it is: such a task has no host name here.
``{{task_index}}`` is one of ours, for the texts of a task with ``count``.
"""

import re
from collections.abc import Mapping

from workflows.values.placement import GroupValues

TASK_INDEX = "task_index"

_TOKEN = re.compile(r"\{\{\s*(workflow_id|uuid|task_index|host:\s*[A-Za-z0-9_-]+)\s*\}\}")


class Tokens:
    """Replaces tokens in a group's texts."""

    def __init__(self, values: GroupValues, *, hosts: Mapping[str, str]) -> None:
        self._values = {
            "workflow_id": values.placement.workflow_name,
            "uuid": values.placement.workflow_uuid.hex,
            **{f"host:{task}": host for task, host in hosts.items()},
        }

    def fill(self, text: str, *, index: int | None = None) -> str:
        """The text with its tokens filled in; ``index`` is that of the task whose text it is."""
        if "{{" not in text:
            return text
        own = {} if index is None else {TASK_INDEX: str(index)}

        def value(match: re.Match[str]) -> str:
            name = re.sub(r"\s", "", match[1])
            return own.get(name) or self._values.get(name, match[0])

        return _TOKEN.sub(value, text)
