"""One container of a pod as a process: begun, probed, ended, begun again."""

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.api import Json
from localcluster.kubelet import probes
from localcluster.kubelet.container_files import expanded
from localcluster.supervisor import LAUNCHER

CANNOT_START = 128
MESSAGE_LINES, MESSAGE_BYTES = 80, 2048
BACK_OFF_SECONDS, MOST_BACK_OFF_SECONDS = 1.0, 300.0


@dataclass(slots=True)
class Place:
    """Where a container runs: working directory, variables, log, and the pod's address."""

    workdir: Path
    environment: Mapping[str, str]
    log: Path
    address: str
    grace: float


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass(slots=True)
class Container:
    """Its state as the pod's status shows it; ``changed`` is called when that changes."""

    spec: Json
    place: Place
    changed: Callable[[], None]
    state: Json = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last: Json = field(default_factory=dict)
    ready: bool = False
    started: bool = False
    restarts: int = 0
    stopping: bool = False
    process: asyncio.subprocess.Process | None = None
    began: str = ""

    async def run(self, policy: str) -> int:
        """Run it, again as the pod's policy says; returns the exit code of the last run."""
        pause = BACK_OFF_SECONDS
        while True:
            began = time.monotonic()
            code = await self._run_once()
            if self.stopping or policy == "Never" or (policy == "OnFailure" and code == 0):
                return code
            self.last, self.state = self.state, {"waiting": {"reason": "CrashLoopBackOff"}}
            self.changed()
            pause = BACK_OFF_SECONDS if time.monotonic() - began > 600 else pause
            await asyncio.sleep(pause)
            if self.stopping:
                return code
            pause = min(2 * pause, MOST_BACK_OFF_SECONDS)
            self.restarts += 1

    async def _run_once(self) -> int:
        self.began = now()
        try:
            self.process = await self._start([*self.spec["command"], *self.spec.get("args", [])])
        except OSError as error:
            return self._ended(CANNOT_START, str(error))
        self.state = {"running": {"startedAt": self.began}}
        self.started = "startupProbe" not in self.spec
        self.ready = self.started and "readinessProbe" not in self.spec
        self.changed()
        watching = asyncio.create_task(self._watch())
        try:
            code = await self.process.wait()
        finally:
            watching.cancel()
            self._kill_session()
        return self._ended(128 - code if code < 0 else code, self._message() if code else "")

    async def _start(self, command: list[str]) -> asyncio.subprocess.Process:
        """Start a program of the image, tied to this process, as the leader of a session."""
        environment = dict(self.place.environment)
        words = [expanded(word, environment) for word in command]
        program = shutil.which(words[0], path=environment["PATH"])
        if program is None:
            raise FileNotFoundError(f"{words[0]}: executable file not found in $PATH")
        tie = (str(os.getpid()), str(int(signal.SIGKILL)), "-", "-")
        with self.place.log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(LAUNCHER), *tie, program, *words[1:]),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=environment,
                cwd=self.place.workdir,
                start_new_session=True,
            )

    def _ended(self, code: int, message: str) -> int:
        reason = "Completed" if code == 0 else "StartError" if code == CANNOT_START else "Error"
        ending = {"exitCode": code, "reason": reason, "startedAt": self.began, "finishedAt": now()}
        self.state = {"terminated": ending | ({"message": message} if message else {})}
        self.ready = self.started = False
        self.process = None
        self.changed()
        return code

    def _message(self) -> str:
        """The log's end, where the container shows that as its last message."""
        if self.spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return ""
        lines = self.place.log.read_bytes()[-MESSAGE_BYTES:].decode(errors="replace").splitlines()
        return "\n".join(lines[-MESSAGE_LINES:])

    async def _watch(self) -> None:
        """Startup first, then liveness and readiness side by side."""
        if (startup := self.spec.get("startupProbe")) is not None:
            self.started = await self._begins(startup)
            if not self.started:
                await self._end_process()
                return
            self.ready = "readinessProbe" not in self.spec
            self.changed()
        await asyncio.gather(self._stays_alive(), self._stays_ready())

    async def _begins(self, probe: Json) -> bool:
        await asyncio.sleep(float(probe.get("initialDelaySeconds", 0)))
        for _ in range(probe.get("failureThreshold", 3)):
            if await self._ask(probe):
                return True
            await asyncio.sleep(float(probe.get("periodSeconds", 10)))
        return False

    async def _stays_alive(self) -> None:
        if (probe := self.spec.get("livenessProbe")) is not None:
            await probes.until_change(probe, lambda: self._ask(probe), good=True)
            if not self.stopping:
                await self._end_process()

    async def _stays_ready(self) -> None:
        if (probe := self.spec.get("readinessProbe")) is not None:
            first = True
            while True:
                self.ready = await probes.until_change(
                    probe, lambda: self._ask(probe), good=self.ready, first=first
                )
                first = False
                self.changed()

    async def _ask(self, probe: Json) -> bool:
        return await probes.ask(probe, self.spec, address=self.place.address, run=self._run_inside)

    async def _run_inside(self, command: list[str], seconds: float) -> bool:
        """Run a command beside the container's own; one that takes too long is killed."""
        try:
            process = await self._start(command)
        except OSError:
            return False
        try:
            return await asyncio.wait_for(process.wait(), seconds) == 0
        except TimeoutError:
            return False
        finally:
            _kill(process.pid)

    async def stop(self) -> None:
        """What precedes the end, then SIGTERM, then SIGKILL when the grace period is over."""
        self.stopping = True
        await self._end_process(pre_stop=(self.spec.get("lifecycle") or {}).get("preStop"))

    async def _end_process(self, *, pre_stop: Json | None = None) -> None:
        until = time.monotonic() + self.place.grace
        if pre_stop and self.process is not None:
            await self._run_inside(pre_stop["exec"]["command"], self.place.grace)
        if self.process is None:
            return
        process = self.process
        try:
            process.terminate()
            await asyncio.wait_for(process.wait(), max(0.1, until - time.monotonic()))
        except ProcessLookupError:
            pass
        except TimeoutError:
            self._kill_session()

    def _kill_session(self) -> None:
        if self.process is not None:
            _kill(self.process.pid)

    def status(self) -> Json:
        """As an entry of containerStatuses."""
        return {
            "name": self.spec["name"], "image": self.spec["image"], "imageID": "",
            "ready": self.ready, "started": self.started, "restartCount": self.restarts,
            "state": self.state, "lastState": self.last,
        }  # fmt: skip


def _kill(pid: int) -> None:
    """End a whole session; its leader was a child of this process a moment ago, so the number is its own."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
