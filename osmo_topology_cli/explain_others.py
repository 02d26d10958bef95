"""Why gangs wait that others submitted to a cluster: all of them a line each, or one of them in full."""

from collections.abc import Iterator, Mapping
from typing import Any

from osmo_topology_cli import tables
from osmo_topology_cli.explain import in_one_line
from osmo_topology_cli.show import Printer
from osmo_topology_cli.tables import moment
from osmo_topology_client.client import Client
from osmo_topology_client.errors import Misused

Reply = Mapping[str, Any]


def explain_cluster(service: Client, backend: str, name: str, *, printer: Printer) -> None:
    """Show what waits on the backend; with a name only that group. Raises Failure."""
    if name:
        namespace, gang = _parts(name)
        explanation: Reply = service.explain_others(backend, namespace, gang)
        if not printer.data(explanation, names=[explanation["verdict"]]):
            _show_group(explanation, printer)
        return
    reply: Reply = service.waiting(backend)
    names = [f"{group['namespace']}/{group['name']}" for group in reply["groups"]]
    if printer.data(reply, names=names):
        return
    if reply["count"] or not reply["problem"]:
        printer.line(_heading(reply))
    printer.table(tables.waiting(reply))
    if reply["problem"]:
        printer.line(reply["problem"])


def _parts(name: str) -> tuple[str, str]:
    namespace, slash, gang = name.partition("/")
    if not (namespace and slash and gang) or "/" in gang:
        raise Misused(
            f'"{name}" is no group of others: write NAMESPACE/NAME. '
            "A workflow of this service is explained without --cluster."
        )
    return namespace, gang


def _heading(reply: Reply) -> str:
    count, backend = reply["count"], reply["backend"]
    waits = f"{count} {'group' if count == 1 else 'groups'} of others {'waits' if count == 1 else 'wait'}"
    more = f" ({reply['omitted']} more are not kept)" if reply["omitted"] else ""
    if count and not reply["names_shown"]:
        names = "its name needs" if count == 1 else "their names need"
        return f"{waits}{more}; {names} action cluster:Explain on backend {backend}"
    observed = f", as of {moment(reply['observed_at'])} UTC" if reply["observed_at"] else ""
    return f"{waits if count else 'no group of others waits'} on backend {backend}{more}{observed}"


def _show_group(reply: Reply, printer: Printer) -> None:
    printer.line(_facts(reply))
    for sentence in _sentences(reply):
        printer.line(sentence, indent="  ")
    printer.table(tables.nearest(reply["feasibility"]), indent="  ")


def _facts(reply: Reply) -> str:
    facts = (
        f"{reply['tasks']} tasks",
        f"{reply['gpus']} GPUs" if reply["gpus"] else "",
        f"at least {reply['minimum']} together" if reply["minimum"] else "",
        f"queue {reply['queue']}" if reply["queue"] else "",
        f"priority {reply['priority']}" if reply["priority"] else "",
        f"waits since {moment(reply['since'])} UTC" if reply["since"] else "",
    )
    name = f"{reply['namespace']}/{reply['name']}"
    return f"{name}, {tables.origin(reply)}, on backend {reply['backend']}: {', '.join(filter(None, facts))}"


def _sentences(reply: Reply) -> Iterator[str]:
    """The faults that no free node mends, the verdict, the scheduler's words, what nobody looked at."""
    feasibility = reply["feasibility"]
    yield from reply["faults"]
    yield feasibility["sentence"]
    if words := in_one_line(reply["scheduler_report"]):
        yield f"The scheduler's words: {words}"
    if messages := [entry["message"] for entry in (*reply["not_examined"], *feasibility["not_examined"])]:
        yield f"Not examined: {' '.join(messages)}"
