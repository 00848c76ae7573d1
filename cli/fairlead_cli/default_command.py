"""Groups with a default command: `fairlead routes -A` is `fairlead routes list -A`, and so with a name after it."""

from __future__ import annotations

from typing import Any

import click

from fairlead_wire.validation import mistakes


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
        if self._is_for_default(ctx, rest[0]) if rest else not ctx.resilient_parsing:
            args = [*args[: len(args) - len(rest)], self.default, *rest]
        return super().parse_args(ctx, args)

    def _is_for_default(self, ctx: click.Context, word: str) -> bool:
        """An option, or a name where it takes one; not what is or resembles a command."""
        if word.startswith("-"):
            return True
        default = self.get_command(ctx, self.default)
        takes_name = default is not None and any(isinstance(each, click.Argument) for each in default.params)
        return takes_name and self.get_command(ctx, word) is None and not mistakes.nearest(word, self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and (meant := mistakes.nearest(args[0], self.commands)):
            ctx.fail(f"there is no command {args[0]}; did you mean {ctx.command_path} {meant}?")
        return super().resolve_command(ctx, args)
