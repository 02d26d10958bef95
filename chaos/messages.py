"""Faults of messages: a second consumer that takes some from the queue and drops, delays or doubles them.

It takes messages at the end from which workers take them and puts them back where it likes, so delayed ones
overtake each other.
"""

import json
import random
import threading
import time
import uuid
from collections import Counter
from typing import Any

import redis

QUEUES = ("osmo", "osmo-upkeep")
FATES = {"message dropped": 1, "message doubled": 2, "message delayed": 3, "message reordered": 2}
LONGEST = 8.0


class Meddler:
    """Works in a thread of its own while it is ``on``."""

    def __init__(self, redis_url: str, *, seed: str) -> None:
        self.counts: Counter[str] = Counter()
        self._url = redis_url
        self._generator = random.Random(seed)
        self._delayed: list[tuple[float, bytes, bytes]] = []
        self._on = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meddler", daemon=True)

    def start(self) -> None:
        self._on.set()
        self._thread.start()

    def stop(self) -> None:
        """Meddle no more; messages that were held back are put back first."""
        self._on.clear()
        self._stop.set()
        self._thread.join(LONGEST)

    def _run(self) -> None:
        with redis.Redis.from_url(self._url, socket_timeout=5) as client:
            while not self._stop.is_set():
                try:
                    self._turn(client)
                except redis.RedisError:
                    self._stop.wait(0.2)
            self._put_back(client, everything=True)

    def _turn(self, client: redis.Redis) -> None:
        self._put_back(client, everything=False)
        popped: Any = client.brpop(self._generator.sample(QUEUES, len(QUEUES)), timeout=1)
        if popped is None:
            return
        queue, message = popped
        fate = self._generator.choices(list(FATES), list(FATES.values()))[0]
        self.counts[fate] += 1
        now = time.monotonic()
        if fate == "message delayed":
            self._delayed.append((now + self._generator.uniform(0.5, LONGEST), queue, message))
        elif fate == "message reordered":
            client.lpush(queue, message)
        elif fate == "message doubled":
            client.rpush(queue, message)
            client.lpush(queue, _copy(message))
        self._stop.wait(self._generator.uniform(0.02, 0.3))

    def _put_back(self, client: redis.Redis, *, everything: bool) -> None:
        now = time.monotonic()
        due = [(queue, message) for at, queue, message in self._delayed if everything or at <= now]
        self._delayed = [] if everything else [entry for entry in self._delayed if entry[0] > now]
        for queue, message in due:
            client.rpush(queue, message)


def _copy(message: bytes) -> bytes:
    """The same message under another delivery tag, as if it had been sent twice."""
    content = json.loads(message)
    content["properties"]["delivery_tag"] = str(uuid.uuid4())
    return json.dumps(content).encode()
