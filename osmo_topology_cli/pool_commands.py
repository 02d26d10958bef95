"""The commands on pools: what they have, what is free there, and what would be with other nodes."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from osmo_topology_cli import completion, tables
from osmo_topology_cli.documents import document_of, pairs_of
from osmo_topology_cli.map import Map, map_of_pool, map_of_workflow
from osmo_topology_cli.repeating import Repeat, repeated
from osmo_topology_cli.session import Output, PoolName, begin, check_pools
from osmo_topology_cli.show import Format
from osmo_topology_client.calls import Call, address
from osmo_topology_client.errors import Failure, Misused, Refused

if TYPE_CHECKING:
    from osmo_topology_client.client import Client

app = typer.Typer()
LIVE = ["SUBMITTING", "WAITING", "PROCESSING", "SCHEDULING", "INITIALIZING", "RUNNING"]
"""The statuses of tasks that have not ended."""

defaults = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Your default pool.")


@app.command()
def pools(context: typer.Context, *, watch: Repeat = False, output: Output = Format.TABLE) -> None:
    """List the pools you may use, with what is free, what waits and what fits in each."""
    service, printer = begin(context, output)

    def show() -> None:
        if printer.is_table:
            reply = service.get("pool_quota")
            printer.table(tables.pools(reply))
            if not reply["node_sets"]:
                printer.note("There is no pool that you may use.")
        else:
            reply = service.get("pool")
            printer.data(reply, names=sorted(reply["pools"]))

    repeated(show, printer, watch=watch)


@app.command()
def nodes(
    context: typer.Context,
    *,
    node: Annotated[
        str,
        typer.Argument(help="Only this node, with what runs on it.", autocompletion=completion.nodes),
    ] = "",
    pool: Annotated[
        list[str] | None,
        typer.Option(metavar="POOL", help="Only of these pools.", autocompletion=completion.pools),
    ] = None,
    watch: Repeat = False,
    output: Output = Format.TABLE,
) -> None:
    """List the nodes of your pools with what is free on each; of one node, show what runs on it."""
    service, printer = begin(context, output)

    def show() -> None:
        where = ("resources", node) if node else ("resources",)
        reply = service.get(*where, pools=pool or None)
        if not reply["resources"]:
            check_pools(service, pool)
        if node and not reply["resources"]:
            raise Failure(f'None of your pools has a node "{node}".')
        tasks = service.get("task", nodes=[node], all_users="True", statuses=LIVE, limit=1000) if node else {}
        if printer.data(reply | tasks, names=[row["hostname"] for row in reply["resources"]]):
            return
        printer.table(tables.nodes(reply))
        if node:
            printer.line()
            printer.table(tables.tasks_on_node(tasks))
            if not tasks["tasks"]:
                printer.line("No task that you may see is on it.")

    repeated(show, printer, watch=watch)


@app.command()
def topology(context: typer.Context, *, pool: PoolName, output: Output = Format.TABLE) -> None:
    """Show a pool's topology keys and the domains of each, with their nodes and what is free there."""
    service, printer = begin(context, output)
    reply = service.get("pool", pool, "topology")
    if printer.data(reply, names=[key["key"] for key in reply["topology_keys"]]):
        return
    printer.line(tables.pool_heading(reply))
    if not reply["topology_keys"]:
        printer.line("It has no topology keys.")
    for table in (tables.keys(reply), tables.domains(reply)):
        if table.rows:
            printer.line()
        printer.table(table)


@app.command(name="map")
def draw_map(
    context: typer.Context,
    *,
    name: Annotated[str, typer.Argument(metavar="POOL|WORKFLOW", help="A name.", show_default=False)],
    watch: Repeat = False,
    output: Output = Format.TABLE,
) -> None:
    """Draw a pool's domains with what is free in each, or the domains and nodes that a workflow is on."""
    service, printer = begin(context, output)

    def show() -> None:
        tree, reply = _mapped(service, name)
        if printer.data(reply, names=tree.names):
            return
        printer.line(tree.heading)
        for table in tree.tables:
            printer.line()
            printer.table(table)
        for sentence in tree.sentences:
            printer.line(sentence)

    repeated(show, printer, watch=watch)


