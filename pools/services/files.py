"""Import of configuration from a file, and export to one.

An import is one transaction: every object is read and checked like any other write, all faults of all objects
are reported at once with their lines, and nothing is written unless everything can be. The clusters of
backends are probed before the transaction. An unchanged object gets no revision, so a repeated import changes
nothing.

Backends and pools depend on each other in both directions: a new pool needs its backend, and a backend can
change its scheduler only once its pools have no keys that the new one cannot hold. So backends are written
first; if that is refused, the changed backends are written once more after the pools. A pod template and the
pools that name it may contradict each other until both are written, so templates are applied after the pools.
Rejected: separate checks for a file as a whole, which would be a second set of checks.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction

from pools import history, selectors
from pools.documents import backend as backend_shape
from pools.documents import pool as pool_shape
from pools.documents.config_file import (
    LIMITS,
    SECTIONS,
    ConfigFile,
    read_config_file,
    read_untrusted_config_file,
    write_config_file,
)
from pools.models import ConfigRevision, Pool
from pools.services.backends import PreparedBackend, prepare_backend, write_prepared
from pools.services.history import RESTORERS
from pools.services.pod_templates import apply_again, write_pod_template
from pools.services.pools import lock_pools, put_pools
from pools.services.recording import ConfigChange, configuration_change, refuse_declared, refuse_many
from scheduling.errors import (
    MAX_FAULTS,
    Fault,
    InvalidSpec,
    Notice,
    Path,
    TopologyError,
    format_path,
    in_order,
)
from web.limits.turns import turn
from web.rest.errors import summary

Configuration = dict[str, dict[str, Any]]
"""Type -> name -> document."""

BACKEND, POD_TEMPLATE, POOL, WORKFLOW = "BACKEND", "POD_TEMPLATE", "POOL", "WORKFLOW"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import changed or would change: (type, name) of each object, and the unified diff."""

    changed: tuple[tuple[str, str], ...]
    diff: str
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedImport:
    """A file as read, and its backends as probed; faults of both are in the file."""

    file: ConfigFile
    backends: Mapping[str, PreparedBackend]


def types_kept() -> tuple[str, ...]:
    """The types of configuration that a file may hold."""
    return tuple(sorted(set(SECTIONS.values()) & set(RESTORERS)))


def export_configuration(*, types: Collection[str] = ()) -> str:
    """Write the present configuration as a file; ``types`` narrows it."""
    return write_config_file(_present(types or types_kept()))


def import_configuration(
    *, text: str, change: ConfigChange, prune: bool = False, force: bool = False
) -> Imported:
    """Write all objects of a file, all or nothing.

    ``prune`` deletes what the file's sections leave out, ``force`` even where work still runs. Raises
    InvalidSpec with every fault.
    """
    refuse_declared(change)
    return write_import(prepare_import(text, change=change), change=change, prune=prune, force=force)


def import_request(*, text: str, change: ConfigChange, prune: bool = False, force: bool = False) -> Imported:
    """As ``import_configuration``, of a text that a user sent: in the user's turn, and read within bounds.

    Raises Busy, too.
    """

    def read(text: str) -> ConfigFile:
        file = read_untrusted_config_file(text)
        for section, config_type in SECTIONS.items():
            refuse_many(file.objects.get(config_type, {}), change=change, path=(section,))
        return file

    refuse_declared(change)
    with turn(change.username):
        prepared = prepare_import(text, change=change, read=read)
        return write_import(prepared, change=change, prune=prune, force=force)


def prepare_import(
    text: str, *, change: ConfigChange, read: Callable[[str], ConfigFile] = read_config_file
) -> PreparedImport:
    """Read a file and probe its backends; writes nothing. Raises InvalidSpec for what is no YAML."""
    file = read(text)
    unkept = [section for section in SECTIONS if SECTIONS[section] not in RESTORERS]
    file.faults += [
        Fault((section, name), "not_carried", "This service does not implement it.")
        for section in unkept
        for name in file.objects.pop(SECTIONS[section], {})
    ]
    return PreparedImport(file=file, backends=_prepare_backends(file, change))


