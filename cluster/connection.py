"""The address and credentials of a cluster as connections, kept once per process.

Configuration, credentials and TLS come from the ``kubernetes`` package: it knows kubeconfig files, contexts,
rotating service account tokens and proxies. This module works around its weaknesses.

A kubeconfig may name a program that gives credentials (``exec``, ``auth-provider``), and the package would
run it in the service's process. Whoever configures a backend chooses the file, so such a file is refused
before the package sees it. The package opens whatever a path leads to, so it gets no path: the kubeconfig and
the files that it names are read here (``configured_files``), and their contents handed on.

Each way to a cluster has a lock of its own. A file that cannot be read in time delays nobody else.

A client per call costs 28 ms of CPU, a CA file per new connection 2 ms, the system's CA bundle 21 ms
(measured). So there is one pool per process and cluster, around one TLS context that is read once.

A pool must not cross a fork: two processes would share one TLS session. The table of connections is emptied
in the child, without closing the parent's sockets.

A kubeconfig is edited and rotated at run time, so a connection is valid only for the version of its file
(device, inode, time, size). A check of that costs a thread, so it is made at most every second. The files
that it names (tokens, certificates) are read again, through ``forget``, when the server answers 401 or TLS
fails.

The bearer token is read again every few seconds, because reading runs the refresh hook, and not for every
request, because the hook costs 0.05 ms and more (it reads the environment's proxies). Its key is
``BearerToken``; with ``authorization`` requests are silently anonymous (kubernetes 37.0.1).

Rejected: the client's own request methods. They validate bodies against models, hide the status 201 of an
apply, and raise errors of three families.
"""

import base64
import logging
import os
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.config import ConfigException, incluster_config
from kubernetes.utils.keepalive import tcp_keepalive_socket_options

from cluster import configured_files
from cluster.configured_files import FileLate, FileRefused
from cluster.errors import BadConnectionSettings, CredentialProgram, UnusableFile

POOL_SIZE = 16  # connections kept per process and cluster; more threads than this open and drop extra ones
TOKEN_SECONDS = 5.0  # tokens are refreshed a minute and more before they end
VERSION_SECONDS = 1.0
MAX_DEPTH = 50  # of the levels of a kubeconfig

log = logging.getLogger(__name__)

_MALFORMED = (ConfigException, yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError)
"""The errors of a document that is no kubeconfig."""

_PROGRAMS = {"exec", "auth-provider"}
_NAMED_FILES = {
    "certificate-authority": "certificate-authority-data",
    "client-certificate": "client-certificate-data",
    "client-key": "client-key-data",
    "tokenFile": "token",
}
"""The fields of a kubeconfig that name files, and those that have their content."""


@dataclass(frozen=True, slots=True)
class Access:
    """The way to a cluster: a kubeconfig file and a context in it (empty: its current context).

    Without a file, the service account of the process's own pod is used.
    """

    kubeconfig: str = ""
    context: str = ""

    def __str__(self) -> str:
        if not self.kubeconfig:
            return "in-cluster service account"
        return f"kubeconfig {self.kubeconfig}" + (f", context {self.context}" if self.context else "")


