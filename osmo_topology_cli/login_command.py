"""The commands ``login`` and ``logout``: what OSMO's client reads and writes, in its file."""

import os
import time
from typing import Annotated
from urllib.parse import urlsplit

import typer

from osmo_topology_cli.documents import text_of
from osmo_topology_cli.login import (
    TOKEN_PATH,
    Login,
    login_file,
    personal_token,
    service_address,
    store,
    stored_token,
    stored_user,
    user_name,
)
from osmo_topology_cli.session import Session, client_of
from osmo_topology_client.calls import Call
from osmo_topology_client.errors import Misused
from osmo_topology_client.sendable import check_header

app = typer.Typer()


@app.command()
def login(
    context: typer.Context,
    *,
    url: Annotated[
        str, typer.Argument(metavar="[URL]", help="Address of the service; else --url, OSMO_URL.")
    ] = "",
    token_file: Annotated[
        str, typer.Option("--token-file", help="A file with a personal token; - for standard input.")
    ] = "",
) -> None:
    """Log in with a personal token, or in a browser, and keep that for this command and OSMO's client."""
    from osmo_topology_cli.identity import LOOPBACK, device_login  # noqa: PLC0415 -- HTTP

    session: Session = context.obj
    address = service_address(url or session.url, environment=os.environ)
    path = login_file(os.environ)
    note = session.printer.note
    if urlsplit(address).scheme == "http" and urlsplit(address).hostname not in LOOPBACK:
        note(f"warning: {address} is not https://; the login can be read on its way.")
    if session.user:
        content = stored_user(url=address, user=user_name(session.user))
    elif token := _token(session, token_file):
        call = Call(verb="POST", path=TOKEN_PATH, body={"token": token})
        jwt = str(client_of(Login(url=address), notify=note).json(call)["token"])
        content = stored_token(
            url=address, id_token=jwt, refresh_token=token, refresh_url=address + TOKEN_PATH
        )
    else:
        addresses = client_of(Login(url=address), notify=note).get("auth", "login")
        tokens = device_login(addresses, url=address, notify=note, sleep=time.sleep)
        content = stored_token(
            url=address,
            id_token=tokens.id_token,
            refresh_token=tokens.refresh_token,
            refresh_url=str(addresses["token_endpoint"]),
            client_id=str(addresses["device_client_id"]),
        )
    store(content, path=path)
    session.printer.line(f"logged in to {address}{' as ' + content['name'] if content['name'] else ''}")


@app.command()
def logout(context: typer.Context) -> None:
    """Forget the login; a personal token stays valid until it expires or is revoked."""
    session: Session = context.obj
    path = login_file(os.environ)
    try:
        path.unlink()
    except FileNotFoundError:
        session.printer.line("there was no login")
    except OSError as error:
        raise Misused(f"The login in {path} cannot be removed: {error.strerror}.") from error
    else:
        session.printer.line("logged out")


def _token(session: Session, file: str) -> str:
    """The given personal token; empty where none is."""
    if file and session.token:
        raise Misused("--token and --token-file are two logins; give one of them.")
    if not file:
        return personal_token(session.token, environment=os.environ)
    token = text_of(file).strip()
    if not token or len(token.split()) > 1:
        raise Misused(f"{file} holds no token.")
    check_header(token, source=f"The token in {file}")
    return token
