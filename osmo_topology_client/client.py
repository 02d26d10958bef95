"""The life of a workflow by calls: check it, submit it, wait for its end, read why it waits."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar, cast

from osmo_topology_client.calls import Call, Document, Param, address
from osmo_topology_client.errors import Failure
from osmo_topology_client.group_pages import complete_reply, group_pages, reply_pages
from osmo_topology_client.replies import (
    Cancelled,
    Explanation,
    ExplanationOfOthers,
    Submitted,
    WaitingOfOthers,
    Workflow,
    has_ended,
)
from osmo_topology_client.service import Service

ANY = "any"
OTHERS_A_PAGE = 100  # the service judges each
AWAY = 120.0  # seconds for which a service that does not answer is waited for

LOGGER = logging.getLogger("osmo_topology_client")
Value = TypeVar("Value")


class Client(Service):
    """One service as one user; no other thread may use it at the same time.

    Every method raises Refused with the service's own words, ServiceUnreachable, and Misused for what cannot
    be sent. ``token`` is a personal token; ``user`` a name, for a service that runs for development.
    ``notify`` is called with a sentence about whatever takes longer than expected.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        user: str = "",
        notify: Callable[[str], None] = LOGGER.info,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(url.rstrip("/"), bearer=token, user=user, notify=notify, sleep=sleep)

    def submit(self, document: Document, *, key: str = "") -> Submitted:
        """Submit a workflow; a second call with the same ``key`` returns the first one's."""
        return cast("Submitted", self.json(self._sending(document, headers=_once(key))))

    def check(self, document: Document) -> Submitted:
        """Check everything as a submission would, and make nothing."""
        return cast("Submitted", self.json(self._sending(document, {"dry_run": "True"})))

    def expanded(self, document: Document) -> str:
        """The plain OSMO document of a workflow, every task by itself."""
        reply = self.json(self._sending(document, {"dry_run": "True", "expanded": "True"}))
        return str(reply["spec"])

    def fits(self, document: Document) -> Submitted:
        """Whether it would fit now, later or never, in ``feasibility``; makes nothing."""
        return cast("Submitted", self.json(self._sending(document, {"feasibility": "only"})))

    def workflow(self, name: str) -> Workflow:
        """A workflow with all its groups and tasks; the name or the uuid."""
        return cast("Workflow", complete_reply(group_pages(self, name)))

    def explain(self, name: str) -> Explanation:
        """Why the workflow has its status, with a sentence for each group that waits."""
        return cast("Explanation", complete_reply(group_pages(self, name, "explain")))

    def waiting(self, backend: str) -> WaitingOfOthers:
        """The groups that others submitted and that wait for a backend's scheduler, and why each does."""
        pages = reply_pages(self, "cluster", backend, "waiting", size=OTHERS_A_PAGE)
        return cast("WaitingOfOthers", complete_reply(pages))

    def explain_others(self, backend: str, namespace: str, name: str) -> ExplanationOfOthers:
        """Why one of them waits; needs action cluster:Explain on the backend."""
        return cast("ExplanationOfOthers", self.get("cluster", backend, "group", namespace, name))

    def wait(self, name: str, *, seconds: float, interval: float = 2.0) -> Workflow:
        """Return the workflow once it has ended, well or not. Raises Failure after ``seconds``."""
        until = time.monotonic() + seconds
        while True:
            reply = self.patiently(lambda: self.get("workflow", name, skip_groups="True"), interval=interval)
            if has_ended(reply["status"]):
                return self.patiently(lambda: self.workflow(name), interval=interval)
            if time.monotonic() > until:
                raise Failure(f"{name} has not ended within {seconds:g} s; it is {reply['status']}.")
            self.sleep(interval)

    def logs(
        self,
        name: str,
        *,
        task: str | None = None,
        retry: int | None = None,
        last: int | None = None,
        follow: bool = False,
    ) -> Iterator[bytes]:
        """The lines of a workflow's tasks in pieces of any size; to its end with ``follow``."""
        params: dict[str, Param] = {"task_name": task, "retry_id": retry, "last_n_lines": last}
        call = Call(
            path=address("workflow", name, "logs"), params=params | {"follow": str(follow)}, read=None
        )
        return self.text(call)

    def error_logs(
        self, name: str, *, task: str | None = None, retry: int | None = None, last: int | None = None
    ) -> Iterator[bytes]:
        """The lines of tasks that failed, with their exit codes."""
        params: dict[str, Param] = {"task_name": task, "retry_id": retry, "last_n_lines": last}
        return self.text(Call(path=address("workflow", name, "error_logs"), params=params, read=None))

    def restart(self, name: str, *, pool: str = "", key: str = "") -> Submitted:
        """Run a workflow that has ended again, as a new one, in its own pool or another."""
        pool = pool or self.get("workflow", name, skip_groups="True")["pool"]
        path = address("pool", pool, "workflow", name, "restart")
        return cast("Submitted", self.json(Call(verb="POST", path=path, headers=_once(key))))

    def cancel(self, name: str, *, message: str = "", force: bool = False) -> Cancelled:
        """Begin to end a workflow; one that is being cancelled stays so. ``force`` waits for no container."""
        reply = self.post("workflow", name, "cancel", force=str(force), message=message or None)
        return cast("Cancelled", reply)

    def patiently(self, read: Callable[[], Value], *, interval: float) -> Value:
        """What ``read`` returns; while the service is away it is tried again every interval, AWAY in all."""
        until = time.monotonic() + AWAY
        while True:
            try:
                return read()
            except Failure as error:
                if not error.is_outage or time.monotonic() > until:
                    raise
                self.notify(f"{error.message} Trying again.")
                self.sleep(interval)

    def _sending(
        self,
        document: Document,
        params: Mapping[str, Param] = MappingProxyType({}),
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Call:
        path, pools = self._destination(document.pool)
        chosen: dict[str, Param] = {
            "priority": document.priority,
            "label": list(document.labels) or None,
            "env_vars": list(document.environment) or None,
        }
        body = {
            "file": document.text,
            "set_variables": list(document.variables) or None,
            "set_string_variables": list(document.strings) or None,
        }
        return Call(verb="POST", path=path, params=pools | chosen | dict(params), body=body, headers=headers)

    def _destination(self, pool: str) -> tuple[str, dict[str, Param]]:
        """The address that a workflow is sent to, and the pools that the service chooses from.

        Where neither the caller nor their profile names a pool, the workflow itself may.
        """
        if pool == ANY or "," in pool:
            return address("workflow"), {"pools": pool}
        pool = pool or self.get("profile", "settings")["profile"]["pool"] or ""
        return (address("pool", pool, "workflow") if pool else address("workflow")), {}


def _once(key: str) -> dict[str, str]:
    """The header by which a submission arrives once, however often it is sent."""
    return {"Idempotency-Key": key or os.urandom(16).hex()}
