"""What the rest of the product may ask of a cluster.

``ClusterApi`` is the seam: ``gateway.ClusterGateway`` talks to an API server, and the tests have one in
memory that passes the same contract tests. Three rules hold for every method.

- An answer and the lack of one are never the same value. ``get`` is None and ``delete`` is ABSENT only
  when the server said that this object is not there; everything else raises a ``ClusterError``.
- Every call is bounded in time. ``call_seconds`` is the most that one may wait for the server, so a
  caller that holds a lease can tell whether enough of it is left.
- Writes name their field manager and ask the server to refuse unknown fields. A field dropped in
  silence (a sub-group's ``parent`` on an old CustomResourceDefinition) would place a gang against what
  its user asked for.

Deadlines are instants of ``clock.boot_seconds()``. Rejected: one method per kind; and an asynchronous
interface, because the callers are Celery workers and management commands; only web follows logs on an event
loop, many at a time.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, Protocol, Self, TypeVar

from cluster.errors import ClusterError
from cluster.kinds import Kind

Obj = dict[str, Any]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FIELD_MANAGER = "osmo-topology"


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All matching objects at ``resource_version``, from which a watch may continue."""

    items: tuple[T, ...]
    resource_version: str


class Deletion(StrEnum):
    """The result of a delete. ACCEPTED objects remain until finalizers and kubelet are done: list again."""

    ABSENT = "absent"  # no object of that name, or one with another uid: ours is gone
    REMOVED = "removed"  # the server says that it is gone with this call
    ACCEPTED = "accepted"  # the server began; only a get that answers None proves the end


