"""The controller's loop: wait for a change, plan, act.

The answer to every write is entered into the mirrors at once, so a step is not taken twice. An action that
fails is logged and tried again after a pause that grows; nothing is given up. A ``Pace`` says how fast the
controller may go; the work of the driver's plugins on their nodes is never held up by it.
"""

import logging
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import urllib3

from localcluster.api import Access, ApiError
from localcluster.standins.computedomain import objects, values
from localcluster.standins.computedomain.actions import DOMAINS, Action
from localcluster.standins.computedomain.pace import FAST, Bucket, Pace
from localcluster.standins.computedomain.plan import Faults, is_workload, plan
from localcluster.standins.computedomain.values import DRIVER_NAMESPACE, View
from localcluster.standins.mirror import Mirror, Mirrors

PERIOD = 0.02
SWEEP_SECONDS = 600.0
THREADS = 4
MISSING_SECONDS = 0.5
"""How often it is looked whether a removed template is due."""

log = logging.getLogger(__name__)


class Controller(Mirrors):
    """The stand-in for NVIDIA's ComputeDomain controller on one API server."""

    def __init__(self, access: Access, *, faults: Faults | None = None, pace: Pace = FAST) -> None:
        self.faults, self.pace = faults or Faults(), pace
        self.bucket = Bucket(pace)
        super().__init__(access, connections=16)
        self.pool = ThreadPoolExecutor(THREADS, "act")
        resources = objects.RESOURCES
        self.domains = self.mirror(f"{DOMAINS}/computedomains", values.domain)
        self.templates = self.mirror(f"{resources}/resourceclaimtemplates", values.template)
        self.daemon_sets = self.mirror("/apis/apps/v1/daemonsets", values.daemon_set)
        self.machines = self.mirror("/api/v1/nodes", values.machine)
        self.claims = self.mirror(f"{resources}/resourceclaims", values.use)
        self.slices = self.mirror(f"{resources}/resourceslices", values.slice_of)
        self.pods = self.mirror("/api/v1/pods", values.claimant)
        self.known_uids: set[str] = set()
        self.with_template: set[str] = set()
        self.lost: dict[str, float] = {}
        """When a domain's template was first seen gone, by uid."""
        self.swept = 0.0
        self.failing: dict[str, tuple[float, float]] = {}
        """By action: when to try again, and the pause before that."""
        self.by_kind: dict[str, Mirror[Any]] = {
            "ComputeDomain": self.domains,
            "ResourceClaimTemplate": self.templates,
            "DaemonSet": self.daemon_sets,
            "Node": self.machines,
            "ResourceSlice": self.slices,
            "Pod": self.pods,
        }

    def run(self) -> None:
        """Work until ``shut_down``."""
        self.start_mirrors()
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

    def view(self) -> View:
        """The known state of now."""
        return View(
            domains=self.domains.values(),
            owned=(*self.templates.values(), *self.daemon_sets.values()),
            machines=self.machines.values(),
            uses=self.claims.values(),
            slices=self.slices.values(),
            claimants=tuple(pod for pod in self.pods.values() if pod is not None),
        )

    def _step(self) -> float | None:
        """Plan and act once; return how long to wait at most before the next step."""
        view = self.view()
        uids = {domain.uid for domain in view.domains}
        now = time.monotonic()
        sweep = bool(uids - self.known_uids) or now - self.swept > SWEEP_SECONDS
        if sweep:
            self.swept = now
        self.known_uids = uids
        view = replace(view, missing=self._missing(view, now))
        actions = plan(view, sweep=sweep, faults=self.faults)
        due = [action for action in actions if self.failing.get(_key(action), (0.0, 0.0))[0] <= now]
        done = self._carry_out(due)
        self._reckon(done, {_key(action) for action in actions})
        if any(done.values()):
            return PERIOD
        waits = [MISSING_SECONDS] if self.lost else []
        waits += [self.bucket.wait()] if len(done) < len(due) else []
        waits += [min(self.failing.values())[0] - time.monotonic()] if self.failing else []
        return max(min(waits), 0) if waits else None

    def _missing(self, view: View, now: float) -> Mapping[str, float]:
        """For how long each domain has missed a template that it had; a restart forgets, as in reality."""
        living = {domain.uid for domain in view.domains if not domain.deleting}
        present = {obj.domain for obj in view.owned if obj.domain in living and is_workload(obj)}
        self.with_template = (self.with_template & living) | {uid for uid in present if uid}
        gone = self.with_template - present
        self.lost = {uid: self.lost.get(uid, now) for uid in gone}
        return {uid: now - since for uid, since in self.lost.items()}

    def _carry_out(self, due: list[Action]) -> dict[str, bool]:
        """Send the plugins' requests, and of the controller's what its pace allows, in order."""
        if self.pace.requests_per_second is None:
            return dict(zip(map(_key, due), self.pool.map(self._act, due), strict=True))
        plugins = [action for action in due if action.by == "plugin"]
        done = dict(zip(map(_key, plugins), self.pool.map(self._act, plugins), strict=True))
        for action in due:
            if action.by == "controller":
                if not self.bucket.take():
                    break
                done[_key(action)] = self._act(action)
        return done

    def _reckon(self, done: Mapping[str, bool], keys: AbstractSet[str]) -> None:
        """Let what failed wait longer each time, and forget what is not wanted any more."""
        now = time.monotonic()
        first, longest = self.pace.pauses
        for key, ok in done.items():
            if ok:
                self.failing.pop(key, None)
            else:
                pause = min(self.failing.get(key, (0.0, first / 2))[1] * 2, longest)
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
                self.stop.wait(FAST.pauses[0])


def _key(action: Action) -> str:
    """Verb and object of an action, for the log and to count its failures."""
    meta = action.body["metadata"] if action.verb == "POST" else {}
    name = meta.get("name") or meta.get("generateName")
    return f"{action.verb} {action.path}{f'/{name}' if name else ''}"
