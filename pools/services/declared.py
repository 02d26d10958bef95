"""Configuration that is declared in a file: the file is the source, and nothing else may write.

``OSMO_TOPOLOGY_CONFIG_FILE`` names the file. Workers read it every few seconds and import it with pruning;
each change is in the history like any other. A file that cannot be read or accepted changes nothing: the
last good configuration stays in force, and the condition ``ConfigurationApplied`` gives the reason until a
better file is there. Reads, dry runs and conditions work as always.

A refused file is tried again each time, because the obstacle may pass: a workflow ends, a cluster answers. An
accepted file is skipped until the file or the configuration changes.

Several workers read the file, each at its own mount, and one may have an older text: its mount is late, or it
prepared the text while another worker applied the next. So a text is read again once no other change can come
between, and an older one changes nothing. Which of two is older follows from their ``generation``; without
one, a text that was in force before is older than the one that replaced it. Rejected: the file's time, which
is that of the mount.
"""

import hashlib
import io
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import structlog
from django.db import transaction
from django.utils import timezone

from cluster import configured_files
from cluster.configured_files import FileLate, FileRefused
from pools import conditions, selectors
from pools.conditions import Condition
from pools.documents.yaml_text import TextLimits
from pools.models import ConfigRevision, Installation
from pools.services.files import lines_of, prepare_import, write_import
from pools.services.recording import ConfigChange, WriteMode, configuration_change, declared_file
from scheduling.errors import TopologyError
from scheduling.sentences import first

log = structlog.get_logger(__name__)

