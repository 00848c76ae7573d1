"""`fairlead edge join`: this device gets its identity from a hub, by a token."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

import click

from fairlead_cli.text import printable
from fairlead_wire.validation import mistakes

if TYPE_CHECKING:
    from fairlead_wire.identity.join_token import JoinToken


F = TypeVar("F", bound=Callable[..., Any])
CONFIG = Path("/etc/fairlead/edge.toml")
TOKEN_PREFIX = "fl1-"
TOKEN_FILE_BYTES_MAX = 4096
LABEL_CHARS = 17


def config_option(text: str) -> Callable[[F], F]:
    """--config, with what is done to the file."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        default=CONFIG,
        show_default=True,
        metavar="FILE",
        help=text,
    )


def say(what: str, text: str) -> None:
    """A step, as it is taken."""
    click.echo(f"{what:<{LABEL_CHARS}} {printable.one_line(text)}")


def hub_url(text: str) -> str:
    """Checked for sense before anything is read.  Raises ``click.UsageError``."""
    text = text.strip()
    if text.startswith(TOKEN_PREFIX):
        raise click.UsageError("that is a token: first the hub's URL, and the token in a file (--token-file FILE or -)")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise click.UsageError(
            f"{mistakes.shown(text)} is not a URL; one is like wss://hub.example.com:10000"
        ) from None
    if parts.scheme == "ws":
        raise click.UsageError("ws:// is not encrypted: join with wss://, on the address where the hub has TLS")
    if parts.scheme != "wss" or not parts.hostname or parts.username is not None or len(text.split()) > 1:
        raise click.UsageError(
            f"{mistakes.shown(text)} is not the URL of a hub; one is like wss://hub.example.com:10000"
        )
    if not port:
        raise click.UsageError(f"name the port, for example wss://{parts.hostname}:10000")
    return text


def token_of(file: BinaryIO) -> JoinToken:
    """Raises ``click.UsageError``; no text of it repeats the token."""
    from fairlead_wire.identity import join_token

    try:
        if getattr(file, "isatty", lambda: False)():
            click.echo("paste the token, then Enter:", err=True)
            content = file.readline(TOKEN_FILE_BYTES_MAX)
        else:
            content = file.read(TOKEN_FILE_BYTES_MAX)
        return join_token.find(content.decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(
            "--token-file: cannot be read as text; write the token into it, and nothing else"
        ) from None
    except ValueError as error:
        raise click.UsageError(f"--token-file: what it holds {error}") from None


def register(root: click.Group) -> None:
    """Add `join` to `edge`."""
    edge = root.commands["edge"]
    assert isinstance(edge, click.Group)
    edge.add_command(join)


@click.command("join", short_help="Give this device its identity, with a token.")
@click.argument("hub", metavar="wss://HUB:PORT")
@click.option(
    "--token-file",
    type=click.File("rb"),
    required=True,
    metavar="FILE|-",
    help="File with the token, or - for standard input. It is not an argument, because all users can see arguments.",
)
@click.option("--node", default="", metavar="NAME", help="Default: the settings file's, else the token's.")
@config_option("The agent's settings; made, or changed in the few keys concerned.")
@click.option("--user", default="", metavar="NAME", help="Who runs the agent; default: the owner of its data_dir.")
@click.option("--force", is_flag=True, help="Even if this device has an identity; it is kept until the new one works.")
def join(hub: str, token_file: BinaryIO, node: str, config: Path, user: str, force: bool) -> None:
    """Make a key, have it certified by the hub, and write the agent's settings.

    The key never leaves this device. The token goes only to a hub whose authority it names. The same command again,
    after a broken connection or a crash, goes on where it was.

    \b
    echo fl1-… | sudo fairlead edge join wss://hub.example.com:10000 --token-file -
    fairlead edge join wss://hub.example.com:10000 --token-file token --node shop-17 --config edge.toml

    A token comes from `fairlead token create`. Exit codes: 0 the hub has issued; 1 it refused (its reason is shown, as
    token_used), or it was not reached; 2 wrong use.
    """
    url = hub_url(hub)
    token = token_of(token_file)
    from fairlead_edge.io.identity import join as joins
    from fairlead_wire.errors import FairleadError
    from fairlead_wire.identity import node_names

    if node and not node_names.is_node_name(node):
        raise click.UsageError(f"--node: {node!r} cannot be the name of a Node: lower-case letters, digits, - and .")
    wanted = joins.JoinOptions(url=url, token=token, node=node, config=config, user=user, force=force)
    say("hub", url)
    try:
        done = asyncio.run(joins.join(wanted, os.environ, say))
    except FairleadError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        click.echo("interrupted; the same command goes on where it was", err=True)
        sys.exit(1)
    end = f"joined as {done.node}, until {done.expires}; start the agent: {_next(done.config, done.owner)}"
    click.echo(printable.one_line(end))


def _next(config: Path, owner: str) -> str:
    if config == CONFIG:
        return "systemctl enable --now fairlead-edge"
    return f"fairlead edge run --config {config}{f' (as user {owner})' if owner else ''}"
