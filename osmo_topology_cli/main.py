"""The commands. Each sends requests to the service, and shows the replies as tables or as JSON."""

import os
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from osmo_topology_cli import explain as explaining
from osmo_topology_cli import tables
from osmo_topology_cli.doctor import exit_code, finished_check, show_report
from osmo_topology_cli.login import find_login
from osmo_topology_cli.outcomes import Exit, Failure, Misused, Refused
from osmo_topology_cli.service import Call, Service, address
from osmo_topology_cli.show import Format, Printer
from osmo_topology_cli.watching import watch as follow

EPILOG = (
    "Exit codes: 0 done; 1 refused by the service; 2 not understood, or no login; 3 watch: the workflow did "
    "not complete, doctor: there are findings; 4 doctor: not every cluster could be read; 10 the service "
    "cannot be reached or has failed; 75 too many requests, try later; 130 interrupted."
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

Output = Annotated[Format, typer.Option("--output", "-o", help="A table, or the service's JSON.")]
Workflow = Annotated[str, typer.Argument(help="A workflow's name (train-3) or its uuid.", show_default=False)]
Interval = Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between two looks.")]
Wait = Annotated[float, typer.Option(min=1, max=3600, help="Seconds to wait for its end.")]


@dataclass(slots=True)
class Session:
    """The options before the command, and the printer."""

    url: str = ""
    token: str = ""
    user: str = ""
    printer: Printer = field(default_factory=lambda: Printer(format=Format.TABLE))

    def begin(self, output: Format) -> tuple[Service, Printer]:
        """The service and the printer of a command. Raises Failure."""
        self.printer = Printer(format=output)
        login = find_login(url=self.url, token=self.token, user=self.user, environment=os.environ)
        return Service(login, notify=self.printer.note), self.printer


def run() -> int:
    """Run the command that the process was started for; returns its exit code."""
    session = Session()
    try:
        app(obj=session)
    except Failure as failure:
        session.printer.failure(failure)
        return failure.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.DONE


@app.callback()
def options(
    context: typer.Context,
    *,
    url: Annotated[
        str, typer.Option(help="Address of the service; else OSMO_URL, else that of login.yaml.")
    ] = "",
    token: Annotated[str, typer.Option(help="Personal token; else OSMO_TOKEN, which ps does not show.")] = "",
    user: Annotated[str, typer.Option(help="User name, where the service runs for development.")] = "",
) -> None:
    session: Session = context.obj
    session.url, session.token, session.user = url, token, user


@app.command()
def pools(context: typer.Context, *, output: Output = Format.TABLE) -> None:
    """List the pools you may use, with their topology keys."""
    service, printer = context.obj.begin(output)
    reply = service.get("pool")
    if not printer.json(reply):
        printer.table(tables.pools(reply))
        if not reply["pools"]:
            printer.note("There is no pool that you may use.")


@app.command()
def topology(
    context: typer.Context,
    *,
    pool: Annotated[str, typer.Argument(help="A pool's name.", show_default=False)],
    output: Output = Format.TABLE,
) -> None:
    """Show a pool's topology keys and the domains there are of each, with their nodes."""
    service, printer = context.obj.begin(output)
    reply = service.get("pool", pool, "topology")
    if printer.json(reply):
        return
    age = (
        f", as of {tables.moment(reply['nodes_synced_at'])} UTC"
        if reply["nodes_synced_at"]
        else ", none seen yet"
    )
    nvlink = ", NVLink" if reply["nvlink"] else ""
    printer.line(f"pool {reply['name']}: {reply['nodes']} nodes{nvlink}{age}")
    if not reply["topology_keys"]:
        printer.line("It has no topology keys.")
    for table in (tables.keys(reply), tables.domains(reply)):
        if table.rows:
            printer.line()
        printer.table(table)


@app.command()
def submit(
    context: typer.Context,
    *,
    file: Annotated[
        str,
        typer.Argument(help="A workflow as YAML, or a template; - for standard input.", show_default=False),
    ],
    pool: Annotated[str, typer.Option(help="Where to; else your default pool.")] = "",
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="name=value for a template; numbers become numbers."
        ),
    ] = None,
    strings: Annotated[
        list[str] | None,
        typer.Option("--set-string", metavar="NAME=VALUE", help="name=value for a template; always text."),
    ] = None,
    priority: Annotated[str | None, typer.Option(help="HIGH, NORMAL or LOW.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="key=value, laid over the labels of the workflow."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, show what would be made, make nothing.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on as the command watch does.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Submit a workflow. Arrives once, however often it has to be sent."""
    service, printer = context.obj.begin(output)
    text = _read(file)
    call = Call(
        verb="POST",
        path=address("pool", pool or _default_pool(service), "workflow"),
        params={"dry_run": "True" if dry_run else None, "priority": priority, "label": label or None},
        body={"file": text, "set_variables": variables, "set_string_variables": strings},
        headers={} if dry_run else {"Idempotency-Key": uuid.uuid4().hex},
    )
    reply = service.json(call)
    for warning in reply["warnings"]:
        printer.note(f"warning: {warning}")
    if not printer.json(reply):
        _show_submitted(reply, printer, dry_run=dry_run)
    if watch and not dry_run:
        _end(follow(service, reply["name"], printer=printer, interval=2.0))


@app.command()
def explain(context: typer.Context, *, workflow: Workflow, output: Output = Format.TABLE) -> None:
    """Explain the status of a workflow: what it waits for, what it requires, what failed."""
    service, printer = context.obj.begin(output)
    reply = service.get("workflow", workflow)
    explanation = service.get("workflow", workflow, "explain")
    if printer.json({"explanation": explanation, "workflow": reply}):
        return
    printer.line(explaining.heading(reply))
    for explained_group in explaining.explain(reply, explanation):
        printer.line()
        printer.line(explained_group.heading)
        for sentence in explained_group.sentences:
            printer.line(sentence, indent="  ")
        for table in explained_group.tables:
            printer.table(table, indent="  ")


@app.command()
def watch(
    context: typer.Context, *, workflow: Workflow, interval: Interval = 2.0, output: Output = Format.TABLE
) -> None:
    """Follow a workflow to its end; ends with 0 if it completed, else with 3. As JSON: a line a change."""
    service, printer = context.obj.begin(output)
    _end(follow(service, workflow, printer=printer, interval=interval))


@app.command()
def logs(
    context: typer.Context,
    *,
    workflow: Workflow,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with lines as they come.")] = False,
    task: Annotated[str | None, typer.Option("--task", "-t", help="Only this task's.")] = None,
    retry: Annotated[int | None, typer.Option(min=0, help="Only this try's, counted from 0.")] = None,
    last: Annotated[int | None, typer.Option("--last", "-n", min=1, help="Only so many last lines.")] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Only of tasks that failed, with their exit codes.")
    ] = False,
) -> None:
    """Print the logs of a workflow's tasks."""
    service, printer = context.obj.begin(Format.TABLE)
    if errors and follow:
        raise Misused("--errors is of what has ended; it cannot be followed.")
    call = Call(
        path=address("workflow", workflow, "error_logs" if errors else "logs"),
        params={
            "task_name": task,
            "retry_id": retry,
            "last_n_lines": last,
            "follow": None if errors else str(follow),
        },
        read=None,
    )
    for piece in service.text(call):
        printer.raw(piece)


@app.command()
def cancel(
    context: typer.Context,
    *,
    workflows: Annotated[list[str], typer.Argument(help="Names or uuids.", show_default=False)],
    message: Annotated[str, typer.Option("--message", "-m", help="Why; shown with the workflow.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Without waiting for containers to end.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Cancel workflows. One that cannot be cancelled does not keep the others."""
    service, printer = context.obj.begin(output)
    refused = []
    done = []
    for name in workflows:
        try:
            done.append(service.post("workflow", name, "cancel", force=str(force), message=message or None))
        except Refused as error:
            refused.append(error)
            printer.failure(error)
        else:
            if printer.format is Format.TABLE:
                printer.line(f"{done[-1]['name']} is being cancelled")
    printer.json(done)
    _end(refused[0].code if refused else Exit.DONE)


@app.command(name="list")
def list_workflows(
    context: typer.Context,
    *,
    status: Annotated[
        list[str] | None, typer.Option(metavar="STATUS", help="Only with one of these statuses.")
    ] = None,
    pool: Annotated[
        list[str] | None, typer.Option(metavar="POOL", help="Only in one of these pools.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only with this in the name.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="Only with this label: key or key=value.")
    ] = None,
    all_users: Annotated[bool, typer.Option("--all-users", "-a", help="Whoever submitted them.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many.")] = 20,
    output: Output = Format.TABLE,
) -> None:
    """List workflows, the newest first: yours, unless --all-users is given."""
    service, printer = context.obj.begin(output)
    reply = service.get(
        "workflow",
        statuses=status or None,
        pools=pool or None,
        name=name,
        label=label or None,
        all_users=str(all_users),
        limit=limit,
    )
    if printer.json(reply):
        return
    printer.table(tables.workflows(reply))
    if not reply["workflows"]:
        printer.note(
            "There is no such workflow."
            if all_users
            else "You have no such workflow; --all-users shows more."
        )
    if reply["more_entries"]:
        printer.note(f"There are more than {limit}; --limit shows them.")


@app.command()
def doctor(context: typer.Context, *, wait: Wait = 300.0, output: Output = Format.TABLE) -> None:
    """Compare the service's rows with its clusters, and show what differs; for administrators."""
    service, printer = context.obj.begin(output)
    check = finished_check(service, wait=wait)
    if not printer.json(check):
        show_report(check["report"], printer)
    _end(exit_code(check["report"]))


@app.command(hidden=True)
def audit(context: typer.Context, *, wait: Wait = 300.0, output: Output = Format.TABLE) -> None:
    """Deprecated: use doctor."""
    context.obj.printer.note("osmo-topology audit is deprecated: use osmo-topology doctor")
    doctor(context, wait=wait, output=output)


def _read(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise Misused(f"{file} cannot be read: {reason}") from error


def _default_pool(service: Service) -> str:
    profile = service.get("profile", "settings")
    if pool := profile["profile"]["pool"]:
        return str(pool)
    offered = ", ".join(profile["pools"]) or "none that you may use"
    raise Misused(f"Which pool? You have no default pool; give --pool. There is {offered}.")


def _show_submitted(reply: Any, printer: Printer, *, dry_run: bool) -> None:
    printer.line(f"{reply['name']} would be accepted" if dry_run else f"{reply['name']} is accepted")
    for fit in reply.get("feasibility", ()):
        printer.line(f"group {fit['group']}: {fit['sentence']}")
    requirements = tables.constraints(
        [(constraint["group"], constraint["constraints"]) for constraint in reply["constraints"]]
    )
    for table in (requirements, tables.objects(reply)):
        if table.rows:
            printer.line()
        printer.table(table)


def _end(code: Exit) -> None:
    if code is not Exit.DONE:
        raise typer.Exit(int(code))
