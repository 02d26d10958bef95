"""The address and credentials of a cluster as connections, kept once per process.

Configuration, credentials and TLS come from the ``kubernetes`` package: it knows kubeconfig files, contexts,
rotating service account tokens and proxies. This module works around its weaknesses.

A kubeconfig may name a program that gives credentials (``exec``, ``auth-provider``), and the package would
run it in the service's process. Whoever configures a backend chooses the file, so such a file is refused
before the package reads it.

A client per call costs 28 ms of CPU, a CA file per new connection 2 ms, the system's CA bundle 21 ms
(measured). So there is one pool per process and cluster, around one TLS context that is read once.

A pool must not cross a fork: two processes would share one TLS session. The table of connections is emptied
in the child, without closing the parent's sockets.

A kubeconfig is edited and rotated at run time, so a connection is valid only for the version of its file
(device, inode, time, size). The files that it names (tokens, certificates) are read again, through
``forget``, when the server answers 401 or TLS fails.

The bearer token is read again every few seconds, because reading runs the refresh hook, and not for every
request, because the hook costs 0.05 ms and more (it reads the environment's proxies). Its key is
``BearerToken``; with ``authorization`` requests are silently anonymous (kubernetes 37.0.1).

Rejected: the client's own request methods. They validate bodies against models, hide the status 201 of an
apply, and raise errors of three families.
"""

import logging
import os
import ssl
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.config import ConfigException
from kubernetes.utils.keepalive import tcp_keepalive_socket_options

from cluster.errors import BadConnectionSettings, CredentialProgram

POOL_SIZE = 16  # connections kept per process and cluster; more threads than this open and drop extra ones
TOKEN_SECONDS = 5.0  # tokens are refreshed a minute and more before they end

log = logging.getLogger(__name__)

_UNREADABLE = (ConfigException, OSError, yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError)
"""The errors that the package raises for files that are no kubeconfig."""


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
        self.pool: urllib3.PoolManager = _pool(settings)
        proxy = getattr(self.pool, "proxy", None)
        self.proxy: str | None = proxy.url if proxy is not None else None
        self.proxy_headers: dict[str, str] | None = settings.proxy_headers if proxy is not None else None
        self.server_name: str | None = settings.tls_server_name or None

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


_connections: dict[Access, tuple[object, Connection]] = {}
_guard = threading.Lock()


def connection_for(access: Access) -> Connection:
    """The connection of this process to a cluster. Raises BadConnectionSettings."""
    stamp = _stamp(access)
    with _guard:
        entry = _connections.get(access)
        if entry is None or entry[0] != stamp:
            entry = (stamp, Connection(_settings(access)))
            _connections[access] = entry
        return entry[1]


def forget(access: Access) -> None:
    """Read credentials and configuration again at the next request: they may have been replaced."""
    with _guard:
        _connections.pop(access, None)


def _forget_after_fork() -> None:
    global _connections, _guard  # the child needs a lock that nobody holds
    _connections, _guard = {}, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


def _stamp(access: Access) -> object:
    if not access.kubeconfig:
        return None
    try:
        status = Path(access.kubeconfig).stat()
    except OSError as error:
        raise BadConnectionSettings(
            f"{access}: the file cannot be read: {error.strerror}; give a file this process may read, "
            "or none to use the service account of the pod"
        ) from error
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


def _settings(access: Access) -> client.Configuration:
    settings = client.Configuration()
    settings.connection_pool_maxsize = POOL_SIZE
    settings.socket_options = tcp_keepalive_socket_options()  # a silent watch finds out that its peer died
    try:
        if access.kubeconfig:
            _refuse_programs(access)
            config.load_kube_config(
                config_file=access.kubeconfig,
                context=access.context or None,
                client_configuration=settings,
                persist_config=False,
            )
        else:
            config.load_incluster_config(client_configuration=settings)
    except _UNREADABLE as error:
        raise BadConnectionSettings(f"{access}: {_cause_of(error)}{_contexts(access)}") from error
    if not isinstance(settings.host, str):
        raise BadConnectionSettings(f"{access}: the server of its cluster is no address")
    return settings


_PROGRAMS = {"exec", "auth-provider"}


def _refuse_programs(access: Access) -> None:
    """Refuse a kubeconfig whose context gets its credentials from a program. Raises CredentialProgram.

    The package joins several files at ``:`` and takes users from any of them, so each is read.
    """
    documents = [yaml.safe_load(Path(name).read_bytes()) for name in access.kubeconfig.split(os.pathsep)]
    current = {access.context} if access.context else {d.get("current-context") for d in documents}
    contexts = [entry for document in documents for entry in document.get("contexts") or ()]
    users = [entry["context"].get("user") for entry in contexts if entry["name"] in current]
    for document in documents:
        for entry in document.get("users") or ():
            if entry["name"] in users and _PROGRAMS & (entry.get("user") or {}).keys():
                raise CredentialProgram(
                    f'{access}: its user "{entry["name"]}" gets credentials from a program (exec or '
                    "auth-provider), and the service runs none: give a kubeconfig with a service account's "
                    "token, see docs/how-to/remote-cluster.md"
                )


def _cause_of(error: Exception) -> str:
    """The fault of a kubeconfig, without any of its content but the names of its entries.

    An administrator of configuration may write any path, and reads the answer.
    """
    if isinstance(error, (ConfigException, OSError)):
        return " ".join(str(error).split())
    if isinstance(error, yaml.reader.ReaderError):
        return f"it is not YAML: {error.reason}"
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        return "it is not YAML" + (f", see line {mark.line + 1}, column {mark.column + 1}" if mark else "")
    return f"it is not written as a kubeconfig ({type(error).__name__})"


def _contexts(access: Access) -> str:
    """The names of a kubeconfig's contexts, as far as it can be read."""
    if not access.context:
        return ""
    try:
        contexts, _ = config.list_kube_config_contexts(config_file=access.kubeconfig)
    except _UNREADABLE:
        return ""  # the message already says what is wrong with the file
    return "; its contexts are: " + ", ".join(sorted(str(entry["name"]) for entry in contexts))


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
