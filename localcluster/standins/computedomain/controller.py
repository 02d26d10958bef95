"""The controller's loop: wait for a change, plan, act.

The answer to every write is entered into the mirrors at once, so a step is not taken twice. What fails is
logged and tried again after a pause that grows; nothing is given up.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import urllib3

from localcluster.api import Access, Api, ApiError, Json
from localcluster.standins.computedomain import objects, values
from localcluster.standins.computedomain.plan import DOMAINS, Action, Faults, plan
from localcluster.standins.computedomain.values import DRIVER_NAMESPACE, View
from localcluster.standins.mirror import Mirror, start_all

PERIOD = 0.02
SWEEP_SECONDS = 600.0
PAUSES = (0.2, 10.0)
THREADS = 4

log = logging.getLogger(__name__)

T = TypeVar("T")


class Controller:
    """The stand-in for NVIDIA's ComputeDomain controller on one API server."""

    def __init__(self, access: Access, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.api = Api(access, connections=16)
        self.stop = threading.Event()
        self.changed = threading.Event()
        self.pool = ThreadPoolExecutor(THREADS, "act")
        self.mirrors: list[Mirror[Any]] = []
        resources = objects.RESOURCES
        self.domains = self._mirror(f"{DOMAINS}/computedomains", values.domain)
        self.templates = self._mirror(f"{resources}/resourceclaimtemplates", values.template)
        self.daemon_sets = self._mirror("/apis/apps/v1/daemonsets", values.daemon_set)
        self.machines = self._mirror("/api/v1/nodes", values.machine)
        self.claims = self._mirror(f"{resources}/resourceclaims", values.use)
        self.slices = self._mirror(f"{resources}/resourceslices", values.slice_of)
        self.known_uids: set[str] = set()
        self.swept = 0.0
        self.failing: dict[str, tuple[float, float]] = {}
        """By action: when to try again, and the pause before that."""
        self.by_kind: dict[str, Mirror[Any]] = {
            "ComputeDomain": self.domains,
            "ResourceClaimTemplate": self.templates,
            "DaemonSet": self.daemon_sets,
            "Node": self.machines,
            "ResourceSlice": self.slices,
        }

    def _mirror(self, path: str, read: Callable[[Json], T]) -> Mirror[T]:
        mirror = Mirror(api=self.api, path=path, read=read, changed=self.changed.set, stop=self.stop)
        self.mirrors.append(mirror)
        return mirror

    def run(self) -> None:
        """Work until ``shut_down``."""
        start_all(self.mirrors, stop=self.stop)
        self._install()
        log.info("all kinds listed, driver namespace %s", DRIVER_NAMESPACE)
        wait: float | None = 0.0
        while not self.stop.is_set():
            self.changed.wait(SWEEP_SECONDS if wait is None else wait)
            if self.stop.is_set():
                return
            self.changed.clear()
            wait = self._step()
            self.stop.wait(PERIOD)

    def shut_down(self) -> None:
        """End ``run`` at its next step; safe from a signal handler."""
        self.stop.set()
        self.changed.set()

    def view(self) -> View:
        """What is known now."""
        return View(
            domains=self.domains.values(),
            owned=(*self.templates.values(), *self.daemon_sets.values()),
            machines=self.machines.values(),
            uses=tuple(use for use in self.claims.values() if use is not None),
            slices=self.slices.values(),
        )

    def _step(self) -> float | None:
        """Plan and act once; return how long to wait at most before the next step."""
        view = self.view()
        uids = {domain.uid for domain in view.domains}
        sweep = bool(uids - self.known_uids) or time.monotonic() - self.swept > SWEEP_SECONDS
        if sweep:
            self.swept = time.monotonic()
        self.known_uids = uids
        now = time.monotonic()
        actions = plan(view, sweep=sweep, faults=self.faults)
        due = [action for action in actions if self.failing.get(_key(action), (0.0, 0.0))[0] <= now]
        done = dict(zip(map(_key, due), self.pool.map(self._act, due), strict=True))
        self._reckon(done, {_key(action) for action in actions})
        if any(done.values()):
            return PERIOD
        return max(min(self.failing.values())[0] - time.monotonic(), 0) if self.failing else None

    def _reckon(self, done: Mapping[str, bool], keys: AbstractSet[str]) -> None:
        """Let what failed wait longer each time, and forget what is not wanted any more."""
        now = time.monotonic()
        for key, ok in done.items():
            if ok:
                self.failing.pop(key, None)
            else:
                pause = min(self.failing.get(key, (0.0, PAUSES[0] / 2))[1] * 2, PAUSES[1])
                self.failing[key] = (now + pause, pause)
        self.failing = {key: entry for key, entry in self.failing.items() if key in keys}

    def _act(self, action: Action) -> bool:
        """Send one request; an object that is gone already needs nothing."""
        try:
            answer = self.api.call(
                action.verb, action.path, body=action.body, content_type=action.content_type
            )
        except ApiError as error:
            if error.code == 404 and action.verb != "POST":
                return True
            log.warning("%s", error)
            return False
        except (urllib3.exceptions.HTTPError, OSError) as error:
            log.warning("%s %s: %s", action.verb, action.path, error)
            return False
        log.info("%s", _key(action))
        if mirror := self.by_kind.get(answer.get("kind", "")):
            mirror.put(answer, create=action.verb == "POST")
        return True

    def _install(self) -> None:
        """Make what the driver's chart brings: its namespace and its DeviceClasses."""
        addresses = [
            ("/api/v1/namespaces", {"metadata": {"name": DRIVER_NAMESPACE}}),
            (f"{objects.RESOURCES}/deviceclasses", objects.device_class(objects.CHANNEL_CLASS)),
            (f"{objects.RESOURCES}/deviceclasses", objects.device_class(objects.DAEMON_CLASS)),
        ]
        while addresses and not self.stop.is_set():
            path, body = addresses[0]
            try:
                if self.api.find(f"{path}/{body['metadata']['name']}") is None:
                    self.api.create(path, body)
                addresses.pop(0)
            except (ApiError, urllib3.exceptions.HTTPError, OSError) as error:
                log.warning("%s", error)
                self.stop.wait(PAUSES[0])


def _key(action: Action) -> str:
    """Verb and object of an action, for the log and to count its failures."""
    name = f"/{action.body['metadata']['name']}" if action.verb == "POST" else ""
    return f"{action.verb} {action.path}{name}"
