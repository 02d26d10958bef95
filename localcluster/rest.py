"""Calls to the service's REST interface, as any client makes them."""

import json
from typing import Any

import urllib3

SECONDS = 60


class Refused(Exception):
    """An answer other than success; ``body`` is the service's explanation."""

    def __init__(self, *, call: str, code: int, body: Any) -> None:
        self.code = code
        self.body = body
        super().__init__(f"{call}: {code}: {json.dumps(body)}")


class Rest:
    """A client with one personal token."""

    def __init__(self, *, api_url: str, token: str) -> None:
        self._url = api_url
        self._head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._pool = urllib3.PoolManager(maxsize=8)

    def call(self, verb: str, path: str, body: Any = None) -> Any:
        """Send one request; return the JSON of a success; raises Refused."""
        response = self._pool.request(
            verb,
            self._url + path,
            body=None if body is None else json.dumps(body).encode(),
            headers=self._head,
            timeout=SECONDS,
            retries=False,
        )
        try:
            content = json.loads(response.data or b"null")
        except ValueError:
            content = response.data.decode(errors="replace")
        if response.status >= 300:
            raise Refused(call=f"{verb} {path}", code=response.status, body=content)
        return content

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def put(self, path: str, body: Any) -> Any:
        return self.call("PUT", path, body)

    def post(self, path: str, body: Any) -> Any:
        return self.call("POST", path, body)
