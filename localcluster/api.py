"""A small client of the API server, for the local cluster's own use.

Nodes, CustomResourceDefinitions and the stand-ins need a handful of calls on raw paths. The
``kubernetes`` package validates bodies against its own models and builds a TLS context per
client; the product's gateway must stay unknown here, or a fault in it would be hidden by its own
echo. So: one urllib3 pool with the cluster's CA, a token, dicts in, dicts out.

Every answer that is not 2xx is an ApiError, a list that cannot be read included: an empty list
always means that there is nothing. Paths are raw (``/api/v1/nodes``).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import urlencode

import urllib3
import yaml

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
CONNECT_SECONDS = 30  # with its greeting, which a loaded machine is slow to give

Json = dict[str, Any]


class ApiError(Exception):
    """An answer of the API server other than success; ``code`` is the HTTP status."""

    def __init__(self, *, code: int, call: str, body: Json) -> None:
        self.code = code
        self.body = body
        self.reason = str(body.get("reason", ""))
        self.message = str(body.get("message", ""))
        super().__init__(f"{call}: {code} {self.reason}: {self.message}")


@dataclass(frozen=True, slots=True)
class Access:
    """Where an API server is and how one identity gets in."""

    server: str
    ca_file: Path
    token: str

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Self:
        """Read a kubeconfig of the local cluster: its current context, CA file and token."""
        content = yaml.safe_load(path.read_text())
        names = {kind: {e["name"]: e for e in content[kind]} for kind in ("contexts", "clusters", "users")}
        context = names["contexts"][content["current-context"]]["context"]
        cluster = names["clusters"][context["cluster"]]["cluster"]
        ca_file = (path.parent / cluster["certificate-authority"]).resolve()
        token = names["users"][context["user"]]["user"]["token"]
        return cls(server=cluster["server"], ca_file=ca_file, token=token)


class Api:
    """Calls to one API server as one identity, each with a limit; safe to share between threads."""

    def __init__(self, access: Access, *, connections: int = 8, seconds: float = 60) -> None:
        self.access = access
        self._seconds = seconds
        self._pool = urllib3.PoolManager(
            maxsize=connections, block=False, ca_certs=str(access.ca_file), cert_reqs="CERT_REQUIRED"
        )

    def call(
        self,
        verb: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = JSON,
        query: dict[str, Any] | None = None,
    ) -> Json:
        """Send one request and return the object in the answer; raises ApiError."""
        response = self._send(verb, path, body=body, content_type=content_type, query=query, stream=False)
        return cast("Json", json.loads(response.data or b"{}"))

    def text(self, path: str, *, query: dict[str, Any] | None = None) -> str:
        """Read a path that answers with plain text, such as a pod's log."""
        return self._send("GET", path, query=query, stream=False).data.decode()

    def get(self, path: str) -> Json:
        return self.call("GET", path)

    def find(self, path: str) -> Json | None:
        """Return the object at ``path``, or None where there is none."""
        try:
            return self.call("GET", path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def list(self, path: str, *, query: dict[str, Any] | None = None) -> tuple[list[Json], str]:
        """Return all objects of a collection and the list's resourceVersion."""
        answer = self.call("GET", path, query=query)
        return answer.get("items") or [], answer["metadata"]["resourceVersion"]

    def create(self, path: str, body: Json) -> Json:
        return self.call("POST", path, body=body)

    def replace(self, path: str, body: Json) -> Json:
        return self.call("PUT", path, body=body)

    def patch(self, path: str, body: Any, *, content_type: str = MERGE_PATCH) -> Json:
        return self.call("PATCH", path, body=body, content_type=content_type)

    def apply(self, path: str, body: Json, *, manager: str) -> Json:
        """Create or bring in line by server-side apply, taking over fields from other managers."""
        query = {"fieldManager": manager, "force": "true"}
        return self.call("PATCH", path, body=body, content_type=APPLY_PATCH, query=query)

    def delete(self, path: str, *, body: Json | None = None, missing_ok: bool = True) -> Json | None:
        """Ask for deletion; an object that is gone already is None unless ``missing_ok`` is off."""
        try:
            return self.call("DELETE", path, body=body)
        except ApiError as error:
            if error.code == 404 and missing_ok:
                return None
            raise

    def watch(
        self, path: str, *, resource_version: str, seconds: int = 300, query: dict[str, Any] | None = None
    ) -> Iterator[tuple[str, Json]]:
        """Yield (type, object) until the server ends the stream after ``seconds``.

        Types are ADDED, MODIFIED, DELETED and BOOKMARK. An ERROR event (410 when the version is
        too old, although the HTTP status was 200) is raised as ApiError.
        """
        headers = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
            **(query or {}),
        }
        response = self._send("GET", path, seconds=seconds + 30, query=headers, stream=True)
        try:
            for line in _lines(response):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(code=int(status.get("code", 500)), call=f"WATCH {path}", body=status)
                yield event["type"], event["object"]
        finally:
            response.close()

    def close(self) -> None:
        self._pool.clear()

    def _send(
        self,
        verb: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = JSON,
        seconds: float | None = None,
        query: dict[str, Any] | None = None,
        stream: bool,
    ) -> urllib3.BaseHTTPResponse:
        head = {"Authorization": f"Bearer {self.access.token}", "Content-Type": content_type}
        url = self.access.server + path + (f"?{urlencode(query)}" if query else "")
        response = self._pool.request(
            verb,
            url,
            body=None if body is None else json.dumps(body).encode(),
            headers=head,
            timeout=urllib3.Timeout(
                connect=min(CONNECT_SECONDS, self._seconds), read=seconds or self._seconds
            ),
            retries=False,
            preload_content=not stream,
        )
        if response.status >= 300:
            raise ApiError(code=response.status, call=f"{verb} {path}", body=_status(response.data))
        return response


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Split a stream into lines; a cut last line is not an event and is dropped."""
    unfinished = b""
    for chunk in response.stream(65536):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        yield from (line for line in lines if line)


def _status(data: bytes) -> Json:
    """Read the Status object of a refusal; text is what proxies and log endpoints answer with."""
    try:
        content = json.loads(data)
    except ValueError:
        return {"message": data.decode(errors="replace")[:500]}
    return content if isinstance(content, dict) else {"message": str(content)}
