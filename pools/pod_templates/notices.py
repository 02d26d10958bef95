"""Notices on templates that are accepted and may not do what their author expects. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from pools.pod_templates.variables import SUBMITTED_BY, UNIQUE_SUBMITTED_BY, texts, variables_in
from scheduling.errors import Notice


def template_notices(template: Mapping[str, Any]) -> Iterator[Notice]:
    """Find names and paths that two users could share: the label of a user is not unique."""
    for path, text in texts(template):
        is_name = path[0] != "metadata" and (path[-1] != "value" or "/" in text)
        if is_name and SUBMITTED_BY in variables_in(text):
            message = (
                f"{{{{{SUBMITTED_BY}}}}} can be the same for two users: each character that no label can "
                f"hold becomes _ in it. Use {{{{{UNIQUE_SUBMITTED_BY}}}}} in paths and names."
            )
            yield Notice("shared_between_users", message, path)
