"""The commands that reach into running tasks: their ports and files."""

import sys
from typing import Annotated

import typer

from osmo_topology_cli import completion
from osmo_topology_cli.session import WorkflowName, begin

app = typer.Typer()

RunningTask = Annotated[
    str, typer.Argument(help="A running task.", show_default=False, autocompletion=completion.tasks)
]


@app.command("port-forward")
def port_forward(
    context: typer.Context,
    *,
    workflow: WorkflowName,
    task: RunningTask,
    ports: Annotated[
        list[str],
        typer.Argument(metavar="LOCAL[:TASK]...", help="8888, 8888:80, or 0:80 for any local port."),
    ],
) -> None:
    """Forward ports of this machine's loopback to a running task, until it ends or you interrupt."""
    from osmo_topology_cli.forward import read_ports, run  # noqa: PLC0415 -- one command

    pairs = read_ports(ports)
    service, printer = begin(context)
    run(service, workflow, task, pairs, show=printer.line)


@app.command()
def cp(
    context: typer.Context,
    *,
    source: Annotated[str, typer.Argument(help="NAME/TASK:/path, or a path of this machine.")],
    target: Annotated[str, typer.Argument(help="The other of the two.")],
) -> None:
    """Copy files from a running task, or to it; its image needs tar. Links from a task are left out."""
    from osmo_topology_cli.copying import Copy  # noqa: PLC0415 -- one command

    service, printer = begin(context)
    Copy(service, printer.note).run(source, target, showing=sys.stderr.isatty())
