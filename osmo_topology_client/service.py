"""The service over HTTP: one caller, waits and retries, and errors in the service's words.

A 429 and a 503 have a time to wait; the client notes it and waits, within ``MOST_WAITING`` in all. It
retries a failed connection: every request may arrive twice, since a submission has an idempotency key and a
second cancel changes nothing. It follows no redirect, because a POST would arrive as a GET, and it does not
read ``~/.netrc``, because requests would send its password in place of the token.
"""

from collections.abc import Callable, Iterator
from typing import Any

import requests
from requests.auth import AuthBase

from osmo_topology_client.calls import Call, Param, address
from osmo_topology_client.connection import MOST_CHARACTERS, connection
from osmo_topology_client.errors import Refused, ServiceUnreachable

CONNECT = 10.0
MOST_WAITING = 120.0
PAUSES = (0.5, 1.0, 2.0)
WAITABLE = (429, 503)


class Service:
    """Its addresses as methods; ``notify`` is called with a sentence about whatever takes longer."""

    def __init__(
        self,
        url: str,
        *,
        bearer: str,
        user: str,
        notify: Callable[[str], None],
        sleep: Callable[[float], None],
    ) -> None:
        self.url = url
        self.notify, self.sleep = notify, sleep
        self._session = requests.Session()
        self._session.headers["User-Agent"] = "osmo-topology"
        named = {"x-osmo-user": user} if user else {}
        self.identity = {"Authorization": f"Bearer {bearer}"} if bearer else named
        self._session.auth = _As(self.identity)

    def get(self, *parts: str, **params: Param) -> Any:
        """The JSON at an address; parts are quoted, so a name cannot lead elsewhere."""
        return self.json(Call(path=address(*parts), params=params))

    def post(self, *parts: str, **params: Param) -> Any:
        """Send a POST without a body."""
        return self.json(Call(verb="POST", path=address(*parts), params=params))

    def json(self, call: Call) -> Any:
        """Send a request; return its JSON. Raises Refused and ServiceUnreachable."""
        with connection(self.url), self._answer(call) as answer:
            return _json(answer, self.url)

    def ca_file(self) -> str:
        """The file of authorities that the user's environment names; empty for none."""
        verify = self._session.merge_environment_settings(self.url, {}, None, None, None)["verify"]
        return verify if isinstance(verify, str) else ""

    def text(self, call: Call) -> Iterator[bytes]:
        """The bytes of a text as they come, for as long as it lasts."""
        with connection(self.url), self._answer(call) as answer:
            yield from answer.iter_content(chunk_size=None)

    def _answer(self, call: Call) -> requests.Response:
        """The answer with status 200, after the waits that the service requests."""
        left = MOST_WAITING
        while True:
            answer = self._sent(call)
            if answer.status_code == 200:
                return answer
            refused = _refused(answer, self.url)
            wait = _retry_after(answer)
            if wait is None or wait > left:
                raise refused
            left -= wait
            self.notify(f"The service asks to wait {wait:g} s: {refused.message}")
            self.sleep(wait)

    def _sent(self, call: Call) -> requests.Response:
        """Some answer, whatever it is, after as many tries as there are pauses and one more."""
        for pause in PAUSES:
            try:
                return self._try(call)
            except ServiceUnreachable:
                self.sleep(pause)
        return self._try(call)

    def _try(self, call: Call) -> requests.Response:
        with connection(self.url):
            return self._session.request(
                call.verb,
                self.url + call.path,
                params={name: value for name, value in call.params.items() if value is not None},
                json=call.body,
                headers=dict(call.headers),
                timeout=(CONNECT, call.read),
                stream=True,
                allow_redirects=False,
            )


class _As(AuthBase):
    """Who calls; given as requests' auth, so that no netrc file takes its place."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers.update(self._headers)
        return request


def _json(answer: requests.Response, url: str) -> Any:
    try:
        return answer.json()
    except ValueError as error:
        text = answer.text[:MOST_CHARACTERS].strip() or "nothing"
        raise ServiceUnreachable(
            f"{url} did not answer with JSON; is it this service? It said: {text}"
        ) from error


def _refused(answer: requests.Response, url: str) -> Refused | ServiceUnreachable:
    with connection(url):
        text = answer.text
    if 300 <= answer.status_code < 400:
        return ServiceUnreachable(
            f"{url} leads to {answer.headers.get('Location', 'elsewhere')}; give that as --url."
        )
    try:
        body = answer.json()
    except ValueError:
        body = None
    if isinstance(body, dict) and "message" in body:
        return Refused(status=answer.status_code, body=body)
    excerpt = " ".join(text[:MOST_CHARACTERS].split()) or answer.reason
    return Refused(
        status=answer.status_code,
        body={"message": f"{url} answered with {answer.status_code}: {excerpt}", "error_code": None},
    )


def _retry_after(answer: requests.Response) -> float | None:
    """Seconds until it may be tried again; None if the answer will not change."""
    seconds = answer.headers.get("Retry-After", "")
    return max(1.0, float(seconds)) if answer.status_code in WAITABLE and seconds.isdecimal() else None
