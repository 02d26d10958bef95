"""Idempotency keys: a submission repeated after a lost reply creates nothing twice.

The caller chooses the key. It is unique per user and stored in the row of its workflow, so it lives exactly
as long and needs no cleaning up. Two requests with the same key at the same moment meet at the unique
constraint: one commits, the other finds that row. A refused submission leaves no row, so its key may be used
again.
"""

import hashlib
import json
import re
from typing import Any

from scheduling.errors import Conflict, Fault, InvalidSpec
from workflows.models import Workflow

_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def checked_key(header: str | None) -> str | None:
    """The key of a request, if it has one. Raises InvalidSpec for a key that cannot be stored."""
    if header is None:
        return None
    if not _KEY.fullmatch(header):
        message = "An Idempotency-Key is 1 to 255 printable ASCII characters without spaces."
        raise InvalidSpec(message, [Fault(("Idempotency-Key",), "invalid_idempotency_key", message)])
    return header


def digest(**request: Any) -> str:
    """A digest of the content of a request: 64 hex digits."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def earlier_reply(*, user: str, key: str | None, digest: str) -> dict[str, Any] | None:
    """The reply to the first request with this key; None if there was none.

    Raises Conflict if that request had other content.
    """
    if key is None:
        return None
    row = Workflow.objects.only("name", "reply", "idempotency_digest").filter(
        submitted_by=user, idempotency_key=key
    )
    if (workflow := row.first()) is None:
        return None
    if workflow.idempotency_digest != digest:
        raise Conflict(
            f"This Idempotency-Key belongs to another request, which created workflow {workflow.name}. "
            "Use a new key for a new submission."
        )
    return dict(workflow.reply)
