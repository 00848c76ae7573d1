"""`fairlead edge module-token`: a token for a module of this node; only its hash is kept."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click

TOKEN_BYTES = 32
PREFIX = "flm1-"
"""By it a token is found that was published by mistake."""
FILE_MODE = 0o600


def register(root: click.Group) -> None:
    """Add `module-token` to `edge`."""
    edge = root.commands["edge"]
    assert isinstance(edge, click.Group)
    edge.add_command(module_token)


@click.command("module-token", short_help="Give a module of this node a token of its own.")
@click.argument("module")
@click.option(
    "--tokens-file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The agent's [modules] tokens_file; made (0600) when it is not there.",
)
@click.option("--keep-old", is_flag=True, help="The module's old token stays good, until the next call without this.")
def module_token(module: str, tokens_file: Path, keep_old: bool) -> None:
    """Make a token for MODULE, write its hash into FILE and print the token, once.

    The agent reads the file within a second; nothing is restarted. A token it had before ends, unless --keep-old.

    \b
    fairlead edge module-token filter --tokens-file /etc/fairlead/modules > /run/secrets/filter
    """
    from fairlead_edge import ascii_case, module_tokens
    from fairlead_edge.module_tokens import BadTokens

    token = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    try:
        line = module_tokens.line(module, token)
        text = tokens_file.read_text() if tokens_file.exists() else ""
        kept = [each for each in text.splitlines() if keep_old or not ascii_case.same(_name(each), module)]
        content = "\n".join([*kept, line]) + "\n"
        module_tokens.parse(content)
    except (BadTokens, OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{tokens_file}: {error}") from None
    _replace(tokens_file, content)
    click.echo(token)
    click.echo(f"{tokens_file}: module {module} has a token; it is shown only now", err=True)


def _name(line: str) -> str:
    words = line.partition("#")[0].split()
    return words[0] if words else ""


def _replace(path: Path, content: str) -> None:
    """Whole or not at all, and never readable by others before its mode is set."""
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
