"""Words that a shell completes: the names that the service has for its caller.

A shell waits for them, so a service that does not answer in a moment has none, and no error is shown.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer

from osmo_topology_cli.login import find_login
from osmo_topology_client.calls import Call, address
from osmo_topology_client.errors import Failure

MOMENT = 2.0

STATUSES = (
    *("PENDING", "RUNNING", "WAITING", "COMPLETED", "FAILED", "FAILED_SUBMISSION", "FAILED_CANCELED"),
    *("FAILED_SERVER_ERROR", "FAILED_BACKEND_ERROR", "FAILED_EXEC_TIMEOUT", "FAILED_QUEUE_TIMEOUT"),
    *("FAILED_IMAGE_PULL", "FAILED_EVICTED", "FAILED_START_ERROR", "FAILED_START_TIMEOUT"),
    "FAILED_PREEMPTED",
)


def pools(incomplete: str) -> list[str]:
    return _beginning(incomplete, lambda: _reply("pool")["pools"])


def workflows(incomplete: str) -> list[str]:
    return _beginning(incomplete, lambda: [row["name"] for row in _reply("workflow", limit=100)["workflows"]])


def backends(incomplete: str) -> list[str]:
    return _beginning(incomplete, lambda: [row["name"] for row in _reply("configs", "backend")["backends"]])


def explainable(context: typer.Context, incomplete: str) -> list[str]:
    """The workflows; after ``--cluster`` the groups of others that wait there."""
    backend = context.params.get("cluster")
    if not backend:
        return workflows(incomplete)
    return _beginning(
        incomplete,
        lambda: (
            f"{group['namespace']}/{group['name']}"
            for group in _reply("cluster", backend, "waiting", limit=100)["groups"]
        ),
    )


def nodes(incomplete: str) -> list[str]:
    return _beginning(incomplete, lambda: [node["hostname"] for node in _reply("resources")["resources"]])


def tasks(args: Sequence[str], incomplete: str) -> list[str]:
    """The tasks of the workflow that the command line names before."""
    names = [word for word in args if not word.startswith("-")]
    if not names:
        return []
    return _beginning(
        incomplete,
        lambda: (
            task["name"] for group in _reply("workflow", names[-1])["groups"] for task in group["tasks"]
        ),
    )


def statuses(incomplete: str) -> list[str]:
    return _beginning(incomplete.upper(), lambda: STATUSES)


def _beginning(incomplete: str, words: Callable[[], Iterable[str]]) -> list[str]:
    try:
        return sorted(word for word in words() if word.startswith(incomplete))
    except (Failure, KeyError, TypeError):
        return []


def _reply(*parts: str, **params: Any) -> Any:
    from osmo_topology_client.client import Client  # noqa: PLC0415 -- a shell completes options without HTTP

    login = find_login(url="", token="", user="", environment=os.environ)
    service = Client(
        login.url, token=login.bearer, user=login.user, notify=lambda _: None, sleep=lambda _: None
    )
    return service.json(Call(path=address(*parts), params=params, read=MOMENT))