def write_import(prepared: PreparedImport, *, change: ConfigChange, prune: bool, force: bool) -> Imported:
    """Write what was prepared, as ``import_configuration`` says."""
    with configuration_change(change) as part:
        lock_pools()
        before = _present(types_kept())
        run = _Import(
            file=prepared.file,
            prepared=prepared.backends,
            before=before,
            change=part,
            prune=prune,
            force=force,
        )
        notices = run.write()
        after = _present(types_kept())
    return _outcome(before, after, notices)


def _present(types: Iterable[str]) -> Configuration:
    return {config_type: _PRESENT.get(config_type, _kept_in_history(config_type))() for config_type in types}


def _pools() -> dict[str, Any]:
    rows = Pool.objects.select_related("backend").prefetch_related("topology_keys", "platforms")
    return {row.name: pool_shape.document_of(row) for row in rows}


def _backends() -> dict[str, Any]:
    return {row.name: backend_shape.document_of(row) for row in selectors.living_backends()}


def _limits() -> dict[str, Any]:
    document, revision = selectors.workflow_config()
    return {LIMITS: document.model_dump()} if revision else {}


_PRESENT: Mapping[str, Callable[[], dict[str, Any]]] = {BACKEND: _backends, POOL: _pools, WORKFLOW: _limits}


def _kept_in_history(config_type: str) -> Callable[[], dict[str, Any]]:
    def read() -> dict[str, Any]:
        rows = ConfigRevision.objects.filter(config_type=config_type).order_by("name", "-revision")
        newest = rows.distinct("name").values_list("name", "content")
        return {name: content for name, content in newest if content is not None}

    return read


def _prepare_backends(file: ConfigFile, change: ConfigChange) -> dict[str, PreparedBackend]:
    prepared: dict[str, PreparedBackend] = {}
    for name, document in file.objects.get(BACKEND, {}).items():
        if len(file.faults) >= MAX_FAULTS:
            return prepared
        try:
            prepared[name] = prepare_backend(name=name, written=document, change=change, merge=False)
        except TopologyError as error:
            file.faults += _faults_at(error, file.paths[BACKEND, name])
    return prepared