def _mapped(service: "Client", name: str) -> tuple[Map, Any]:
    """The map of the pool of this name, else of the workflow, and the reply that it is made of."""
    try:
        reply = service.get("pool", name, "topology")
    except Refused as error:
        if error.status != 404:
            raise
        try:
            workflow = service.get("workflow", name)
        except Refused as second:
            raise error if second.status == 404 else second from None
        of_pool = service.get("resources", pools=[workflow["pool"]], all_pools="False")
        return map_of_workflow(workflow, of_pool), {"workflow": workflow, **of_pool}
    return map_of_pool(reply), reply


@app.command(name="what-if")
def what_if(
    context: typer.Context,
    *,
    pool: PoolName,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", "-f", help="A document with any of it, as YAML or JSON; - for standard input."
        ),
    ] = None,
    drain: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=DOMAIN,...", help="The nodes of this domain are gone: zone=a,rack=r1."),
    ] = None,
    drain_node: Annotated[list[str] | None, typer.Option(metavar="NODE", help="This node is gone.")] = None,
    add_nodes: Annotated[
        list[str] | None,
        typer.Option(metavar="COUNT:NODE", help="So many nodes like this one are added: 4:node-17."),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(metavar="KEY=LABEL,...", help="The pool's keys are these, broadest first."),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(metavar="WORKFLOW", help="This workflow has ended.")
    ] = None,
    backend: Annotated[str | None, typer.Option(help="The pool is on this backend.")] = None,
    move_to: Annotated[
        str | None, typer.Option(metavar="POOL", help="What waits is submitted to this pool.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Predict what would become of the groups that wait in a pool, if its nodes or keys were different."""
    service, printer = begin(context, output)
    document = document_of(file) if file else {}
    parts = {
        "drain": pairs_of(drain or [], option="--drain"),
        "drain_nodes": drain_node,
        "add_nodes": [_new_nodes(text) for text in add_nodes or ()],
        "topology_keys": _keys(keys) if keys else None,
        "without": without,
        "backend": backend,
        "move_to": move_to,
    }
    document |= {name: value for name, value in parts.items() if value}
    if not document:
        raise Misused("What would be different? Give --drain, --drain-node, --add-nodes, --file or the like.")
    reply = service.json(Call(verb="POST", path=address("pool", pool, "what-if"), body=document))
    if printer.data(reply, names=[f"{group['workflow']}/{group['group']}" for group in reply["groups"]]):
        return
    printer.table(tables.predictions(reply))
    for note in reply["notes"]:
        printer.note(note)
    printer.line(tables.prediction_counts(reply))
    if reply["displaced"]:
        printer.line(f"On drained nodes run: {', '.join(map(str, reply['displaced']))}")


@defaults.command("default")
def default_pool(
    context: typer.Context,
    *,
    pool: Annotated[
        str | None, typer.Argument(help="The pool to use from now on; none shows it.", show_default=False)
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Have no default pool.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show or choose the pool of submissions that name none."""
    service, printer = begin(context, output)
    if pool and none:
        raise Misused("A pool and --none are two wishes; give one of them.")
    if pool or none:
        body = {"pool": pool or ""}
        service.json(Call(verb="POST", path=address("profile", "settings"), body=body))
    reply = service.get("profile", "settings")
    chosen = reply["profile"]["pool"]
    if printer.data(reply, names=[chosen] if chosen else []):
        return
    offered = ", ".join(reply["pools"]) or "none"
    printer.line(f"default pool: {chosen or 'none'}; you may use: {offered}")


def _new_nodes(text: str) -> dict[str, Any]:
    count, colon, node = text.partition(":")
    if not (count.isdecimal() and colon and node):
        raise Misused(f'--add-nodes takes a number and a node, such as 4:node-17, and not "{text}".')
    return {"count": int(count), "like": node}


def _keys(text: str) -> list[dict[str, str]]:
    [pairs] = pairs_of([text], option="--keys")
    return [{"key": key, "label": label} for key, label in pairs.items()]
