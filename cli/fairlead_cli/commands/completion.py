"""`fairlead completion`: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


def register(root: click.Group) -> None:
    """Add `completion` to the root command."""
    root.add_command(completion)


@click.command(short_help="Print what a shell needs to complete commands and names.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that teaches a shell to complete commands, options, and names of nodes, objects and topics.

    \b
    bash:  source <(fairlead completion bash)                                   in ~/.bashrc
    zsh:   source <(fairlead completion zsh)                                    in ~/.zshrc
    fish:  fairlead completion fish > ~/.config/fish/completions/fairlead.fish

    For `kubectl fairlead` nothing is to be sourced but kubectl's own completion: kubectl 1.26 and later runs the
    program kubectl_complete-fairlead, which is installed beside this one.

    Names are asked from the cluster and the messaging service that the line names, for a second at most.
    """
    made = get_completion_class(shell)
    assert made is not None
    ready = made(context.find_root().command, {}, "fairlead", "_FAIRLEAD_COMPLETE")
    click.echo(ready.source_template % ready.source_vars())
