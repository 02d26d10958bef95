"""The only way from the product to an API server.

It is thin: it builds a request, sends it through this process's connection, and turns the reply into a result
or an error. It keeps no state but the address, so it may be created for each use and survives a fork. The
caller retries (a row has the time of the next try), with two exceptions that can do nothing twice: after a
401 the credentials are read again, once, and a read on a dead kept connection is sent again, once. A write
whose reply is lost raises ``ClusterUnreachable`` with ``maybe_applied``.

Behaviour of the API that this relies on (Kubernetes 1.36): a server-side apply that creates answers 201; a
delete answers with a ``Status`` when the object is gone and with the object when it may linger; a failed uid
precondition is a 409 and means that the object of that uid is gone; a continue token outlives its list by
five minutes, after which the list begins again.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from cluster import api_requests, bulk, errors, log_stream, metrics, pod_channels, reachability
from cluster.clock import boot_seconds
from cluster.connection import Access, Connection, connection_for, forget
from cluster.errors import (
    AlreadyExists,
    ClusterError,
    ClusterUnreachable,
    DeadlinePassed,
    Expired,
    NotServed,
    ObjectNotFound,
    ServerFault,
    WriteConflict,
)
from cluster.interface import (
    Channels,
    DeleteTarget,
    Deletion,
    Listing,
    Obj,
    WriteOutcome,
    WriteResult,
)
from cluster.kinds import CRD, NAMESPACE, POD, Kind
from cluster.storable import decode
from cluster.stream import EventStream, HttpStream

T = TypeVar("T")

CONNECT_SECONDS = 3.0
READ_SECONDS = 20.0  # for a whole reply; a list page of 500 pods comes in well under one
CHUNK = 256 * 1024
WATCH_GRACE_SECONDS = 15.0  # the server ends a watch itself; this long after that it counts as dead
PAGE = 500
LIST_ATTEMPTS = 3  # a list that cannot finish within its token's five minutes is begun again this often

_HEAD = re.compile(
    rb'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
    rb'{"name":"[^"\\]*",(?:"namespace":"[^"\\]*",)?"uid":"([0-9a-f-]+)",'
)
"""The beginning of an object's metadata as an API server writes it, with its uid."""

_NEVER_SENT = (NewConnectionError, ConnectTimeoutError, SSLError, ProxyError)