@dataclass(slots=True, kw_only=True)
class _Import:
    """One import, inside its transaction."""

    file: ConfigFile
    prepared: Mapping[str, PreparedBackend]
    before: Configuration
    change: ConfigChange
    prune: bool
    force: bool
    applied_later: list[str] = field(default_factory=list)
    """Pod templates that were changed and not applied yet."""

    def write(self) -> tuple[Notice, ...]:
        faults, notices = self._in_order(changed_last=False)
        if faults and set(self.prepared) & set(self.before[BACKEND]):
            others, other_notices = self._in_order(changed_last=True)
            if not others:
                faults, notices = [], other_notices
        if wrong := [*self.file.faults, *faults]:
            located = in_order(self.file.located(fault) for fault in wrong)
            ordered = sorted(located, key=lambda fault: (fault.line or 0, fault.column or 0))
            raise InvalidSpec(f"Nothing was imported. {summary(ordered)}", ordered)
        return notices

    def _in_order(self, *, changed_last: bool) -> tuple[list[Fault], tuple[Notice, ...]]:
        """Write everything in one order; the writes stay only if there is no fault."""
        faults: list[Fault] = []
        self.applied_later = []
        late = set(self.before[BACKEND]) if changed_last else set()
        point = transaction.savepoint()
        self._write_others(faults)
        self._write_backends(faults, [name for name in self.prepared if name not in late])
        notices = self._write_pools(faults)
        self._apply_templates(faults)
        self._delete_left_out(faults, POOL)
        self._write_backends(faults, [name for name in self.prepared if name in late])
        for config_type in types_kept():
            if config_type not in (POOL, WORKFLOW):
                self._delete_left_out(faults, config_type)
        (transaction.savepoint_rollback if faults else transaction.savepoint_commit)(point)
        return faults, notices

    def _write_others(self, faults: list[Fault]) -> None:
        for config_type, objects in self.file.objects.items():
            if config_type in (POOL, BACKEND):
                continue
            for name, document in objects.items():
                if len(faults) >= MAX_FAULTS:  # nothing will be written, so the others need not be read
                    return
                path = self.file.paths[config_type, name]
                if config_type == POD_TEMPLATE:
                    self._write_template(faults, name, document, path=path)
                else:
                    self._restore(faults, config_type, name, document, path=path)

    def _write_template(self, faults: list[Fault], name: str, document: Any, *, path: Path) -> None:
        with _collecting(faults, path):
            write_pod_template(name=name, document=document, change=self.change, later=self.applied_later)

    def _apply_templates(self, faults: list[Fault]) -> None:
        """Apply changed templates to the pools as written; refused pools have their own faults already."""
        if any(fault.path[:1] == ("pools",) for fault in faults):
            return
        for name in self.applied_later:
            with _collecting(faults, self.file.paths[POD_TEMPLATE, name]):
                apply_again([name], change=self.change)

    def _write_backends(self, faults: list[Fault], names: Sequence[str]) -> None:
        for name in names:
            path = self.file.paths[BACKEND, name]
            with _collecting(faults, path):
                write_prepared(self.prepared[name], change=self.change)

    def _write_pools(self, faults: list[Fault]) -> tuple[Notice, ...]:
        pool_faults: list[Fault] = []
        notices: tuple[Notice, ...] = ()
        with _collecting(pool_faults, ("pools",)):
            notices = put_pools(documents=self.file.objects.get(POOL, {}), change=self.change).notices
        faults += [fault for fault in pool_faults if not self._is_reported(fault)]
        return notices

    def _is_reported(self, fault: Fault) -> bool:
        """Whether a pool's backend is missing only because the file declares it with faults of its own."""
        if fault.code != "unknown_backend" or len(fault.path) < 2:
            return False
        pool = self.file.objects[POOL][str(fault.path[1])]
        return pool["backend"] in self.file.objects.get(BACKEND, {})

    def _delete_left_out(self, faults: list[Fault], config_type: str) -> None:
        if not self.prune or config_type not in self.file.objects:
            return
        section = next(name for name in SECTIONS if SECTIONS[name] == config_type)
        for name in sorted(set(self.before[config_type]) - set(self.file.objects[config_type])):
            self._restore(faults, config_type, name, None, path=(section, name))

    def _restore(self, faults: list[Fault], config_type: str, name: str, content: Any, *, path: Path) -> None:
        with _collecting(faults, path):
            RESTORERS[config_type](name=name, content=content, change=self.change, force=self.force)


@contextmanager
def _collecting(faults: list[Fault], path: Path) -> Iterator[None]:
    """Undo one object's write if it is refused and collect its faults; the others are checked too."""
    try:
        with transaction.atomic():
            yield
    except TopologyError as error:
        faults += _faults_at(error, path)


def _faults_at(error: TopologyError, path: Path) -> list[Fault]:
    if isinstance(error, InvalidSpec) and error.faults:
        return [replace(fault, path=(*path, *fault.path)) for fault in error.faults]
    return [Fault(path, "refused", error.message)]


def lines_of(faults: Sequence[Fault]) -> list[str]:
    """One line for each fault, with its place in the file."""
    return [f"line {f.line or '?'}: {format_path(f.path) or 'the file'}: {f.message}" for f in faults]


def _outcome(before: Configuration, after: Configuration, notices: tuple[Notice, ...]) -> Imported:
    changed, parts = [], []
    for config_type in after:
        was, now = before[config_type], after[config_type]
        for name in history.changed_names(was, now):
            changed.append((config_type, name))
            parts.append(
                history.unified_diff(
                    was.get(name), now.get(name), name=f"{config_type} {name}", was="now", now="imported"
                )
            )
    return Imported(changed=tuple(changed), diff="\n".join(parts), notices=notices)
