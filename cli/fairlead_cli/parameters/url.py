"""The address of a program, as an option takes it."""

from __future__ import annotations

from typing import Any

import click

from fairlead_wire.validation import addresses


class Url(click.ParamType[str]):
    """With one of ``schemes``, without its last slash; refused ones are shown without what may be a password."""

    name = "URL"

    def __init__(self, *schemes: str) -> None:
        self._schemes = schemes or addresses.HTTP

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return addresses.url(str(value), self._schemes)
        except ValueError as error:
            self.fail(str(error), param, ctx)
