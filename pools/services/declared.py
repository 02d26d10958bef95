"""Configuration that is declared in a file: the file is the source, and nothing else may write.

``OSMO_CONFIG_FILE`` names the file. Workers read it every few seconds and import it with pruning; each change
is in the history like any other. A file that cannot be read or accepted changes nothing: the last good
configuration stays in force, and the condition ``ConfigurationApplied`` gives the reason until a better file
is there. Reads, dry runs and conditions work as always.

A refused file is tried again each time, because the obstacle may pass: a workflow ends, a cluster answers. An
accepted file is skipped until the file or the configuration changes.
"""

import hashlib
from pathlib import Path
from typing import Any

import structlog
from django.utils import timezone

from pools import conditions, selectors
from pools.conditions import Condition
from pools.documents.yaml_text import TextLimits
from pools.models import ConfigRevision, Installation
from pools.services.files import import_configuration, lines_of
from pools.services.recording import ConfigChange, WriteMode, declared_file
from scheduling.errors import TopologyError
from scheduling.sentences import first

log = structlog.get_logger(__name__)

MAX_FAULTS = 20


def apply() -> dict[str, Any] | None:
    """Bring configuration in line with its file; returns the condition, None where there is no file."""
    path = declared_file()
    if not path:
        Installation.objects.exclude(declared=None).update(declared=None)  # of a file that there was
        return None
    try:
        text = _read(path)
    except (OSError, UnicodeDecodeError) as error:
        return _note("", _failed("Unreadable", f"{path} cannot be read: {type(error).__name__}."))
    digest = hashlib.sha256(text.encode()).hexdigest()
    if _is_applied(digest):
        return condition()
    change = ConfigChange(
        username="OSMO_CONFIG_FILE", grants=None, description=f"Applied from {path}.", mode=WriteMode.DECLARED
    )
    try:
        import_configuration(text=text, change=change, prune=True)
    except TopologyError as error:
        return _note(digest, _failed("Refused", _refusal(path, error)))
    return _note(
        digest, Condition(type="ConfigurationApplied", status="True", reason="Applied", message=path)
    )


def condition() -> dict[str, Any] | None:
    """The result of the last application of the file; None before the first."""
    state = Installation.objects.values_list("declared", flat=True).first()
    return state["condition"] if state else None


def _read(path: str) -> str:
    if not Path(path).is_file():  # to open a pipe would wait for a writer
        raise FileNotFoundError(path)
    with Path(path).open(encoding="utf-8") as file:
        return file.read(TextLimits().size + 1)


def _newest() -> int:
    return ConfigRevision.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def _is_applied(digest: str) -> bool:
    state = Installation.objects.values_list("declared", flat=True).first()
    if not state or state["condition"]["status"] != "True":
        return False
    return bool(state["digest"] == digest and state["newest"] == _newest())


def _failed(reason: str, message: str) -> Condition:
    return Condition(type="ConfigurationApplied", status="False", reason=reason, message=message)


def _refusal(path: str, error: TopologyError) -> str:
    lines, others = first(lines_of(error.faults), MAX_FAULTS)
    texts = [*lines, f"{others}."] if others else lines or [error.message]
    return "\n".join([f"{path} was refused and nothing was changed.", *texts])


def _note(digest: str, news: Condition) -> dict[str, Any]:
    selectors.installation()
    before = condition()
    [now] = conditions.upsert(
        [before] if before else [], [news], now=timezone.now(), observed_revision=_newest()
    )
    state = {"digest": digest, "newest": _newest(), "condition": now}
    Installation.objects.update(declared=state)
    if news.status != "True":
        log.warning("configuration_file_refused", reason=news.reason, message=news.message)
    return now
