"""The command: its options, what it consists of, and how it ends."""

from typing import Annotated

import typer

from osmo_topology_cli import config_commands, login_command, pool_commands, task_commands, workflow_commands
from osmo_topology_cli.outcomes import Exit, exit_of
from osmo_topology_cli.session import Output, Session, WaitSeconds, begin, end
from osmo_topology_cli.show import Format
from osmo_topology_client.errors import Failure, ServiceUnreachable

EPILOG = (
    "Exit codes: 0 done; 1 refused by the service; 2 not understood, or no login; 3 watch: the workflow did "
    "not complete, doctor: there are findings, preflight: a check failed; 4 doctor: not every cluster could "
    "be read; 10 the service cannot be reached or has failed; 75 too many requests, try later; 130 "
    "interrupted."
)
app = typer.Typer(
    name="osmo-topology",
    help="Pools, topology and workflows of an osmo-topology service.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in (login_command.app, workflow_commands.app, task_commands.app, pool_commands.app):
    app.add_typer(commands)
app.add_typer(pool_commands.defaults, name="pool")
app.add_typer(config_commands.app, name="config")


def run() -> int:
    """Run the command that the process was started for; returns its exit code."""
    session = Session()
    try:
        app(obj=session, prog_name="osmo-topology")
    except Failure as failure:
        session.printer.failure(failure)
        return exit_of(failure)
    except (KeyError, TypeError) as error:  # an answer without a field that every version has
        session.printer.failure(
            ServiceUnreachable(f"The answer is not that of this service: {type(error).__name__} {error}.")
        )
        return Exit.UNREACHABLE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.DONE


def _version(value: bool) -> None:  # noqa: FBT001 -- typer calls it with the option's value
    if value:
        from osmo_topology_cli.version import about  # noqa: PLC0415 -- for this option alone

        typer.echo(about())
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    *,
    url: Annotated[
        str, typer.Option(help="Address of the service; else OSMO_URL, else that of login.yaml.")
    ] = "",
    token: Annotated[str, typer.Option(help="Personal token; else OSMO_TOKEN, which ps does not show.")] = "",
    user: Annotated[str, typer.Option(help="User name, where the service runs for development.")] = "",
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    del version
    session: Session = context.obj
    session.url, session.token, session.user = url, token, user


@app.command()
def doctor(context: typer.Context, *, wait: WaitSeconds = 300.0, output: Output = Format.TABLE) -> None:
    """Compare the service's rows with its clusters, and show what differs; for administrators."""
    from osmo_topology_cli.doctor import exit_code, finished_check, show_report  # noqa: PLC0415 -- one command

    service, printer = begin(context, output)
    check = finished_check(service, wait=wait)
    names = [finding["kind"] for finding in check["report"]["findings"]]
    if not printer.data(check, names=names):
        show_report(check["report"], printer)
    end(exit_code(check["report"]))


@app.command()
def preflight(
    context: typer.Context,
    *,
    backend: Annotated[str, typer.Option(metavar="NAME", help="Only this backend's cluster.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Check servers, clusters, rights, labels and schedulers, and say what to do; changes nothing."""
    from osmo_topology_cli.preflight import checks_of, exit_code, show_report  # noqa: PLC0415 -- one command

    service, printer = begin(context, output)
    report = service.get("preflight", backend=backend or None)
    if not printer.data(report, names=checks_of(report)):
        show_report(report, printer)
    end(exit_code(report))
