"""What `join` and `move` are both given: a hub, a token in a file, settings of the agent; and how they say a step."""

from __future__ import annotations

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
        raise click.UsageError(f"{mistakes.shown(text)} is no URL; one is like wss://hub.example.com:10000") from None
    if parts.scheme == "ws":
        raise click.UsageError("ws:// is not encrypted: join with wss://, on the address where the hub has TLS")
    if parts.scheme != "wss" or not parts.hostname or parts.username is not None or len(text.split()) > 1:
        raise click.UsageError(f"{mistakes.shown(text)} is no URL of a hub; one is like wss://hub.example.com:10000")
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
