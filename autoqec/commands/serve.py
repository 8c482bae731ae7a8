"""`autoqec serve`: runs in a browser."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import secrets
import socket
from pathlib import Path

import click

from autoqec.commands.options import AnyPath, Count
from autoqec.errors import InputError

TOKEN = "AUTOQEC_SERVE_TOKEN"
_LEAST_TOKEN = 16
_NAME = re.compile(r"(?=.{1,253}$)[a-z][a-z0-9-]*(\.[a-z0-9-]+)*", re.IGNORECASE | re.ASCII)


@click.command()
@click.argument("folder", type=AnyPath(file_okay=False), default="runs")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Any but loopback needs a token.",
)
@click.option(
    "--port", type=Count(min=0, max=65535), default=8765, show_default=True, help="0: one that is free."
)
@click.option("--open", "is_opened", is_flag=True, help="Show it in the browser.")
def command(folder: Path, host: str, port: int, is_opened: bool) -> None:
    """Show the runs in FOLDER (default: runs) in a browser: a list, a page for each run that follows it while it goes on, comparisons.

    It reads and never writes, shows nothing outside FOLDER, and listens on this machine only. With another --host it asks for a token:
    that in AUTOQEC_SERVE_TOKEN, or one that it makes up and prints. End it by Ctrl-C.
    """
    import uvicorn

    from autoqec.report.server.app import make_app

    if not folder.is_dir():
        raise InputError("is not a folder", where=str(folder), hint="give the folder that holds runs")
    listener = _listener(host, port)
    address = ipaddress.ip_address(listener.getsockname()[0].partition("%")[0])
    token = None if address.is_loopback else _token()
    names = None if address.is_unspecified else frozenset({"localhost", "127.0.0.1", "::1", host.lower()})
    name = "127.0.0.1" if address.is_unspecified else host
    shown = f"[{name}]" if ":" in name else name
    url = f"http://{shown}:{listener.getsockname()[1]}/" + (f"?token={token}" if token else "")
    app = make_app(folder, hosts=names, token=token)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=100,
        timeout_graceful_shutdown=1,
    )
    click.echo(f"Serving {folder} at {url}")
    if is_opened:
        click.launch(url)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _listener(host: str, port: int) -> socket.socket:
    if not _is_address(host) and _NAME.fullmatch(host) is None:
        raise InputError(
            f"{host[:80]!r} is neither an address nor a name",
            where="--host",
            hint="give one such as 127.0.0.1 or localhost",
        )
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(found[4][:2], family=found[0])
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"cannot listen on {host[:80]!r}, port {port}: {getattr(error, 'strerror', None) or error}",
            where="--host",
            hint="give another --port, or 0 for a free one",
        ) from None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _token() -> str:
    given = os.environ.get(TOKEN)
    if given is None:
        return secrets.token_urlsafe(24)
    if (
        len(given) < _LEAST_TOKEN
        or not given.isascii()
        or not given.replace("-", "").replace("_", "").isalnum()
    ):
        raise InputError(
            f"is not {_LEAST_TOKEN} letters, digits, - and _ or more",
            where=TOKEN,
            hint="leave it out, and a token is made up",
        )
    return given
