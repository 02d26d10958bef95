"""What every command begins with: the options before it, the service, and how results are shown."""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from osmo_topology_cli import completion
from osmo_topology_cli.login import Login, ProviderLogin, find_login, login_file, store, stored_token
from osmo_topology_cli.outcomes import Exit
from osmo_topology_cli.show import Changes, Format, Printer

if TYPE_CHECKING:
    from osmo_topology_cli.service import Service

Output = Annotated[
    Format, typer.Option("--output", "-o", help="For people (table, wide) or programs (json, yaml, name).")
]
LineOutput = Annotated[Changes, typer.Option("--output", "-o", help="Sentences, or a JSON object a line.")]
WorkflowName = Annotated[
    str,
    typer.Argument(
        help="A workflow's name (train-3) or its uuid.",
        show_default=False,
        autocompletion=completion.workflows,
    ),
]
PoolName = Annotated[
    str, typer.Argument(help="A pool's name.", show_default=False, autocompletion=completion.pools)
]
Interval = Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between two looks.")]
WaitSeconds = Annotated[float, typer.Option(min=1, max=3600, help="Seconds to wait for its end.")]


@dataclass(slots=True)
class Session:
    """The options before the command, and the printer."""

    url: str = ""
    token: str = ""
    user: str = ""
    printer: Printer = field(default_factory=lambda: Printer(format=Format.TABLE))

    def begin(self, output: Format) -> "tuple[Service, Printer]":
        """The service and the printer of a command. Raises Failure."""
        from osmo_topology_cli.service import Service  # noqa: PLC0415 -- help and version need no HTTP

        self.printer = Printer(format=output)
        login = find_login(url=self.url, token=self.token, user=self.user, environment=os.environ)
        if login.provider:
            login = _renewed(login, login.provider)
        return Service(login, notify=self.printer.note), self.printer


def _renewed(login: Login, provider: ProviderLogin) -> Login:
    """The login with a new token of its provider, which is stored: the old refresh token may be used up."""
    from osmo_topology_cli.identity import renewed  # noqa: PLC0415 -- HTTP

    tokens = renewed(provider)
    content = stored_token(
        url=login.url,
        id_token=tokens.id_token,
        refresh_token=tokens.refresh_token,
        refresh_url=provider.token_endpoint,
        client_id=provider.client_id,
    )
    store(content, path=login_file(os.environ))
    return Login(url=login.url, bearer=tokens.id_token)


def begin(context: typer.Context, output: Format = Format.TABLE) -> "tuple[Service, Printer]":
    session: Session = context.obj
    return session.begin(output)


def end(code: Exit) -> None:
    """End the command with a code; nothing for a command that is done."""
    if code is not Exit.DONE:
        raise typer.Exit(int(code))
