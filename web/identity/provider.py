"""The identity provider as this process knows it: what it publishes, cached.

A publication is used for FRESH_SECONDS. After that the next request begins a fetch and does not wait for it;
a publication older than LONGEST_SECONDS is used no more, so a key that the provider withdrew ends within an
hour even while the provider cannot be reached. A token with an unknown key begins a fetch and waits for it.
There is one fetch at a time, in a thread of its own, and none within INTERVAL_SECONDS of the last one, so
strangers with invented keys cost the provider a request every so often, and threads of requests a few seconds
at most. The lock guards the fields and is never kept while anybody waits.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache

import jwt
import structlog

from web.identity.configuration import ProviderSettings
from web.identity.counts import FETCHES
from web.identity.fetching import DEADLINE_SECONDS, Unreachable
from web.identity.publication import Publication, fetch_publication

FRESH_SECONDS = 300.0
LONGEST_SECONDS = 3600.0
INTERVAL_SECONDS = 15.0

log = structlog.get_logger(__name__)


class Provider:
    """A cache of one issuer's publication; safe for threads."""

    def __init__(
        self,
        settings: ProviderSettings,
        *,
        fetch: Callable[[ProviderSettings], Publication] = fetch_publication,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self._fetch = fetch
        self._clock = clock
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="identity-provider")
        self._lock = threading.Lock()
        self._cached: tuple[Publication, float] | None = None
        self._pending: Future[Publication] | None = None
        self._begun_at: float | None = None

    def publication(self) -> Publication:
        """The issuer's publication. Waits only where nothing is cached. Raises Unreachable."""
        cached = self._cached
        age = self._clock() - cached[1] if cached else LONGEST_SECONDS
        if cached and age < LONGEST_SECONDS:
            if age >= FRESH_SECONDS:
                self._begin()
            return cached[0]
        if (pending := self._begin()) is None:
            raise Unreachable(f"{self.settings.issuer} was not reached a moment ago")
        return _result(pending)

    def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key of a token, fetched again if it is unknown. Raises Unreachable."""
        key = self.publication().key(kid, algorithm)
        if key is None and (pending := self._begin()) is not None:
            key = _result(pending).key(kid, algorithm)
        return key

    def _begin(self) -> "Future[Publication] | None":
        """The fetch under way, or a new one; None soon after the last one began."""
        with self._lock:
            if self._pending is not None and not self._pending.done():
                return self._pending
            now = self._clock()
            if self._begun_at is not None and now - self._begun_at < INTERVAL_SECONDS:
                return None
            self._begun_at = now
            self._pending = self._executor.submit(self._run)
            return self._pending

    def _run(self) -> Publication:
        try:
            publication = self._fetch(self.settings)
        except Unreachable as error:
            FETCHES.labels("failed").inc()
            log.warning("identity_provider_unreachable", issuer=self.settings.issuer, error=str(error)[:500])
            raise
        FETCHES.labels("ok").inc()
        self._cached = (publication, self._clock())
        return publication


def _result(pending: "Future[Publication]") -> Publication:
    """The result of a fetch, waited for no longer than its deadline and a little more."""
    try:
        return pending.result(timeout=DEADLINE_SECONDS + 1)
    except TimeoutError as error:
        raise Unreachable("the identity provider gave no answer in time") from error


@lru_cache(maxsize=4)
def provider_of(settings: ProviderSettings) -> Provider:
    """This process's cache for these settings."""
    return Provider(settings)