class ClusterGateway:
    """``interface.ClusterApi`` on a real API server; the interface describes each method."""

    def __init__(
        self,
        access: Access,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
        until: float | None = None,
    ) -> None:
        """``until``: an instant of ``boot_seconds`` after which no call begins."""
        self._until = until
        self._access = access
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds

    @property
    def call_seconds(self) -> float:
        return self._connect_seconds + self._read_seconds

    def get(self, kind: Kind, name: str, *, namespace: str = "") -> Obj | None:
        try:
            path = api_requests.path_of(kind, namespace=namespace, name=name)
            return self._json(api_requests.read(path))
        except ObjectNotFound:
            return None

    def list(
        self, kind: Kind, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing[Obj]:
        return self.scan(
            kind,
            lambda obj: obj,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )

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
        path = api_requests.path_of(kind, namespace=namespace)
        query = api_requests.selection(label_selector=label_selector, field_selector=field_selector)
        accept = api_requests.LISTED_METADATA if metadata_only else api_requests.JSON
        for attempt in range(1, LIST_ATTEMPTS + 1):
            try:
                return self._scan_once(kind, partial(api_requests.read, path, accept=accept), query, reduce)
            except Expired:
                if attempt == LIST_ATTEMPTS:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _scan_once(
        self,
        kind: Kind,
        read: Callable[[dict[str, str]], api_requests.Request],
        query: dict[str, str],
        reduce: Callable[[Obj], T],
    ) -> Listing[T]:
        items: Any = []
        token = ""
        while True:
            page_query = query | {"limit": str(PAGE)} | ({"continue": token} if token else {})
            page = self._json(read(page_query))
            for item in page.pop("items", None) or ():  # the next page comes when this one is gone
                item |= {"apiVersion": kind.api_version, "kind": kind.name}  # which some lists leave out
                items.append(reduce(item))
            token = page["metadata"].get("continue") or ""
            if not token:
                return Listing(tuple(items), str(page["metadata"]["resourceVersion"]))

    def watch(
        self,
        kind: Kind,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int,
    ) -> EventStream:
        query = api_requests.selection(label_selector=label_selector, field_selector=field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        request = api_requests.read(api_requests.path_of(kind, namespace=namespace), query)
        return EventStream(self._stream(request, silence=timeout_seconds + WATCH_GRACE_SECONDS))

    def create(self, kind: Kind, obj: Obj, *, dry_run: bool = False) -> Obj:
        return self._json(api_requests.create(kind, obj, dry_run=dry_run))

    def create_many(self, kind: Kind, objs: Sequence[Obj], *, deadline: float) -> Sequence[WriteOutcome]:
        requests = [
            (
                api_requests.namespace_of(kind, obj),
                str(obj["metadata"]["name"]),
                api_requests.create(kind, obj),
            )
            for obj in objs
        ]
        return self._bulk(requests, read=_created, deadline=deadline)

    def apply(self, kind: Kind, obj: Obj) -> Obj:
        return self._json(api_requests.apply(kind, obj))

    def patch(self, kind: Kind, name: str, body: Obj, *, namespace: str = "") -> Obj:
        path = api_requests.path_of(kind, namespace=namespace, name=name)
        return self._json(api_requests.patch(path, body))

    def patch_status(self, kind: Kind, name: str, body: Obj, *, namespace: str = "") -> Obj:
        path = f"{api_requests.path_of(kind, namespace=namespace, name=name)}/status"
        return self._json(api_requests.patch(path, body))

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
        path = api_requests.path_of(kind, namespace=namespace, name=name)
        request = api_requests.delete(
            path,
            uid=uid,
            resource_version=resource_version,
            grace_seconds=grace_seconds,
        )
        try:
            reply = self._json(request)
        except ObjectNotFound:
            return Deletion.ABSENT
        except WriteConflict:
            if uid is not None and self._uid_of(kind, name, namespace) != uid:
                return Deletion.ABSENT
            raise
        return _deletion(reply)

    def _uid_of(self, kind: Kind, name: str, namespace: str) -> str | None:
        obj = self.get(kind, name, namespace=namespace)
        return None if obj is None else str(obj["metadata"]["uid"])

    def delete_many(
        self,
        kind: Kind,
        targets: Sequence[DeleteTarget],
        *,
        deadline: float,
        grace_seconds: int | None = None,
    ) -> Sequence[WriteOutcome]:
        requests = [
            (
                target.namespace,
                target.name,
                api_requests.delete(
                    api_requests.path_of(kind, namespace=target.namespace, name=target.name),
                    uid=target.uid,
                    resource_version=target.resource_version,
                    grace_seconds=grace_seconds,
                ),
            )
            for target in targets
        ]
        outcomes = self._bulk(requests, read=_deleted, deadline=deadline)
        return [
            self._settled(kind, target, outcome) for target, outcome in zip(targets, outcomes, strict=True)
        ]

    def _settled(self, kind: Kind, target: DeleteTarget, outcome: WriteOutcome) -> WriteOutcome:
        """Tell a name that another uid has by now (the object is gone) from a delete that was refused."""
        if not isinstance(outcome.error, WriteConflict) or target.uid is None:
            return outcome
        try:
            replaced = self._uid_of(kind, target.name, target.namespace) != target.uid
        except ClusterError:
            return outcome  # still REFUSED by a conflict, as the server said
        return WriteOutcome(target.namespace, target.name, WriteResult.ABSENT) if replaced else outcome

    def _bulk(
        self, requests: Sequence[bulk.NamedRequest], *, read: bulk.Read, deadline: float
    ) -> Sequence[WriteOutcome]:
        try:
            connection = connection_for(self._access)
        except ClusterError as error:
            return [
                WriteOutcome(namespace, name, WriteResult.UNSENT, error=error)
                for namespace, name, _ in requests
            ]
        outcomes = bulk.run(
            connection,
            requests,
            read=read,
            refused=_refused,
            deadline=deadline,
            reply_seconds=self._read_seconds,
        )
        if requests:
            replied = any(not isinstance(o.error, ClusterUnreachable) for o in outcomes)
            reachability.note(self._access, replied=replied)
        if any(isinstance(outcome.error, errors.Unauthorized) for outcome in outcomes):
            forget(self._access)
        return outcomes

    def logs(
        self,
        pod: str,
        *,
        namespace: str,
        container: str = "",
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
    ) -> HttpStream:
        limits = {"tailLines": tail_lines, "limitBytes": limit_bytes, "container": container or None}
        query = {key: str(value) for key, value in limits.items() if value is not None}
        path = api_requests.path_of(POD, namespace=namespace, name=pod) + "/log"
        return self._stream(api_requests.read(path, query), silence=self._read_seconds)

    def follow_log(
        self, pod: str, *, namespace: str, container: str = "", tail_lines: int | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        query = {"follow": "true"} | ({"container": container} if container else {})
        query |= {} if tail_lines is None else {"tailLines": str(tail_lines)}
        path = api_requests.path_of(POD, namespace=namespace, name=pod) + "/log"
        return log_stream.opened(
            self._access, api_requests.read(path, query), connect_seconds=self._connect_seconds
        )

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
        path = api_requests.path_of(POD, namespace=namespace, name=pod)
        query = [("container", container), ("stdout", "true"), ("stderr", str(not tty).lower())]
        query += [("stdin", str(stdin).lower()), ("tty", str(tty).lower())]
        query += [("command", word) for word in command]
        return pod_channels.opened(
            self._access,
            api_requests.read(path, accept=api_requests.METADATA),
            api_requests.read(f"{path}/exec", query),
            uid=uid,
            protocols=pod_channels.EXEC_PROTOCOLS,
            connect_seconds=self._connect_seconds,
        )

    def open_forward(
        self, pod: str, *, namespace: str, uid: str, port: int
    ) -> AbstractAsyncContextManager[Channels]:
        path = api_requests.path_of(POD, namespace=namespace, name=pod)
        return pod_channels.opened(
            self._access,
            api_requests.read(path, accept=api_requests.METADATA),
            api_requests.read(f"{path}/portforward", {"ports": str(port)}),
            uid=uid,
            protocols=pod_channels.FORWARD_PROTOCOLS,
            connect_seconds=self._connect_seconds,
            preamble=pod_channels.PORT_BYTES,
        )

    def read_crd_schema(self, kind: Kind) -> Obj | None:
        definition = self.get(CRD, f"{kind.plural}.{kind.group}")
        for version in (definition or {}).get("spec", {}).get("versions", ()):
            if version["name"] == kind.version and version["served"]:
                schema: Obj = (version.get("schema") or {}).get("openAPIV3Schema") or {}
                return schema
        return None

    def discover(self, group: str, version: str) -> frozenset[str] | None:
        try:
            reply = self._json(api_requests.read(f"/apis/{group}/{version}" if group else f"/api/{version}"))
        except NotServed:
            return None
        return frozenset(entry["name"] for entry in reply["resources"] if "/" not in entry["name"])

    def kube_system_uid(self, *, within: float = 0.0) -> str:
        connection, at = connection_for(self._access), boot_seconds()
        if connection.identity is not None:
            read_at, uid_then = connection.identity
            if at - read_at < within:
                return uid_then
        uid = self._uid_of(NAMESPACE, "kube-system", "")
        if uid is None:
            raise ObjectNotFound("the cluster has no namespace kube-system (yet)", status=404)
        connection.identity = at, uid
        return uid

    def server_version(self) -> str:
        return str(self._json(api_requests.read("/version"))["gitVersion"])

    def server_time(self) -> datetime:
        request = api_requests.read("/version")
        reply, _ = self._send(request, timeout=self._patience(self._read_seconds))
        try:
            return parsedate_to_datetime(reply.headers.get("Date", ""))
        except ValueError as failure:
            raise ClusterUnreachable("the reply has no date", request=str(request)) from failure

    def _json(self, request: api_requests.Request) -> Obj:
        try:
            reply, body = self._send(request, timeout=self._patience(self._read_seconds))
        except ClusterUnreachable as error:
            if request.writes and isinstance(error.__cause__, ReadTimeoutError) and self._answers_reads():
                message = (
                    f"no reply within {self._read_seconds:g} seconds, although the API server answers reads; "
                    "perhaps a webhook that it asks first gives no answer"
                )
                raise ServerFault(message, request=str(request), maybe_applied=True) from error
            raise
        try:
            reply_object = decode(body)
        except ValueError as failure:
            raise ClusterUnreachable(
                f"the reply is not JSON: {errors.shorten(repr(body[:200]))}",
                request=str(request),
                status=reply.status,
                maybe_applied=request.writes,
            ) from failure
        if not isinstance(reply_object, dict):
            raise ClusterUnreachable(
                "the reply is not a JSON object", request=str(request), status=reply.status
            )
        return reply_object

    def _answers_reads(self) -> bool:
        """Whether the server answers what no webhook and no storage holds up."""
        try:
            self._send(api_requests.read("/version"), timeout=self._patience(self._connect_seconds))
        except ClusterError:
            return False
        return True

    def _stream(self, request: api_requests.Request, *, silence: float | None) -> HttpStream:
        reply, _ = self._send(request, timeout=self._patience(silence), read_body=False)
        return HttpStream(reply, request=str(request))

    def _patience(self, silence: float | None) -> urllib3.Timeout:
        return urllib3.Timeout(connect=self._connect_seconds, read=silence)

    def _send(
        self, request: api_requests.Request, *, timeout: urllib3.Timeout, read_body: bool = True
    ) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        """Send, again where that can do no harm; returns a reply below 300, its body if ``read_body``."""
        with metrics.timed(request):
            return self._send_again(request, timeout=timeout, read_body=read_body)

    def _send_again(
        self, request: api_requests.Request, *, timeout: urllib3.Timeout, read_body: bool
    ) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        for last in (False, True):
            try:
                reply, body = self._exchange(request, timeout=timeout, read_body=read_body)
            except ClusterUnreachable as error:
                if isinstance(error.__cause__, SSLError):
                    forget(self._access)
                if last or request.writes or not isinstance(error.__cause__, ProtocolError):
                    raise
                continue
            if reply.status < 300:
                return reply, body
            refusal = body if read_body else _refusal(reply, request)
            if reply.status == 401 and not last:
                forget(self._access)
                continue
            raise errors.from_reply(reply.status, refusal, headers=dict(reply.headers), request=str(request))
        raise AssertionError("unreachable: the last round returns or raises")

    def _exchange(
        self, request: api_requests.Request, *, timeout: urllib3.Timeout, read_body: bool
    ) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        if self._until is not None and boot_seconds() >= self._until:
            raise DeadlinePassed("not sent: the deadline came first", request=str(request))
        connection = connection_for(self._access)
        until = boot_seconds() + self.call_seconds
        replied = False
        try:
            reply = connection.request(
                request.method,
                request.path,
                body=request.body,
                headers=_headers(connection, request),
                timeout=timeout,
            )
            body = _read_whole(reply, until=until) if read_body else b""
            replied = True
        except _NEVER_SENT as failure:
            raise ClusterUnreachable(f"no connection: {failure}", request=str(request)) from failure
        except (ReadTimeoutError, HTTPError, OSError) as failure:
            raise ClusterUnreachable(
                f"no reply: {failure}", request=str(request), maybe_applied=request.writes
            ) from failure
        finally:
            reachability.note(self._access, replied=replied)
        return reply, body


def _read_whole(reply: urllib3.BaseHTTPResponse, *, until: float) -> bytes:
    """Read a reply that must have come by ``until``: one that trickles resets the timeout of each read."""
    pieces = []
    while piece := reply.read1(CHUNK):
        pieces.append(piece)
        if boot_seconds() > until:
            reply.close()
            raise HTTPError("the reply took too long")
    return b"".join(pieces)


def _refusal(reply: urllib3.BaseHTTPResponse, request: api_requests.Request) -> bytes:
    """The body of a refusal; a stream's is read only now, and may break off."""
    try:
        return reply.data
    except (HTTPError, OSError) as failure:
        raise ClusterUnreachable(
            f"the refusal with {reply.status} broke off: {failure}",
            request=str(request),
            status=reply.status,
            maybe_applied=request.writes,
        ) from failure
    finally:
        reply.close()


def _headers(connection: Connection, request: api_requests.Request) -> dict[str, str]:
    headers = {
        "Accept": "*/*" if request.path.partition("?")[0].endswith("/log") else request.accept,
        "Content-Type": request.content_type,
        "User-Agent": api_requests.USER_AGENT,
        "Audit-ID": str(uuid4()),  # the id under which the cluster's audit log has this request
    }
    if (token := connection.authorization()) is not None:
        headers["Authorization"] = token
    return headers


def _deletion(reply: Obj) -> Deletion:
    """Whether an object is gone: services and pods come back, where others are answered by a Status.

    A pod that was removed comes with a grace period of 0, one that lingers with a longer one or a finalizer.
    """
    metadata = reply.get("metadata") or {}
    awaits_kubelet = "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds") != 0
    is_removed = "uid" in metadata and not awaits_kubelet and not metadata.get("finalizers")
    is_gone = reply.get("kind") == "Status" or is_removed
    return Deletion.REMOVED if is_gone else Deletion.ACCEPTED


def _created(body: bytes) -> tuple[WriteResult, str]:
    head = _HEAD.match(body)  # to decode the rest of thousands of objects would be for nothing
    return WriteResult.DONE, head[1].decode() if head else str(decode(body)["metadata"]["uid"])


def _deleted(body: bytes) -> tuple[WriteResult, str]:
    is_gone = _deletion(decode(body)) is Deletion.REMOVED
    return (WriteResult.REMOVED if is_gone else WriteResult.DONE), ""


def _refused(error: ClusterError) -> WriteResult:
    if isinstance(error, AlreadyExists):
        return WriteResult.EXISTS
    if isinstance(error, ObjectNotFound) and error.request.startswith("DELETE"):
        return WriteResult.ABSENT
    return WriteResult.REFUSED
