"""`fairlead completion`: prints a completion script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


def register(root: click.Group) -> None:
    """Add `completion` to the root command."""
    root.add_command(completion)


@click.command(short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options, and the names of nodes, objects and topics.

    \b
    bash:  source <(fairlead completion bash)                                   in ~/.bashrc
    zsh:   source <(fairlead completion zsh)                                    in ~/.zshrc
    fish:  fairlead completion fish > ~/.config/fish/completions/fairlead.fish

    `kubectl fairlead` needs only kubectl's own completion: kubectl 1.26 and later runs kubectl_complete-fairlead, which
    is installed with this program.

    Names are requested from the cluster or messaging service that the command line names, for at most one second.
    """
    made = get_completion_class(shell)
    assert made is not None
    ready = made(context.find_root().command, {}, "fairlead", "_FAIRLEAD_COMPLETE")
    click.echo(ready.source_template % ready.source_vars())
