"""The commands on configuration: show, compare and apply it as a file, and go back in its history."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osmo_topology_cli import tables
from osmo_topology_cli.documents import text_of
from osmo_topology_cli.session import Output, begin
from osmo_topology_cli.show import Format, as_yaml
from osmo_topology_client.calls import Call, address
from osmo_topology_client.errors import Failure, Misused

if TYPE_CHECKING:
    from osmo_topology_client.client import Client

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The configuration of pools, backends, pod templates and limits; for administrators.",
)

SECTIONS = {"POOL": "pools", "BACKEND": "backends", "POD_TEMPLATE": "pod_templates", "WORKFLOW": "workflow"}

FileArgument = Annotated[
    str, typer.Argument(help="A file of configuration; - for standard input.", show_default=False)
]
Revision = Annotated[
    str, typer.Argument(metavar="TYPE:NUMBER", help="A revision, such as POOL:3.", show_default=False)
]
Prune = Annotated[bool, typer.Option("--prune", help="Delete what the file's sections leave out.")]
Force = Annotated[bool, typer.Option("--force", help="Delete even where work still runs.")]
Description = Annotated[str, typer.Option("--message", "-m", help="Why; kept in the history.")]


@app.command("show")
def show_config(
    context: typer.Context,
    *,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="[TYPE[:NUMBER]]",
            help="POOL, BACKEND, POD_TEMPLATE or WORKFLOW, now or after a revision; else everything.",
            show_default=False,
        ),
    ] = "",
    name: Annotated[str, typer.Argument(help="Only this object.", show_default=False)] = "",
    output: Output = Format.YAML,
) -> None:
    """Print the configuration as a file that `config apply` takes."""
    service, printer = begin(context, output)
    if ":" in kind:
        config_type, number = _revision(kind)
        sections = _set_after(service, config_type, number)
    else:
        sections = _present(service, _type(kind) if kind else "")
    if name:
        sections = _named(sections, name)
    names = [f"{section}/{key}" for section, objects in sections.items() for key in _by_name(objects)]
    if not printer.data(sections, names=names):
        printer.text(as_yaml(sections))


@app.command("diff")
def diff_config(
    context: typer.Context,
    *,
    first: Annotated[
        str,
        typer.Argument(metavar="FILE|TYPE:NUMBER", help="A file, or a revision.", show_default=False),
    ],
    second: Annotated[
        str, typer.Argument(metavar="[TYPE:NUMBER]", help="A later revision.", show_default=False)
    ] = "",
    prune: Prune = False,
    force: Force = False,
    output: Output = Format.TABLE,
) -> None:
    """Show what a file would change, or what lies between two revisions; changes nothing."""
    service, printer = begin(context, output)
    if second:
        reply = _between(service, first, second)
        names = reply["changed"]
    else:
        reply = _applied(service, text_of(first), prune=prune, force=force, dry_run=True)
        names = [f"{changed['config_type']}/{changed['name']}" for changed in reply["changed"]]
    if printer.data(reply, names=names):
        return
    for warning in reply.get("warnings", ()):
        printer.note(f"warning: {warning}")
    printer.text(reply["diff"])
    printer.note(f"{_objects(names)} {'differ' if second else 'would change'}.")


@app.command("apply")
def apply_config(
    context: typer.Context,
    *,
    file: FileArgument,
    prune: Prune = False,
    force: Force = False,
    message: Description = "",
    output: Output = Format.TABLE,
) -> None:
    """Write every object of a file, all or none; what did not change is left alone."""
    service, printer = begin(context, output)
    why = message or f"Applied from {file}."
    reply = _applied(service, text_of(file), prune=prune, force=force, message=why)
    names = [f"{changed['config_type']}/{changed['name']}" for changed in reply["changed"]]
    for warning in reply["warnings"]:
        printer.note(f"warning: {warning}")
    if printer.data(reply, names=names):
        return
    for name in names:
        printer.line(f"{name} changed")
    printer.note(f"{_objects(names)} changed.")


@app.command("history")
def config_history(
    context: typer.Context,
    *,
    kind: Annotated[
        str, typer.Argument(metavar="[TYPE]", help="Only this type of object.", show_default=False)
    ] = "",
    name: Annotated[str, typer.Argument(help="Only this object.", show_default=False)] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many.")] = 20,
    output: Output = Format.TABLE,
) -> None:
    """List the changes of configuration, the newest first: who, when and why."""
    service, printer = begin(context, output)
    types = [_type(kind)] if kind else None
    reply = service.get(
        "configs",
        "history",
        config_types=types,
        name=name or None,
        limit=limit,
        order="DESC",
        omit_data="True",
    )
    names = [f"{change['config_type']}:{change['revision']}" for change in reply["configs"]]
    if not printer.data(reply, names=names):
        printer.table(tables.history(reply))
        if not reply["configs"]:
            printer.note("There is no such change.")


@app.command("rollback")
def roll_back(
    context: typer.Context,
    *,
    revision: Revision,
    message: Description = "",
    force: Force = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check it; change nothing.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Restore the one object that a revision changed to its content after it."""
    service, printer = begin(context, output)
    config_type, number = _revision(revision)
    call = Call(
        verb="POST",
        path=address("configs", "history", "rollback"),
        params={"dry_run": "True" if dry_run else None, "force": "True" if force else None},
        body={"config_type": config_type, "revision": number, "description": message},
    )
    reply = service.json(call)
    if not printer.data(reply, names=[f"{reply['config_type']}:{reply['revision']}"]):
        done = "would be" if dry_run else "is"
        now = f", now {config_type}:{reply['revision']}" if not dry_run else ""
        printer.line(f"{config_type} {reply['name']} {done} as after {config_type}:{number}{now}")


