"""The commands on workflows: submit them, look at them, end them and run them again."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osmo_topology_cli import completion, tables
from osmo_topology_cli import explain as explaining
from osmo_topology_cli.documents import text_of
from osmo_topology_cli.outcomes import Exit, exit_of
from osmo_topology_cli.repeating import Repeat, repeated
from osmo_topology_cli.session import Interval, LineOutput, Output, WorkflowName, begin, check_pools, end
from osmo_topology_cli.show import Changes, Format, Printer
from osmo_topology_client.calls import Call, Document, address
from osmo_topology_client.errors import Misused, Refused
from osmo_topology_client.group_pages import explained_pages

if TYPE_CHECKING:
    from osmo_topology_client.client import Client

app = typer.Typer()

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="name=value for a template; numbers become numbers."),
]
SetString = Annotated[
    list[str] | None,
    typer.Option("--set-string", metavar="NAME=VALUE", help="name=value for a template; always text."),
]
Destination = Annotated[
    str,
    typer.Option(
        "--pool",
        metavar="POOL[,POOL...]",
        autocompletion=completion.pools,
        help="Where to; the best of several, or of all: any. Else your default pool, else that of the file.",
    ),
]
SetEnv = Annotated[
    list[str] | None,
    typer.Option("--set-env", metavar="NAME=VALUE", help="name=value in the environment of every task."),
]
WorkflowFile = Annotated[
    str,
    typer.Argument(help="A workflow as YAML, or a template; - for standard input.", show_default=False),
]
TaskName = Annotated[
    str | None,
    typer.Option(
        "--task",
        "-t",
        help="Only this task's: worker-3, worker[0-3,7], or worker for all.",
        autocompletion=completion.tasks,
    ),
]
TryNumber = Annotated[int | None, typer.Option(min=0, help="Only this try's, counted from 0.")]


@app.command()
def submit(
    context: typer.Context,
    *,
    file: WorkflowFile,
    pool: Destination = "",
    variables: Set = None,
    strings: SetString = None,
    environment: SetEnv = None,
    priority: Annotated[str | None, typer.Option(help="HIGH, NORMAL or LOW.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="key=value, laid over the labels of the workflow."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, show what would be made, make nothing.")
    ] = False,
    expand: Annotated[
        bool,
        typer.Option("--expand", help="Print the plain OSMO document, every task by itself."),
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on as the command watch does.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Submit a workflow. Arrives once, however often it has to be sent."""
    service, printer = begin(context, output)
    document = Document(
        text=text_of(file),
        pool=pool,
        variables=variables or (),
        strings=strings or (),
        environment=environment or (),
        labels=label or (),
        priority=priority,
    )
    if expand:
        printer.text(service.expanded(document))
        return
    reply = service.check(document) if dry_run else service.submit(document)
    _show_submitted(reply, printer, dry_run=dry_run)
    if watch and not dry_run:
        from osmo_topology_cli.watching import watch as follow  # noqa: PLC0415 -- for this option alone

        end(follow(service, reply["name"], printer=printer, interval=2.0))


@app.command()
def fits(
    context: typer.Context,
    *,
    file: WorkflowFile,
    pool: Destination = "",
    variables: Set = None,
    strings: SetString = None,
    output: Output = Format.TABLE,
) -> None:
    """Show whether a workflow would fit now, later or never, and where the room is; submits nothing."""
    service, printer = begin(context, output)
    document = Document(text=text_of(file), pool=pool, variables=variables or (), strings=strings or ())
    reply = service.fits(document)
    if printer.data(reply, names=[group["verdict"] for group in reply["feasibility"]]):
        return
    _show_choice(reply, printer)
    for group in reply["feasibility"]:
        printer.line(f"group {group['group']}: {group['sentence']}")
        printer.table(tables.nearest(group), indent="  ")