MAX_FAULTS = 20
MAX_REPLACED = 100
ATTEMPTS = 3
GO_BACK = (
    "It was not applied. If the return is meant, change the text (its generation, or a comment where it has "
    "none), or run manage.py apply_config --older."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedText:
    """The text in force. ``newest`` is the newest revision since then, ``replaced`` are digests before it."""

    digest: str
    newest: int
    generation: int | None = None
    replaced: list[str] = field(default_factory=list)


class _FileChanged(Exception):
    """The file has another text than the one that was prepared."""


def apply(*, older: bool = False) -> dict[str, Any] | None:
    """Bring configuration in line with its file; returns the condition, None where there is no file.

    ``older``: also by a text that a newer one has replaced.
    """
    path = declared_file()
    if not path:
        _end()
        return None
    for _ in range(ATTEMPTS):
        with suppress(_FileChanged):
            return _apply(path, older=older)
    return _note("", _failed("Unreadable", f"{path} changes all the time."))


def _apply(path: str, *, older: bool) -> dict[str, Any]:
    """Apply the text that the file has now. Raises _FileChanged if it gets another one meanwhile."""
    try:
        text = _read(path)
    except (FileRefused, FileLate, OSError, UnicodeDecodeError) as error:
        has_sentence = isinstance(error, FileRefused | FileLate)
        cause = str(error) if has_sentence else f"{path} cannot be read: {type(error).__name__}"
        return _note("", _failed("Unreadable", f"{cause}."))
    applied = Condition(type="ConfigurationApplied", status="True", reason="Applied", message=path)
    if _is_applied(text):
        present = condition()
        return present if present and present["status"] == "True" else _note(_digest(text), applied)
    change = ConfigChange(
        username="OSMO_TOPOLOGY_CONFIG_FILE",
        grants=None,
        description=f"Applied from {path}.",
        mode=WriteMode.DECLARED,
    )
    try:
        prepared = prepare_import(text, change=change)
    except TopologyError as error:
        return _note(_digest(text), _failed("Refused", _refusal(path, error)))
    with configuration_change(change) as part:  # one text at a time, and none that was replaced meanwhile
        _expect(path, text)
        age = "" if older else _fault_of_age(_applied(), _digest(text), prepared.file.generation)
        if age and not prepared.file.faults:  # a file with faults is refused below, with all of them
            return _note(_digest(text), _failed("Older", f"{path} {age}"))
        try:
            write_import(prepared, change=part, prune=True, force=False)
        except TopologyError as error:
            return _note(_digest(text), _failed("Refused", _refusal(path, error)))
        return _note(_digest(text), applied, generation=prepared.file.generation)


def _expect(path: str, text: str) -> None:
    try:
        if _read(path) == text:
            return
    except (FileRefused, FileLate, OSError, UnicodeDecodeError) as error:
        raise _FileChanged from error
    raise _FileChanged


def _fault_of_age(applied: AppliedText | None, digest: str, generation: int | None) -> str:
    """Why a text is not newer than the applied one; empty if it is, or is the same."""
    if applied is None or digest == applied.digest:
        return ""
    number = applied.generation
    if number is None:
        replaced = generation is None and digest in applied.replaced
        return f"has a text that a newer one has replaced. {GO_BACK}" if replaced else ""
    if generation is None:
        return f"has no generation, and the text in force has generation {number}. {GO_BACK}"
    if generation == number:
        return f"has generation {number} like the text in force, and another content: raise it."
    if generation < number:
        return f"has generation {generation}, and the text in force has generation {number}. {GO_BACK}"
    return ""


def condition() -> dict[str, Any] | None:
    """The result of the last application of the file; None before the first."""
    state = Installation.objects.values_list("declared", flat=True).first()
    return state["condition"] if state else None


def _read(path: str) -> str:
    content = configured_files.read(path, places=(path,), max_bytes=TextLimits().size)
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8").read()


def _newest() -> int:
    return ConfigRevision.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _applied() -> AppliedText | None:
    """The text that was applied last; None before the first."""
    state = Installation.objects.values_list("declared", flat=True).first() or {}
    applied = state.get("applied")
    return AppliedText(**applied) if applied else None


def _is_applied(text: str) -> bool:
    applied = _applied()
    return applied is not None and applied.digest == _digest(text) and applied.newest == _newest()


def _failed(reason: str, message: str) -> Condition:
    return Condition(type="ConfigurationApplied", status="False", reason=reason, message=message)


def _refusal(path: str, error: TopologyError) -> str:
    lines, others = first(lines_of(error.faults), MAX_FAULTS)
    texts = [*lines, f"{others}."] if others else lines or [error.message]
    return "\n".join([f"{path} was refused and nothing was changed.", *texts])


def _note(digest: str, news: Condition, *, generation: int | None = None) -> dict[str, Any]:
    """Record what became of a text; an applied one replaces the text before."""
    selectors.installation()
    with transaction.atomic():
        Installation.objects.select_for_update().get()
        before, applied = condition(), _applied()
        newest = _newest()
        [now] = conditions.upsert(
            [before] if before else [], [news], now=timezone.now(), observed_revision=newest
        )
        if news.status == "True" and (
            applied is None or (digest, newest) != (applied.digest, applied.newest)
        ):
            replaced = _replaced(applied, digest)
            applied = AppliedText(digest=digest, newest=newest, generation=generation, replaced=replaced)
        state = {
            "digest": digest,
            "newest": newest,
            "condition": now,
            "applied": asdict(applied) if applied else None,
        }
        Installation.objects.update(declared=state)
    if news.status != "True":
        log.warning("configuration_file_refused", reason=news.reason, message=news.message)
    return now


def _end() -> None:
    """Take away the condition of a file that there was; the texts that it had are still replaced ones.

    One worker may lack the setting for a while that the others have.
    """
    if condition() is None:
        return
    with transaction.atomic():
        Installation.objects.select_for_update().get()
        applied = _applied()
        state = {
            "digest": "",
            "newest": 0,
            "condition": None,
            "applied": asdict(applied) if applied else None,
        }
        Installation.objects.update(declared=state)


def _replaced(applied: AppliedText | None, digest: str) -> list[str]:
    """The digests of the texts that were in force before this one, the newest first."""
    if applied is None:
        return []
    former = [applied.digest, *applied.replaced]
    return [text for text in former if text != digest][:MAX_REPLACED]
