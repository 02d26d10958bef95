"""What every command begins with: the options before it, the service, and how results are shown."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from osmo_topology_cli import completion
from osmo_topology_cli.login import (
    TOKEN_PATH,
    Login,
    ProviderLogin,
    find_login,
    login_file,
    store,
    stored_token,
)
from osmo_topology_cli.outcomes import Exit
from osmo_topology_cli.show import Changes, Format, Printer
from osmo_topology_client.calls import Call

if TYPE_CHECKING:
    from osmo_topology_client.client import Client

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

    def begin(self, output: Format) -> "tuple[Client, Printer]":
        """The service and the printer of a command. Raises Failure."""
        self.printer = Printer(format=output)
        login = find_login(url=self.url, token=self.token, user=self.user, environment=os.environ)
        if login.provider:
            login = _renewed(login, login.provider)
        return client_of(login, notify=self.printer.note), self.printer


def client_of(
    login: Login, *, notify: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
) -> "Client":
    """The service as this login; a personal token of OSMO's client is exchanged first. Raises Failure."""
    from osmo_topology_client.client import Client  # noqa: PLC0415 -- help and version need no HTTP

    bearer = login.bearer
    if login.renewing:
        stranger = Client(login.url, notify=notify, sleep=sleep)
        exchange = Call(verb="POST", path=TOKEN_PATH, body={"token": login.renewing})
        bearer = str(stranger.json(exchange)["token"])
    return Client(login.url, token=bearer, user=login.user, notify=notify, sleep=sleep)


def check_pools(service: "Client", names: Sequence[str] | None) -> None:
    """Raise Refused for a pool that the caller has not, where a list of what it holds came back empty."""
    for name in names or ():
        service.get("pool", name, "topology")


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


def begin(context: typer.Context, output: Format = Format.TABLE) -> "tuple[Client, Printer]":
    session: Session = context.obj
    return session.begin(output)


def end(code: Exit) -> None:
    """End the command with a code; nothing for a command that is done."""
    if code is not Exit.DONE:
        raise typer.Exit(int(code))