@app.command()
def explain(
    context: typer.Context,
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="[WORKFLOW|NAMESPACE/NAME]",
            help="A workflow's name or uuid; after --cluster a group of others.",
            show_default=False,
            autocompletion=completion.explainable,
        ),
    ] = "",
    cluster: Annotated[
        str,
        typer.Option(
            metavar="BACKEND",
            help="What others submitted to this backend's cluster and waits; without a name all of it.",
            autocompletion=completion.backends,
        ),
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Explain why work waits: a workflow, or with --cluster what others submitted beside this service."""
    service, printer = begin(context, output)
    if cluster:
        from osmo_topology_cli.explain_others import explain_cluster  # noqa: PLC0415 -- for this option alone

        explain_cluster(service, cluster, name, printer=printer)
    else:
        _explain_workflow(service, name, printer)


def _explain_workflow(service: "Client", workflow: str, printer: Printer) -> None:
    if not workflow:
        raise Misused("Which workflow? For what others submitted to a cluster give --cluster BACKEND.")
    if "/" in workflow:
        raise Misused(f'"{workflow}" is no workflow; for a group of others give --cluster BACKEND.')
    if not printer.is_table:
        complete = service.workflow(workflow)
        data = {"explanation": service.explain(workflow), "workflow": complete}
        printer.data(data, names=[complete["name"]])
        return
    for number, (reply, waits) in enumerate(explained_pages(service, workflow)):
        if number == 0:
            printer.line(explaining.heading(reply))
            for warning in reply["warnings"]:
                printer.line(f"warning at submission: {warning}", indent="  ")
        for explained_group in explaining.explain(reply, waits):
            _show_explained(explained_group, printer)


@app.command()
def watch(
    context: typer.Context,
    *,
    workflow: WorkflowName,
    interval: Interval = 2.0,
    output: LineOutput = Changes.TABLE,
) -> None:
    """Follow a workflow to its end; ends with 0 if it completed, else with 3. As JSON: a line a change."""
    from osmo_topology_cli.watching import watch as follow  # noqa: PLC0415 -- one command

    service, printer = begin(context, Format(output.value))
    end(follow(service, workflow, printer=printer, interval=interval))


@app.command("exec")
def exec_(
    context: typer.Context,
    *,
    workflow: WorkflowName,
    task: Annotated[
        str, typer.Argument(help="A running task.", show_default=False, autocompletion=completion.tasks)
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND [ARGUMENTS]]", help="What to run; else /bin/bash.", show_default=False
        ),
    ] = None,
    stdin: Annotated[bool, typer.Option("-i", "--stdin", help="Send it what is typed or piped in.")] = False,
    tty: Annotated[bool, typer.Option("-t", "--tty", help="With -i: give it this terminal.")] = False,
) -> None:
    """Run a command in a running task; ends with its exit code. A shell: exec NAME TASK -it."""
    from osmo_topology_cli.exec import run  # noqa: PLC0415 -- one command

    service, _ = begin(context)
    code = run(service, workflow, task, command or ["/bin/bash"], stdin=stdin, terminal=tty)
    if code:
        raise typer.Exit(code)


@app.command()
def logs(
    context: typer.Context,
    *,
    workflow: WorkflowName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with lines as they come.")] = False,
    task: TaskName = None,
    retry: TryNumber = None,
    last: Annotated[int | None, typer.Option("--last", "-n", min=1, help="Only so many last lines.")] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Only of tasks that failed, with their exit codes.")
    ] = False,
) -> None:
    """Print the logs of a workflow's tasks."""
    service, printer = begin(context)
    if errors and follow:
        raise Misused("--errors is of what has ended; it cannot be followed.")
    if follow:
        _say_that_it_waits(service, workflow, printer)
    read = service.error_logs if errors else partial(service.logs, follow=follow)
    has_lines = printer.stream(read(workflow, task=task, retry=retry, last=last))
    if not has_lines and not errors and not follow:
        _say_that_it_waits(service, workflow, printer)


def _say_that_it_waits(service: "Client", workflow: str, printer: Printer) -> None:
    """A note on a workflow that has no logs because it waits."""
    reply = service.get("workflow", workflow)
    if reply["status"] in ("PENDING", "WAITING"):
        reasons = (group["waiting_reason"] for group in reply["groups"])
        reason = next(filter(None, reasons), "its tasks are being created.")
        printer.note(f"{reply['name']} waits, so it has no logs yet: {reason}")


@app.command()
def events(
    context: typer.Context,
    *,
    workflow: WorkflowName,
    task: TaskName = None,
    retry: TryNumber = None,
    last: Annotated[int | None, typer.Option("--last", "-n", min=1, help="Only so many last lines.")] = None,
) -> None:
    """Print the timeline of a workflow: an event a line, the oldest first."""
    service, printer = begin(context)
    call = Call(
        path=address("workflow", workflow, "events"),
        params={"task_name": task, "retry_id": retry, "last_n_lines": last},
    )
    printer.stream(service.text(call))


@app.command()
def spec(
    context: typer.Context,
    *,
    workflow: WorkflowName,
    template: Annotated[bool, typer.Option("--template", help="The template that it came from.")] = False,
    expand: Annotated[
        bool, typer.Option("--expand", help="The plain OSMO document, every task by itself.")
    ] = False,
) -> None:
    """Print the text that a workflow was submitted with."""
    service, printer = begin(context)
    forms = {"use_template": str(template), "expanded": "True" if expand else None}
    call = Call(path=address("workflow", workflow, "spec"), params=forms)
    printer.stream(service.text(call))


@app.command()
def restart(
    context: typer.Context,
    *,
    workflow: WorkflowName,
    pool: Annotated[str, typer.Option(help="Where to; else the pool it was in.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Run a finished workflow again as a new one; groups that completed do not run again."""
    service, printer = begin(context, output)
    _show_submitted(service.restart(workflow, pool=pool), printer, dry_run=False)


@app.command()
def cancel(
    context: typer.Context,
    *,
    workflows: Annotated[
        list[str],
        typer.Argument(help="Names or uuids.", show_default=False, autocompletion=completion.workflows),
    ],
    message: Annotated[str, typer.Option("--message", "-m", help="Why; shown with the workflow.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Without waiting for containers to end.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Cancel workflows. One that cannot be cancelled does not keep the others."""
    service, printer = begin(context, output)
    refused = []
    done = []
    for name in workflows:
        try:
            done.append(service.cancel(name, message=message, force=force))
        except Refused as error:
            refused.append(error)
            printer.failure(error)
        else:
            if printer.is_table:
                printer.line(f"{done[-1]['name']} is being cancelled")
    printer.data(done, names=[reply["name"] for reply in done])
    end(exit_of(refused[0]) if refused else Exit.DONE)


@app.command(name="list")
def list_workflows(
    context: typer.Context,
    *,
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATUS", help="Only with one of these statuses.", autocompletion=completion.statuses
        ),
    ] = None,
    pool: Annotated[
        list[str] | None,
        typer.Option(metavar="POOL", help="Only in one of these pools.", autocompletion=completion.pools),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only with this in the name.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="Only with this label: key or key=value.")
    ] = None,
    all_users: Annotated[bool, typer.Option("--all-users", "-a", help="Whoever submitted them.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many.")] = 20,
    watch: Repeat = False,
    output: Output = Format.TABLE,
) -> None:
    """List workflows, the newest first: yours, unless --all-users is given."""
    service, printer = begin(context, output)

    def show() -> None:
        reply = service.get(
            "workflow",
            statuses=status or None,
            pools=pool or None,
            name=name,
            label=label or None,
            all_users=str(all_users),
            limit=limit,
        )
        if not reply["workflows"]:
            check_pools(service, pool)
        if printer.data(reply, names=[workflow["name"] for workflow in reply["workflows"]]):
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

    repeated(show, printer, watch=watch)


def _show_explained(group: explaining.Explained, printer: Printer) -> None:
    printer.line()
    printer.line(group.heading)
    for sentence in group.sentences:
        printer.line(sentence, indent="  ")
    for table in group.tables:
        printer.table(table, indent="  ")


def _show_choice(reply: Any, printer: Printer) -> None:
    """The verdicts of all pools, where there was a choice."""
    if len(reply.get("pools") or ()) > 1:
        printer.table(tables.choice(reply))


def _show_submitted(reply: Any, printer: Printer, *, dry_run: bool) -> None:
    for warning in reply["warnings"]:
        for line in f"warning: {warning}".splitlines():
            printer.note(line)
    if printer.data(reply, names=[reply["name"]]):
        return
    where = f" into pool {reply['pool']}" if reply.get("pool") else ""
    printer.line(f"{reply['name']} {'would be' if dry_run else 'is'} accepted{where}")
    if not dry_run:
        printer.line(f"Its page: {reply['overview']}")
        printer.line(f"To follow it: osmo-topology watch {reply['name']}")
    _show_choice(reply, printer)
    for fit in reply.get("feasibility", ()):
        printer.line(f"group {fit['group']}: {fit['sentence']}")
    requirements = tables.constraints(
        [(constraint["group"], constraint["constraints"]) for constraint in reply["constraints"]]
    )
    for table in (requirements, tables.recovery(reply), tables.objects(reply)):
        if table.rows:
            printer.line()
        printer.table(table)
