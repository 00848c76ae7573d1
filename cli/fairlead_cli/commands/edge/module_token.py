"""`fairlead edge module-token`: creates a token for a module of this node, and stores its hash."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead_cli.clients import edge_client

if TYPE_CHECKING:
    from fairlead_edge.io.identity.identity_files import Owner
    from fairlead_edge.module_tokens import ModuleTokens

TOKEN_BYTES = 32
PREFIX = "flm1-"
"""Lets secret scanners find a token that was published by mistake."""
FILE_MODE = 0o600


def register(root: click.Group) -> None:
    """Add `module-token` to `edge`."""
    edge = root.commands["edge"]
    assert isinstance(edge, click.Group)
    edge.add_command(module_token)


@click.command("module-token", short_help="Create a token for a module of this node.")
@click.argument("module")
@click.option(
    "--tokens-file",
    type=click.Path(dir_okay=False, readable=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The agent's [modules] tokens_file; created (0600) if it does not exist.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, readable=False, path_type=Path),
    metavar="FILE",
    help="Write the token into FILE, readable by its owner alone (0600), instead of printing it.",
)
@click.option(
    "--keep-old", is_flag=True, help="Keep the module's old token valid until the next call without this option."
)
@click.option("--force", is_flag=True, help="Let --out replace a file that does not hold the module's token.")
def module_token(module: str, tokens_file: Path, out: Path | None, keep_old: bool, force: bool) -> None:
    """Create a token for MODULE, store its hash in FILE, and print the token once.

    The agent reads the file within a second, without a restart. The module's old token becomes invalid, unless
    --keep-old is given. When run by root, FILE keeps its owner; a new file belongs to the owner of the agent's
    data_dir. Upper and lower case are the same in names: a token for Filter replaces that of filter.

    \b
    sudo fairlead edge module-token filter --tokens-file /etc/fairlead/modules --out /run/secrets/filter
    """
    from fairlead_edge import ascii_case, module_tokens
    from fairlead_edge.module_tokens import BadTokens

    token = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    try:
        line = module_tokens.line(module, token)
        text = tokens_file.read_text() if tokens_file.exists() else ""
        before = module_tokens.parse(text)  # as it is, so that an error names the line of the file
        lines = text.splitlines()
        olds = [name for each in lines if ascii_case.same(name := _name(each), module)]
        if keep_old and olds and olds[0] != module:
            raise BadTokens(f"--keep-old: {module} and {olds[0]} differ only in case; name the module {olds[0]}")
        kept = [each for each in lines if keep_old or not ascii_case.same(_name(each), module)]
        content = "\n".join([*kept, line]) + "\n"
        module_tokens.parse(content)
    except UnicodeDecodeError:
        raise click.ClickException(f"{tokens_file}: is not UTF-8; correct it, or name another file") from None
    except OSError as error:
        raise _failed(tokens_file, error) from None
    except BadTokens as error:
        raise click.ClickException(f"{tokens_file}: {error}") from None
    if out is not None:  # written first: if it fails, the old token stays valid
        if not force:
            _refuse_foreign(out, module, before)
        if out.resolve() == tokens_file.resolve():
            raise click.UsageError("--out and --tokens-file name the same file; give two")
        _replace(out, f"{token}\n", None)
    _replace(tokens_file, content, _owner(tokens_file))
    if olds and not keep_old:
        click.echo(f"replaces the token of {olds[0]}; the old one is no longer valid", err=True)
    if out is None:
        click.echo(token)
        click.echo(f"{tokens_file}: module {module} has a token; it is shown only once", err=True)
    else:
        click.echo(f"{tokens_file}: module {module} has a token; it is in {out}", err=True)


def _refuse_foreign(out: Path, module: str, tokens: ModuleTokens) -> None:
    """Refuse to overwrite anything but a token of this module."""
    from fairlead_edge import ascii_case, module_tokens

    try:
        if not out.exists():
            return
        with out.open("rb") as file:
            content = file.read(module_tokens.TOKEN_CHARS_MAX + 1) if out.is_file() else b""
    except OSError as error:
        raise _failed(out, error) from None
    if not ascii_case.same(tokens.module_of(content.decode(errors="replace").strip()), module):
        raise click.ClickException(
            f"--out {out} exists and does not hold a current token of module {module}; it was not changed. Give another"
            " file, or --force to overwrite this one"
        )


def _failed(path: Path, error: OSError) -> click.ClickException:
    if isinstance(error, PermissionError):
        remedy = "; run it with sudo"
    elif isinstance(error, FileNotFoundError):
        remedy = f": create the folder {path.parent} first"
    else:
        remedy = ""
    return click.ClickException(f"{path}: {error.strerror or error}{remedy}")


def _name(line: str) -> str:
    words = line.partition("#")[0].split()
    return words[0] if words else ""


def _owner(path: Path) -> Owner | None:
    """The owner of a file written by root: its present owner, else the agent's user.  None: the current user."""
    from fairlead_edge.io.identity import device
    from fairlead_wire.io.settings import SettingsError

    if path.exists():
        return device.owner_of(path, "")
    try:
        return device.owner_of(Path(edge_client.device_settings().data_dir), "")
    except SettingsError:
        return None


def _replace(path: Path, content: str, owner: Owner | None) -> None:
    """Replace the file atomically; it is never readable by others."""
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "w") as file:
            if owner is not None:
                os.fchown(file.fileno(), owner.user, owner.group)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise _failed(path, error) from None
