"""Groups with a default command: `fairlead routes -A` is `fairlead routes list -A`."""

from __future__ import annotations

from typing import Any

import click


class DefaultCommand(click.Group):
    """``default`` runs if no command is given; the help of the group names it."""

    def __init__(self, *arguments: Any, default: str = "list", **rest: Any) -> None:
        super().__init__(*arguments, **{**rest, "no_args_is_help": False})
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Options of the group come first; the first word, or option that it does not know, ends them.
        parser = self.make_parser(ctx)
        parser.ignore_unknown_options = True
        try:
            _, rest, _ = parser.parse_args(list(args))
        except click.UsageError:
            return super().parse_args(ctx, args)  # which says it again
        # While a shell completes, an empty rest may become a command's name.
        if rest[0].startswith("-") if rest else not ctx.resilient_parsing:
            args = [*args[: len(args) - len(rest)], self.default, *rest]
        return super().parse_args(ctx, args)