def _applied(
    service: "Client", text: str, *, prune: bool, force: bool, dry_run: bool = False, message: str = ""
) -> Any:
    call = Call(
        verb="PUT",
        path=address("configs", "file"),
        params={"dry_run": "True" if dry_run else None},
        body={"file": text, "prune": prune, "force": force, "description": message},
    )
    return service.json(call)


def _between(service: "Client", first: str, second: str) -> Any:
    (config_type, number), (other_type, other) = _revision(first), _revision(second)
    if config_type != other_type:
        raise Misused(f"Two revisions of one type can be compared, and not {first} with {second}.")
    return service.get(
        "configs", "diff", config_type=config_type, first_revision=number, second_revision=other
    )


def _present(service: "Client", config_type: str) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 -- for this command alone

    reply = service.get("configs", "file", config_types=[config_type] if config_type else None)
    return dict(yaml.safe_load(reply["file"]) or {})


def _set_after(service: "Client", config_type: str, number: int) -> dict[str, Any]:
    rows = service.get("configs", "history", config_types=[config_type], revision=number)["configs"]
    if not rows:
        raise Failure(f"There is no revision {config_type}:{number}; config history lists them.")
    content = rows[0]["data"]
    return dict(content) if config_type == "POOL" else {SECTIONS[config_type]: content}


def _named(sections: dict[str, Any], name: str) -> dict[str, Any]:
    narrowed = {}
    for section, objects in sections.items():
        if name in (by_name := _by_name(objects)):
            narrowed[section] = {name: by_name[name]}
    if not narrowed:
        offered = ", ".join(key for objects in sections.values() for key in _by_name(objects)) or "none"
        raise Failure(f"There is no {name} among {', '.join(sections)}; there is {offered}.")
    return narrowed


def _by_name(objects: Any) -> dict[str, Any]:
    """The objects of a section by name; a revision of backends has them as a list, as OSMO does."""
    return {obj["name"]: obj for obj in objects} if isinstance(objects, list) else objects


def _type(text: str) -> str:
    config_type = text.upper()
    if config_type not in SECTIONS:
        raise Misused(f'"{text}" is no type of configuration; there are {", ".join(SECTIONS)}.')
    return config_type


def _revision(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\w+):([0-9]{1,9})", text, re.ASCII)
    if match is None:
        raise Misused(f'A revision is a type and a number, such as POOL:3, and not "{text}".')
    return _type(match[1]), int(match[2])


def _objects(names: list[str]) -> str:
    return f"{len(names)} {'object' if len(names) == 1 else 'objects'}"