class WriteResult(StrEnum):
    """The result of one write of many."""

    DONE = "done"
    REMOVED = "removed"  # delete: the server says that it is gone with this call
    EXISTS = "exists"  # create: an object of that name is there; read its labels to see whose
    ABSENT = "absent"  # delete: it was not there, or had another uid
    REFUSED = "refused"  # the server said no; ``error`` says why
    UNKNOWN = "unknown"  # sent, and no reply came: look before doing it again
    UNSENT = "unsent"  # the deadline or a dead connection came first: nothing happened


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The outcome for one object of ``create_many`` or ``delete_many``, in the given order.

    ``uid`` is the server's, if known (created objects); ``error`` is set for REFUSED, UNKNOWN, UNSENT and
    EXISTS.
    """

    namespace: str
    name: str
    wrote: WriteResult
    uid: str = ""
    error: ClusterError | None = None


@dataclass(frozen=True, slots=True)
class DeleteTarget:
    """One object to delete. Without ``uid`` any object of that name is deleted, so give it.

    With ``resource_version`` it is deleted only as it was read: REFUSED by a WriteConflict if it has changed.
    """

    name: str
    namespace: str = ""
    uid: str | None = None
    resource_version: str | None = None


class Stream(Protocol[T_co]):
    """A reply that is read in pieces until it ends or is closed.

    ``close`` may be called from another thread or a signal handler; it ends a blocked read at once.
    """

    def __iter__(self) -> Iterator[T_co]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


class Channels(Protocol):
    """An open session in a pod: numbered channels both ways, see ``pod_channels``."""

    async def receive(self) -> tuple[int, bytes] | None: ...
    async def send(self, channel: int, data: bytes) -> None: ...
    async def end_input(self) -> None: ...


class ClusterApi(Protocol):
    """One API server, with the rights of one set of credentials.

    ``namespace`` is needed for a namespaced kind except in ``list``, ``scan`` and ``watch``, where
    leaving it empty means all namespaces. Every method raises a ``ClusterError``: ``ClusterUnreachable``
    without a reply, ``NotServed`` when the kind is not known there, and what it names otherwise.
    """

    @property
    def call_seconds(self) -> float:
        """The longest time for which one call waits for a silent server."""

    def get(self, kind: Kind, name: str, *, namespace: str = "") -> Obj | None: ...

    def list(
        self, kind: Kind, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing[Obj]: ...

    def scan(
        self,
        kind: Kind,
        reduce: Callable[[Obj], T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> Listing[T]:
        """List page by page, keeping only the ``reduce`` of each object.

        With ``metadata_only`` the server is asked for no more of an object than its metadata.
        """

    def watch(
        self,
        kind: Kind,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int,
    ) -> Stream[Obj]:
        """Follow changes after ``resource_version``: dictionaries with ``type`` and ``object``.

        The server ends the stream after ``timeout_seconds``. A version that is too old comes as
        ``Expired`` from here or as an event of type ERROR. ``watch.Watch`` deals with all of that.
        """

    def create(self, kind: Kind, obj: Obj, *, dry_run: bool = False) -> Obj: ...

    def create_many(self, kind: Kind, objs: Sequence[Obj], *, deadline: float) -> Sequence[WriteOutcome]:
        """Create all of them, several at a time; one WriteOutcome per object, in order.

        Raises nothing for what goes wrong with single objects or the connection: it is in the
        outcomes. Must not be called from a thread with a running event loop.
        """

    def apply(self, kind: Kind, obj: Obj) -> Obj:
        """Server-side apply; creates or changes, and returns the object as it is now.

        Fields applied before and left out now are removed; those that another manager has set are taken over.
        """

    def patch(self, kind: Kind, name: str, body: Obj, *, namespace: str = "") -> Obj:
        """Merge into the object (RFC 7386), and return it as it is now."""

    def patch_status(self, kind: Kind, name: str, body: Obj, *, namespace: str = "") -> Obj:
        """Merge into the status alone, where the kind has it as a subresource."""

    def delete(
        self,
        kind: Kind,
        name: str,
        *,
        uid: str | None,
        namespace: str = "",
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> Deletion:
        """Delete the object with this uid.

        Raises WriteConflict when ``resource_version`` is not the current one.
        """

    def delete_many(
        self,
        kind: Kind,
        targets: Sequence[DeleteTarget],
        *,
        deadline: float,
        grace_seconds: int | None = None,
    ) -> Sequence[WriteOutcome]:
        """Delete several at a time; DONE means the server accepted it, REMOVED that the object is gone."""

    def logs(
        self,
        pod: str,
        *,
        namespace: str,
        container: str = "",
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
    ) -> Stream[bytes]:
        """A pod's log in chunks as they come, not in lines. ObjectNotFound if there is no such pod.

        Without ``container`` a pod of several is refused (Invalid).
        """

    def follow_log(
        self, pod: str, *, namespace: str, container: str = "", tail_lines: int | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A pod's log on an event loop, in chunks as they come, until it ends. ObjectNotFound as ``logs``."""

    def open_exec(
        self,
        pod: str,
        *,
        namespace: str,
        uid: str,
        container: str,
        command: Sequence[str],
        stdin: bool,
        tty: bool,
    ) -> AbstractAsyncContextManager[Channels]:
        """Run a command in a container of the pod with this uid, on an event loop.

        Raises ObjectNotFound if the name is another pod's by now.
        """

    def open_forward(
        self, pod: str, *, namespace: str, uid: str, port: int
    ) -> AbstractAsyncContextManager[Channels]:
        """One connection to a port of the pod with this uid, on an event loop; errors as ``open_exec``."""

    def read_crd_schema(self, kind: Kind) -> Obj | None:
        """The openAPIV3Schema under which a custom kind is served; None if it is not served at all."""

    def discover(self, group: str, version: str) -> frozenset[str] | None:
        """The plurals served in a group's version; None if the group version is not served."""

    def kube_system_uid(self, *, within: float = 0.0) -> str:
        """The uid of the kube-system namespace: the identity of the cluster behind any address.

        One that was read over the same connection at most ``within`` seconds ago is good enough.
        """

    def server_version(self) -> str:
        """The git version, such as ``v1.37.2``."""

    def server_time(self) -> datetime:
        """The API server's clock, in whole seconds."""


def serves(cluster: ClusterApi, kind: Kind) -> bool:
    """Whether the API server lists a kind; of a custom kind it may list the group's others alone."""
    return kind.plural in (cluster.discover(kind.group, kind.version) or ())
