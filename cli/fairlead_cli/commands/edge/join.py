"""`fairlead edge join`: gets this device's identity from a hub, with a join token."""

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
    """Adds --config; ``text`` is its help."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False, readable=False, path_type=Path),
        default=CONFIG,
        show_default=True,
        metavar="FILE",
        help=text,
    )


def say(what: str, text: str) -> None:
    """Print a step."""
    click.echo(f"{what:<{LABEL_CHARS}} {printable.one_line(text)}")


def hub_url(text: str) -> str:
    """Check the hub's URL before anything else is read.  Raises ``click.UsageError``."""
    text = text.strip()
    if text.startswith(TOKEN_PREFIX):
        raise click.UsageError("that is a token: give the hub's URL here, and the token with --token-file FILE or -")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise click.UsageError(
            f"{mistakes.shown(text)} is not a URL; one is like wss://hub.example.com:10000"
        ) from None
    if parts.scheme == "ws":
        raise click.UsageError("ws:// is not encrypted: join with wss://, at the hub's TLS address")
    if parts.scheme != "wss" or not parts.hostname or parts.username is not None or len(text.split()) > 1:
        raise click.UsageError(
            f"{mistakes.shown(text)} is not the URL of a hub; one is like wss://hub.example.com:10000"
        )
    if not port:
        raise click.UsageError(f"name the port, for example wss://{parts.hostname}:10000")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise click.UsageError(f"a hub's URL has no path: wss://{parts.netloc}")
    return text


def token_of(file: BinaryIO) -> JoinToken:
    """Read the token.  Raises ``click.UsageError``, without quoting the token."""
    from fairlead_wire.identity import join_token

    try:
        if getattr(file, "isatty", lambda: False)():
            click.echo("paste the token, then Enter:", err=True)
            content = file.readline(TOKEN_FILE_BYTES_MAX)
        else:
            content = file.read(TOKEN_FILE_BYTES_MAX)
        return join_token.find(content.decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        raise click.UsageError("--token-file: cannot be read as text; it must contain only the token") from None
    except ValueError as error:
        raise click.UsageError(f"--token-file: its content {error}") from None


def register(root: click.Group) -> None:
    """Add `join` to `edge`."""
    edge = root.commands["edge"]
    assert isinstance(edge, click.Group)
    edge.add_command(join)


@click.command("join", short_help="Get this device's identity from a hub, with a token.")
@click.argument("hub", metavar="wss://HUB:PORT")
@click.option(
    "--token-file",
    type=click.File("rb"),
    required=True,
    metavar="FILE|-",
    help="File with the token, or - for standard input. It is not an argument, because all users can see arguments.",
)
@click.option(
    "--node", default="", metavar="NAME", help="Name of the node; default: from the settings, else the token."
)
@config_option("The agent's settings file; it is created in an existing folder, or updated.")
@click.option(
    "--user", default="", metavar="NAME", help="User that runs the agent; default: the owner of its data_dir."
)
@click.option("--force", is_flag=True, help="Join even if this device has an identity, which is kept until the end.")
def join(hub: str, token_file: BinaryIO, node: str, config: Path, user: str, force: bool) -> None:
    """Create a key, get a certificate for it from the hub, and write the agent's settings.

    The key never leaves this device. The token is sent only to a hub whose CA it names. After a broken connection or a
    crash, run the same command again.

    \b
    echo fl1-… | sudo fairlead edge join wss://hub.example.com:10000 --token-file -
    fairlead edge join wss://hub.example.com:10000 --token-file token --node shop-17 --config edge.toml

    `fairlead token create` creates a token. Exit codes: 0 joined; 1 the hub refused (with its reason, such as
    token_used) or could not be reached; 2 wrong use.
    """
    url = hub_url(hub)
    token = token_of(token_file)
    from fairlead_edge.io.identity import join as joins
    from fairlead_wire.errors import FairleadError
    from fairlead_wire.identity import node_names

    if node and not node_names.is_node_name(node):
        raise click.UsageError(f"--node: {node!r} cannot be the name of a Node: {node_names.ALLOWED}")
    wanted = joins.JoinOptions(url=url, token=token, node=node, config=config, user=user, force=force)
    say("hub", url)
    try:
        done = asyncio.run(joins.join(wanted, os.environ, say))
    except FairleadError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        click.echo("interrupted; run the same command again to continue", err=True)
        sys.exit(1)
    end = f"joined as {done.node}, until {done.expires}; start the agent: {_next(done.config, done.owner)}"
    click.echo(printable.one_line(end))


def _next(config: Path, owner: str) -> str:
    if config == CONFIG:
        return "systemctl enable --now fairlead-edge"
    return f"fairlead edge run --config {config}{f' (as user {owner})' if owner else ''}"
