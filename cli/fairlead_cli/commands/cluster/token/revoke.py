"""`fairlead token revoke`: tokens that admit none from now on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from fairlead_cli.cluster import join_tokens, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_wire.identity import join_token

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube


@click.command("revoke", short_help="Delete tokens: they admit none from now on.")
@click.argument("tokens", nargs=-1, required=True, metavar="ID...", shell_complete=names.join_tokens)
@targets.options()
def revoke(tokens: tuple[str, ...], target: Target) -> None:
    """Delete tokens by id (the first ten letters behind fl1-), or by their whole text.

    Nodes that joined by one keep their identity: `fairlead node revoke` ends that. Exit code 1 when there is none such.
    """
    ids = [_id(text) for text in tokens]

    async def act(kube: Kube) -> list[bool]:
        return [await join_tokens.delete(kube, id) for id in ids]

    found = target.ask(act)
    for id, was_there in zip(ids, found, strict=True):
        click.echo(
            f"jointoken/{id} {'revoked' if was_there else 'is none: it was revoked before, or belongs elsewhere'}"
        )
    if not all(found):
        sys.exit(1)


def _id(text: str) -> str:
    id = text.strip().removeprefix(f"{join_token.PREFIX}-").partition("-")[0]
    if not join_token.is_id(id):
        raise click.UsageError("an id of a token is ten letters, as `fairlead token list` shows")
    return id
