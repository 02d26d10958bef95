"""Errors of API servers: one class for each way in which a caller reacts.

"It is not there", "that kind is not served here" and "there was no reply" are three answers; a caller that
confuses them deletes rows of running work or leaks a ComputeDomain. So a reply of 404 is split by the
``Status`` body: with an object's name in ``details`` it is ObjectNotFound, without one the group or kind is
not served (a missing CRD, or an older cluster). A 409 is split by its reason.

``maybe_applied`` says whether a write may have happened although no reply confirmed it. It is true for a lost
reply and for a fault inside the server, never for a refusal.

Rejected: the client library's ApiException with a status, which every caller would compare differently. Texts
come from outside: they are made storable and cut at MESSAGE_CHARS. Source of the reply's shape:
``k8s.io/apimachinery`` ``meta/v1`` ``Status`` and ``StatusDetails``, Kubernetes 1.36.
"""

import re
from collections.abc import Mapping
from typing import Any

from cluster.storable import decode, storable_text

MESSAGE_CHARS = 1000  # a refused pod can quote its whole spec; a log line or a row needs its head only

# An apply with a field that the schema lacks is answered with 500 (seen on 1.36). It is a refusal: asking
# again will not help, and nothing was written.
UNTYPED_APPLY = "failed to create typed patch object"

# Of webhooks for admission (``webhook/errors``) and for conversion between versions of a definition.
_WEBHOOK = re.compile(
    r'failed calling (?:admission )?webhook ("[^"]+")|conversion webhook for (\S+ Kind=\w+)'
)


class ClusterError(Exception):
    """Base of all errors of this package.

    ``code`` is stable: metrics and conditions carry it. ``status`` is 0 where there was no reply.
    """

    code = "ClusterError"

    def __init__(
        self,
        message: str,
        *,
        request: str = "",
        status: int = 0,
        reason: str = "",
        retry_after: float | None = None,
        maybe_applied: bool = False,
    ) -> None:
        self.message = shorten(message)
        self.request = request
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        self.maybe_applied = maybe_applied
        super().__init__(f"{request}: {self.message}" if request else self.message)


class BadConnectionSettings(ClusterError):
    """An unusable kubeconfig, context or service account; nothing was sent."""

    code = "BadConnectionSettings"


class CredentialProgram(BadConnectionSettings):
    """A kubeconfig that runs a program to get credentials; it was not run."""

    code = "CredentialProgram"


class UnusableFile(BadConnectionSettings):
    """A kubeconfig, or a file that it names, that is never read: its kind, size or place is not accepted."""

    code = "UnusableFile"


class ClusterUnreachable(ClusterError):
    """No usable reply: refused, timed out, cut off, or not a reply of an API server."""

    code = "Unreachable"


class DeadlinePassed(ClusterError):
    """Not sent, because the caller's deadline had passed."""

    code = "DeadlinePassed"


class WritesSuspended(ClusterError):
    """Not sent: this installation's database may not write in the cluster (``pools.clusters.guard``)."""

    code = "WritesSuspended"


class WritesUnconfirmed(ClusterError):
    """Not sent: whether this installation's database may write in the cluster could not be found out."""

    code = "WritesUnconfirmed"


class NotServed(ClusterError):
    """The API group, version or kind is not served: a CRD is missing or the cluster is older."""

    code = "NotServed"


class ObjectNotFound(ClusterError):
    """The object of a request does not exist (on create: its namespace)."""

    code = "NotFound"


class AlreadyExists(ClusterError):
    """An object of that name exists; its labels say whose it is."""

    code = "AlreadyExists"


class WriteConflict(ClusterError):
    """A conflict with another writer's change or field, or a precondition that does not hold."""

    code = "Conflict"


class Invalid(ClusterError):
    """The server rejects the object; ``causes`` names the fields."""

    code = "Invalid"


class Unauthorized(ClusterError):
    """The server does not accept the credentials."""

    code = "Unauthorized"


class RequestForbidden(ClusterError):
    """The credentials do not allow this, or an admission plugin or quota refuses it."""

    code = "Forbidden"


class TooManyRequests(ClusterError):
    """The server asks to wait, for ``retry_after`` seconds if it says so."""

    code = "TooManyRequests"


class Expired(ClusterError):
    """A resource version or continue token is too old: list again."""

    code = "Expired"


class ServerFault(ClusterError):
    """5xx: the server, etcd or a webhook failed."""

    code = "ServerFault"


class WebhookUnanswered(ServerFault):
    """A webhook that the server calls for such a request gave no answer; the server itself did."""

    code = "WebhookUnanswered"


def shorten(text: str) -> str:
    text = storable_text(text)
    return text if len(text) <= MESSAGE_CHARS else text[: MESSAGE_CHARS - 1] + "…"


def from_reply(
    status: int, body: bytes, *, headers: Mapping[str, str] | None = None, request: str = ""
) -> ClusterError:
    """The error of a reply with a ``status`` of 300 or more."""
    return from_status(_status_object(body), code=status, headers=headers, request=request)


def from_status(
    status_object: Mapping[str, Any],
    *,
    code: int | None = None,
    headers: Mapping[str, str] | None = None,
    request: str = "",
) -> ClusterError:
    """The error of a ``Status`` object, from a reply or from a watch's ERROR event."""
    status = int(status_object.get("code") or 0) if code is None else code
    reason = str(status_object.get("reason") or "")
    details = status_object.get("details") or {}
    message = str(status_object.get("message") or f"the API server answered {status} without a message")
    kind = _class_of(status, reason, details)
    words = ""
    if message.startswith(UNTYPED_APPLY):
        kind = Invalid
    elif kind is ServerFault and (webhook := _WEBHOOK.search(message)):
        kind = WebhookUnanswered
        words = f"webhook {webhook[1] or webhook[2]}, which the API server asks first, gave no answer. "
    return kind(
        words + message,
        request=request,
        status=status,
        reason=reason,
        retry_after=_retry_after(headers or {}, details),
        maybe_applied=issubclass(kind, ServerFault),
    )


_BY_STATUS: dict[int, type[ClusterError]] = {
    400: Invalid,
    401: Unauthorized,
    403: RequestForbidden,
    405: NotServed,
    410: Expired,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooManyRequests,
}


def _class_of(status: int, reason: str, details: Mapping[str, Any]) -> type[ClusterError]:
    if status == 404:
        return ObjectNotFound if details.get("name") else NotServed
    if status == 409:
        return AlreadyExists if reason == "AlreadyExists" else WriteConflict
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return ServerFault
    return Invalid if status >= 400 else ClusterUnreachable  # a redirect: not an API server


def _status_object(body: bytes) -> Mapping[str, Any]:
    """Read a ``Status``; anything else (a proxy's page, "404 page not found") becomes its message."""
    try:
        reply = decode(body)
    except ValueError:
        reply = None
    if isinstance(reply, dict) and reply.get("kind") == "Status":
        return reply
    return {"message": body[: 4 * MESSAGE_CHARS].decode(errors="replace").strip()}


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    for key, value in headers.items():
        if key.lower() == "retry-after" and value.strip().isdigit():
            return float(value)
    seconds = details.get("retryAfterSeconds")
    return float(seconds) if seconds else None
