"""`fairlead token`: admit devices, a few or a thousand, and take tokens back."""

from __future__ import annotations

import click

from fairlead_cli.commands.cluster.token import create, listing, revoke


def register(root: click.Group) -> None:
    """Add `token` to the root command."""
    for command in (create.create, listing.listed, revoke.revoke):
        token.add_command(command)
    root.add_command(token)


@click.group("token", short_help="Admit devices: make, list and revoke join tokens.")
def token() -> None:
    """Tokens by which devices get their identity with `fairlead edge join`.

    A token is for one node, or for a pattern of names and so many of them. Its secret is shown once; the cluster keeps
    its hash, in a JoinToken. Who may create JoinTokens may admit nodes.
    """
