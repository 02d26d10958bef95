"""Reading of requests about configuration: envelopes, dry runs and If-Match."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rest_framework.request import Request

from pools.documents.reading import unknown_fields
from pools.services import ConfigChange, WriteMode
from pools.services.recording import MAX_TAGS
from scheduling.errors import Fault, InvalidSpec, Path, PreconditionFailed, in_order
from web.access.rights import grants_of
from web.rest.errors import summary
from web.rest.queries import boolean_parameter

_ETAG = re.compile(r'(?:W/)?"(\d{1,9})"', re.ASCII)


@dataclass(frozen=True, slots=True)
class Envelope:
    """The configuration in a request's body, and the change that it asks for."""

    content: Any
    change: ConfigChange
    force: bool = False


def envelope(
    request: Request, *, holds: str | None, also: Collection[str] = (), revised: bool = True
) -> Envelope:
    """Read ``{<holds>, description?, tags?, force?}``; ``holds`` None for a deletion.

    ``also`` names further fields that the caller reads; ``force`` among them where the body has content.
    ``revised``: If-Match says the revision at which the object must be.
    """
    body = request.data
    if not isinstance(body, Mapping):
        raise InvalidSpec(
            "The body must be a JSON object.", [Fault((), "not_a_mapping", "An object is needed.")]
        )
    fields = [*([holds] if holds else ["force"]), *also, "description", "tags"]
    faults = unknown_fields([str(key) for key in body if key not in fields], fields)
    if holds and holds not in body:
        faults.append(Fault((holds,), "required", f'The configuration is given as "{holds}".'))
    description, tags = body.get("description") or "", body.get("tags") or []
    faults += _text(description, ("description",), limit=10_000)
    faults += _tags(tags)
    force = body.get("force") or False
    if not isinstance(force, bool):
        faults.append(Fault(("force",), "bool_type", "true or false.", allowed=("true", "false")))
    if faults:
        raise InvalidSpec(f"The request was refused. {summary(faults)}", in_order(faults))
    change = change_of(request, description=description, tags=tuple(tags))
    if revised:
        change = replace(change, expected_revision=_expected_revision(request))
    return Envelope(body.get(holds) if holds else None, change, force or boolean_parameter(request, "force"))


def _text(value: Any, path: Path, *, limit: int) -> list[Fault]:
    if isinstance(value, str) and len(value) <= limit:
        return []
    return [Fault(path, "invalid_text", f"A text of at most {limit} characters is needed.")]


def _tags(tags: Any) -> list[Fault]:
    if not isinstance(tags, list) or len(tags) > MAX_TAGS:
        return [Fault(("tags",), "invalid_tags", f"A list of at most {MAX_TAGS} words is needed.")]
    return [fault for i, tag in enumerate(tags) for fault in _text(tag, ("tags", i), limit=63)]


def change_of(request: Request, *, description: str = "", tags: tuple[str, ...] = ()) -> ConfigChange:
    """The caller's change; with ``dry_run`` everything is checked and shown, and nothing stays."""
    mode = WriteMode.DRY_RUN if boolean_parameter(request, "dry_run") else WriteMode.COMMIT
    return ConfigChange(
        username=request.user.get_username(),
        grants=grants_of(request.user),
        description=description,
        tags=tags,
        mode=mode,
    )


def _expected_revision(request: Request) -> int | None:
    """The revision in If-Match; None if the header is absent or ``*``."""
    header = request.headers.get("If-Match", "").strip()
    if header in {"", "*"}:
        return None
    match = _ETAG.fullmatch(header)
    if match is None:
        raise PreconditionFailed('If-Match must be the ETag of a reply, such as W/"7".')
    return int(match[1])


def etag(revision: int) -> dict[str, str]:
    return {"ETag": f'W/"{revision}"'}


@contextmanager
def faults_under(holder: str) -> Iterator[None]:
    """Put the envelope's field before the path of every fault, so it is the path in the request's body."""
    try:
        yield
    except InvalidSpec as error:
        faults = [replace(fault, path=(holder, *fault.path)) for fault in error.faults]
        raise InvalidSpec(error.message, faults) from error
