"""The life of one pod, from its binding to this node until nobody needs its object any more."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from localcluster.api import ApiError, Json
from localcluster.kubelet import container_files
from localcluster.kubelet.cluster import Cluster, NotThere
from localcluster.kubelet.container import Container, Place, now
from localcluster.kubelet.image import Image

RETRY_SECONDS = 0.5


class Pod:
    """One pod; ``body`` is its object as last seen."""

    def __init__(
        self,
        body: Json,
        cluster: Cluster,
        *,
        directory: Path,
        address: str,
        image: Callable[[str], Image | None],
    ) -> None:
        self.body, self.address = body, address
        self._cluster, self._directory, self._image = cluster, directory, image
        self._deleted, self._changed = asyncio.Event(), asyncio.Event()
        self._containers: dict[str, Container] = {}
        self._phase, self._trouble, self._begun = "Pending", "", now()
        self._since: dict[str, tuple[str, str]] = {}

    def see(self, body: Json | None) -> None:
        """Take note of the object's present state; None once it is gone."""
        self.body = body or self.body
        if body is None or body["metadata"].get("deletionTimestamp"):
            self._deleted.set()

    async def live(self) -> None:
        """Run its containers until they end or the pod is deleted, and let the object go in the end."""
        self._directory.mkdir(parents=True, mode=0o700)
        reporting = asyncio.create_task(self._report())
        work = asyncio.create_task(self._work())
        deletion = asyncio.create_task(self._deleted.wait())
        try:
            await asyncio.wait({work, deletion}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await self._stop(work)
            await work
            await deletion
        except asyncio.CancelledError:
            await self._stop(work)
            raise
        finally:
            for task in (reporting, work, deletion):
                task.cancel()
        await self._cluster.write_status(self.body, self._status())
        await self._cluster.remove(self.body)
        shutil.rmtree(self._directory / "volumes", ignore_errors=True)

    async def _stop(self, work: "asyncio.Task[None]") -> None:
        containers = list(self._containers.values())
        if not containers:
            work.cancel()
        await asyncio.gather(*(container.stop() for container in containers))
        await asyncio.wait({work})

    async def _work(self) -> None:
        try:
            await self._prepare(lambda: container_files.fill_volumes(self._cluster, self.body, self._volumes))
            for spec in self._specs("initContainers"):
                policy = "Never" if self._policy == "Never" else "OnFailure"
                if await (await self._container(spec)).run(policy) != 0:
                    self._end("Failed")
                    return
            containers = [await self._container(spec) for spec in self._specs("containers")]
        except asyncio.CancelledError:
            self._end("Failed")
            return
        if self._deleted.is_set():
            self._end("Failed")
            return
        self._phase = "Running"
        codes = await asyncio.gather(*(container.run(self._policy) for container in containers))
        self._end("Failed" if any(codes) else "Succeeded")

    def _end(self, phase: str) -> None:
        self._phase = phase
        self._changed.set()

    async def _container(self, spec: Json) -> Container:
        root = self._directory / "roots" / spec["name"]
        image = self._image(spec["image"])
        while image is None:
            self._trouble = f"ErrImagePull: there is no directory for {spec['image']}"
            self._changed.set()
            await asyncio.sleep(RETRY_SECONDS)
            image = self._image(spec["image"])
        environment: dict[str, str] = {}

        async def read() -> None:
            own = await container_files.variables(
                self._cluster, self.body, spec, address=self.address, image=image.environment, root=root
            )
            environment.update(own)

        await self._prepare(read)
        container_files.mount(spec, self._volumes, root)
        place = Place(
            workdir=image.workdir,
            environment=environment,
            log=self._directory / f"{spec['name']}.log",
            address=self.address,
            grace=float(self.body["spec"].get("terminationGracePeriodSeconds", 30)),
        )
        container = self._containers[spec["name"]] = Container(spec, place, self._changed.set)
        return container

    async def _prepare(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do a step again until everything that it needs is there; the status says what is not."""
        while True:
            try:
                await step()
            except (NotThere, ApiError) as error:
                self._trouble = f"CreateContainerConfigError: {error}"
                self._changed.set()
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._trouble = ""
                return

    @property
    def _volumes(self) -> Path:
        return self._directory / "volumes"

    @property
    def _policy(self) -> str:
        return str(self.body["spec"].get("restartPolicy", "Always"))

    def _specs(self, kind: str) -> list[Json]:
        return self.body["spec"].get(kind) or []

    async def _report(self) -> None:
        """Write the status whenever it changed."""
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._cluster.write_status(self.body, self._status())

    def _status(self) -> Json:
        statuses = {
            kind: [self._status_of(spec) for spec in self._specs(kind)]
            for kind in ("initContainers", "containers")
        }
        ready = self._phase == "Running" and all(status["ready"] for status in statuses["containers"])
        states = {"Initialized": self._phase != "Pending", "ContainersReady": ready, "Ready": ready}
        others = [c for c in self.body["status"].get("conditions") or [] if c["type"] not in states]
        return {
            "phase": self._phase,
            "startTime": self._begun,
            "hostIP": self.address,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "conditions": others + [self._condition(name, value=value) for name, value in states.items()],
            "initContainerStatuses": statuses["initContainers"],
            "containerStatuses": statuses["containers"],
        }

    def _condition(self, name: str, *, value: bool) -> Json:
        text = str(value)
        if self._since.get(name, ("", ""))[0] != text:
            self._since[name] = (text, now())
        return {"type": name, "status": text, "lastTransitionTime": self._since[name][1]}

    def _status_of(self, spec: Json) -> Json:
        if spec["name"] in self._containers:
            return self._containers[spec["name"]].status()
        reason, _, message = self._trouble.partition(": ")
        waiting = {"reason": reason or "PodInitializing", "message": message}
        return {
            "name": spec["name"], "image": spec["image"], "imageID": "", "ready": False, "started": False,
            "restartCount": 0, "state": {"waiting": waiting},
        }  # fmt: skip
