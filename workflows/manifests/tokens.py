"""Tokens whose values exist only once a workflow has a name and its tasks have host names.

They are ``{{workflow_id}}``, ``{{uuid}}`` and ``{{host:task}}``; the last is a DNS name that stays the same
over retries. A token that names a task of another group stays as it is: such a task has no host name here.
"""

import re
from collections.abc import Mapping

from workflows.values.placement import GroupValues

_TOKEN = re.compile(r"\{\{\s*(workflow_id|uuid|host:\s*[A-Za-z0-9_-]+)\s*\}\}")


class Tokens:
    """Replaces tokens in a group's texts."""

    def __init__(self, values: GroupValues, *, hosts: Mapping[str, str]) -> None:
        self._values = {
            "workflow_id": values.placement.workflow_name,
            "uuid": values.placement.workflow_uuid.hex,
            **{f"host:{task}": host for task, host in hosts.items()},
        }

    def fill(self, text: str) -> str:
        return _TOKEN.sub(self._value, text) if "{{" in text else text

    def _value(self, match: re.Match[str]) -> str:
        return self._values.get(re.sub(r"\s", "", match[1]), match[0])
