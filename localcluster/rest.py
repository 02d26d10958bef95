"""The service as a user's program sees it: JSON over HTTP with a personal token."""

import json
import time
from typing import Any
from urllib.parse import urlencode

import urllib3

SECONDS = 60
MOST_CHARACTERS = 500
KEPT_SECONDS = 2.0
"""Idle for longer, a connection is not used again: web closes it after 5 s, and that may be just then."""


class Refused(Exception):
    """An answer other than success: its HTTP ``status``, and the error in ``body``."""

    def __init__(self, *, call: str, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"{call}: {status}: {json.dumps(body)}")
        self.status = status
        self.body = body


class Rest:
    """A client with one personal token; ``headers`` go with every request."""

    def __init__(self, *, api_url: str, token: str) -> None:
        self._url = api_url.rstrip("/")
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._pool = urllib3.PoolManager(maxsize=8)
        self._used_at = time.monotonic()

    def call(self, verb: str, path: str, body: Any = None, **query: Any) -> Any:
        """Send one request; return a success's JSON, or its text; raises Refused."""
        self._drop_idle()
        response = self._pool.request(
            verb,
            self._url + path + (f"?{urlencode(query, doseq=True)}" if query else ""),
            body=None if body is None else json.dumps(body).encode(),
            headers=self.headers,
            timeout=SECONDS,
            retries=False,
        )
        text = response.data.decode(errors="replace")
        content = json.loads(text) if "json" in response.headers.get("Content-Type", "") else text
        if response.status >= 300:
            body = content if isinstance(content, dict) else {"message": text[:MOST_CHARACTERS]}
            raise Refused(call=f"{verb} {path}", status=response.status, body=body)
        return content

    def _drop_idle(self) -> None:
        if time.monotonic() - self._used_at > KEPT_SECONDS:
            self._pool.clear()
        self._used_at = time.monotonic()

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def put(self, path: str, body: Any) -> Any:
        return self.call("PUT", path, body)

    def post(self, path: str, body: Any) -> Any:
        return self.call("POST", path, body)

    def submit(self, pool: str, text: str, **query: Any) -> Any:
        """Submit a workflow document."""
        return self.call("POST", f"/api/pool/{pool}/workflow", {"file": text}, **query)

    def workflow(self, name: str) -> Any:
        return self.get(f"/api/workflow/{name}")

    def events(self, name: str) -> list[str]:
        """The timeline, one event a line."""
        return str(self.get(f"/api/workflow/{name}/events")).splitlines()

    def cancel(self, name: str, **query: Any) -> Any:
        return self.call("POST", f"/api/workflow/{name}/cancel", {}, **query)