class Connection:
    """A connection to one API server. Threads may share it, processes never."""

    def __init__(self, settings: client.Configuration) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._token: tuple[float, str | None] | None = None  # when asked for, and the answer
        self._tls_context: ssl.SSLContext | None = None
        self.base_url: str = settings.host.rstrip("/")
        self.identity: tuple[float, str] | None = None  # the ``boot_seconds`` before it was read, and the uid
        self._manager = _pool(settings)
        proxy = getattr(self._manager, "proxy", None)
        self.proxy: str | None = proxy.url if proxy is not None else None
        self.proxy_headers: dict[str, str] | None = settings.proxy_headers if proxy is not None else None
        self.server_name: str | None = settings.tls_server_name or None

    def request(self, method: str, path: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Send one request; nothing is sent again or elsewhere.

        The manager would parse the address once more, which takes a third of the time. A proxy needs it.
        """
        options |= {"retries": False, "redirect": False, "preload_content": False}
        if self.proxy is not None:
            return self._manager.urlopen(method, self.base_url + path, **options)
        pool, prefix = self._server
        return pool.urlopen(method, prefix + path, **options)

    @cached_property
    def _server(self) -> tuple[urllib3.HTTPConnectionPool, str]:
        """The pool of the server, and what its address puts before every path."""
        prefix = urllib3.util.parse_url(self.base_url).path or ""
        return self._manager.connection_from_url(self.base_url), prefix

    def authorization(self) -> str | None:
        """The current bearer token as a header value, refreshed when it expires."""
        now = time.monotonic()
        with self._lock:  # the hook rewrites the settings
            if self._token is not None and now - self._token[0] < TOKEN_SECONDS:
                return self._token[1]
            try:
                token = self._settings.auth_settings().get("BearerToken", {}).get("value")
            except (ConfigException, OSError, KeyError, ValueError) as error:
                raise BadConnectionSettings(f"the bearer token could not be refreshed: {error}") from error
            self._token = now, str(token).strip() if token else None
            return self._token[1]

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of clients beside the pool, made once; None for plain HTTP."""
        with self._lock:
            if self._tls_context is None and self.base_url.startswith("https"):
                self._tls_context = _tls(self._settings)
            return self._tls_context


@dataclass(slots=True, eq=False)
class _Slot:
    """The connection of one way to a cluster, and the version of the kubeconfig that it was made from."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: Connection | None = None
    version: object = None
    compared: float = 0.0


_slots: dict[Access, _Slot] = {}
_guard = threading.Lock()
_package = threading.Lock()
"""The package keeps the files that it writes in a table without a lock."""


def connection_for(access: Access) -> Connection:
    """The connection of this process to a cluster. Raises BadConnectionSettings."""
    with _guard:
        slot = _slots.setdefault(access, _Slot())
    try:
        with slot.lock:
            if slot.connection is None or time.monotonic() - slot.compared >= VERSION_SECONDS:
                _renew(slot, access)
            if slot.connection is None:
                raise AssertionError("unreachable: it was made, or an error was raised")
            return slot.connection
    except BadConnectionSettings:
        if slot.connection is None:
            forget(access)
        raise


def _renew(slot: _Slot, access: Access) -> None:
    version = _version(access)
    if slot.connection is None or slot.version != version:
        slot.connection = Connection(_settings(access))
        slot.version = version
    slot.compared = time.monotonic()


def forget(access: Access) -> None:
    """Read credentials and configuration again at the next request: they may have been replaced."""
    with _guard:
        _slots.pop(access, None)


def _forget_after_fork() -> None:
    global _slots, _guard, _package  # the child needs locks that nobody holds
    _slots, _guard, _package = {}, threading.Lock(), threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


@cache
def own_namespace() -> str:
    """The namespace of the pod that this process runs in; empty outside a cluster."""
    path = str(Path(incluster_config.SERVICE_TOKEN_FILENAME).with_name("namespace"))
    try:
        return configured_files.read(path, places=(path,)).decode().strip()
    except (FileRefused, FileLate, OSError, ValueError):
        return ""


def _version(access: Access) -> object:
    if not access.kubeconfig:
        return None
    places = configured_files.kubeconfig_places()
    try:
        return configured_files.version(access.kubeconfig, places=places)
    except FileRefused as error:
        raise UnusableFile(f"{access}: {error}") from error
    except (FileLate, OSError, ValueError) as error:
        raise BadConnectionSettings(
            f"{access}: the file cannot be read: {_file_fault(error)}; give a file this process may read, "
            "or none to use the service account of the pod"
        ) from error


def _file_fault(error: Exception) -> str:
    return str(error.strerror) if isinstance(error, OSError) else str(error)


def _settings(access: Access) -> client.Configuration:
    settings = client.Configuration()
    settings.connection_pool_maxsize = POOL_SIZE
    settings.socket_options = tcp_keepalive_socket_options()  # a silent watch finds out that its peer died
    document: Any = None
    try:
        if access.kubeconfig:
            document = _Kubeconfig(access).document()
            with _package:
                config.load_kube_config_from_dict(
                    document,
                    context=access.context or None,
                    client_configuration=settings,
                    persist_config=False,
                )
        else:
            config.load_incluster_config(client_configuration=settings)
    except (*_MALFORMED, OSError) as error:
        raise BadConnectionSettings(f"{access}: {_cause_of(error)}{_contexts(access, document)}") from error
    if not isinstance(settings.host, str):
        raise BadConnectionSettings(f"{access}: the server of its cluster is no address")
    return settings


class _Kubeconfig:
    """A kubeconfig as it is read: all its files within one time."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._until = time.monotonic() + configured_files.READ_SECONDS

    def document(self) -> Any:
        """The kubeconfig; the user and the cluster of its context have contents in place of file names.

        Raises BadConnectionSettings, or one of ``_MALFORMED``.
        """
        document = _parsed(self._read(self._access.kubeconfig, "the file"))
        if not isinstance(document, dict):
            raise ConfigException("Invalid kube-config file. No configuration found.")
        name = self._access.context or document.get("current-context")
        contexts = [entry["context"] for entry in document.get("contexts") or () if entry.get("name") == name]
        for kind in ("user", "cluster"):
            used = [context.get(kind) for context in contexts]
            entries = document.get(f"{kind}s") or ()
            document[f"{kind}s"] = [
                entry | {kind: self._with_contents(entry["name"], entry[kind])}
                if entry.get("name") in used and entry.get(kind)
                else entry
                for entry in entries
            ]
        return document

    def _with_contents(self, name: object, content: Mapping[str, Any]) -> dict[str, Any]:
        if _PROGRAMS & content.keys():
            raise CredentialProgram(
                f'{self._access}: its user "{name}" gets credentials from a program (exec or '
                "auth-provider), and the service runs none: give a kubeconfig with a service account's "
                "token, see docs/how-to/remote-cluster.md"
            )
        fields = dict(content)
        for key, replacement in _NAMED_FILES.items():
            if (path := fields.pop(key, None)) is None or replacement in fields:
                continue
            base = os.path.dirname(self._access.kubeconfig)  # noqa: PTH120 -- a link is not followed
            text = self._read(os.path.join(base, path), f"its {key}")  # noqa: PTH118
            is_token = replacement == "token"
            fields[replacement] = text.decode().strip() if is_token else base64.b64encode(text).decode()
        return fields

    def _read(self, path: str, subject: str) -> bytes:
        places, seconds = configured_files.kubeconfig_places(), max(self._until - time.monotonic(), 0.0)
        try:
            return configured_files.read(path, places=places, seconds=seconds)
        except FileRefused as error:
            raise UnusableFile(f"{self._access}: {error}") from error
        except (FileLate, OSError) as error:
            raise BadConnectionSettings(
                f"{self._access}: {subject} cannot be read: {_file_fault(error)}"
            ) from error


def _parsed(content: bytes) -> Any:
    """A YAML document, read by libyaml; it recurses without a bound, so the depth is looked at first."""
    depth = 0
    for event in yaml.parse(content, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise ConfigException(f"Invalid kube-config file. It has more than {MAX_DEPTH} levels.")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return yaml.load(content, Loader=yaml.CSafeLoader)


def _cause_of(error: Exception) -> str:
    """The fault of a kubeconfig, without any of its content but the names of its entries.

    An administrator of configuration may write any path, and reads the answer.
    """
    if isinstance(error, ConfigException | OSError):
        return " ".join(str(error).split())
    if isinstance(error, yaml.reader.ReaderError):
        return f"it is not YAML: {error.reason}"
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        return "it is not YAML" + (f", see line {mark.line + 1}, column {mark.column + 1}" if mark else "")
    return f"it is not written as a kubeconfig ({type(error).__name__})"


def _contexts(access: Access, document: Any) -> str:
    """The names of a kubeconfig's contexts, as far as it could be read."""
    entries = document.get("contexts") if access.context and isinstance(document, dict) else None
    names = [str(entry.get("name")) for entry in entries or () if isinstance(entry, dict)]
    return "; its contexts are: " + ", ".join(sorted(names)) if names else ""


def _pool(settings: client.Configuration) -> urllib3.PoolManager:
    """The client's own pool manager (proxy, keepalive), with one TLS context instead of file names."""
    pool: urllib3.PoolManager = client.ApiClient(settings).rest_client.pool_manager
    options: dict[str, Any] = pool.connection_pool_kw
    for name in ("cert_reqs", "ca_certs", "ca_cert_data", "cert_file", "key_file"):
        options.pop(name, None)
    if settings.host.startswith("https"):
        options["ssl_context"] = _tls(settings)
    return pool


def _tls(settings: client.Configuration) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca_cert or None)
        if not settings.verify_ssl:
            log.warning("TLS of %s is not verified, because its kubeconfig says so", _host(settings))
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # said once is enough
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        raise BadConnectionSettings(
            f"the certificates for {_host(settings)} cannot be used: {error}"
        ) from error
    return context


def _host(settings: client.Configuration) -> str:
    """The server's address, without a password that may be in it."""
    return str(settings.host).rpartition("@")[2]
