"""The service as a user's program sees it: JSON over HTTP with a personal token."""

import json
from typing import Any
from urllib.parse import urlencode

import urllib3


class Refused(Exception):
    """The service answered with a 4xx; ``body`` is its error, ``status`` the code."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"{status}: {body.get('message')}")
        self.status = status
        self.body = body


class Service:
    """One caller of the service."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._pool = urllib3.PoolManager(maxsize=4, retries=False, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def call(self, verb: str, path: str, body: Any = None, **query: Any) -> Any:
        """Send one request and return the decoded reply; raises Refused for a 4xx or 5xx."""
        url = self.url + path + ("?" + urlencode(query, doseq=True) if query else "")
        data = None if body is None else json.dumps(body).encode()
        reply = self._pool.request(verb, url, body=data, headers=self._headers)
        text = reply.data.decode()
        kind = reply.headers.get("Content-Type", "")
        answer = json.loads(text) if "json" in kind else text
        if reply.status >= 400:
            raise Refused(reply.status, answer if isinstance(answer, dict) else {"message": text[:500]})
        return answer

    def submit(self, pool: str, text: str, **query: Any) -> Any:
        return self.call("POST", f"/api/pool/{pool}/workflow", {"file": text}, **query)

    def workflow(self, name: str) -> Any:
        return self.call("GET", f"/api/workflow/{name}")

    def cancel(self, name: str, **query: Any) -> Any:
        return self.call("POST", f"/api/workflow/{name}/cancel", {}, **query)
