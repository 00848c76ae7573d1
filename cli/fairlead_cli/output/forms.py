"""What `-o` takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from fairlead_cli.output import jsonpath

JSONPATH = "jsonpath="
ALL = ("text", "wide", "name", "json", "yaml")
DOCUMENTS = ("text", "json", "yaml")
"""Of commands whose answer is one document and no table."""


@dataclass(frozen=True, slots=True)
class Form:
    """One of ``ALL``, or a template (then the name is ``jsonpath``)."""

    name: str
    template: jsonpath.JsonPathTemplate | None = None

    @property
    def is_for_people(self) -> bool:
        return self.name in ("text", "wide")


TEXT = Form("text")


class FormType(click.ParamType[Form]):
    """Names of forms, and `jsonpath=TEMPLATE`."""

    name = "form"

    def __init__(self, names: Sequence[str] = ALL) -> None:
        self._names = tuple(names)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join((*self._names, f'{JSONPATH}TEMPLATE'))}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Form:
        if isinstance(value, Form):
            return value
        if value in self._names:
            return Form(value)
        if value.startswith(JSONPATH):
            try:
                return Form("jsonpath", jsonpath.parse(value.removeprefix(JSONPATH)))
            except jsonpath.TemplateMistake as mistake:
                self.fail(f"{JSONPATH}…: {mistake}; for example {JSONPATH}'{{.items[*].metadata.name}}'", param, ctx)
        return self.fail(f"{value!r} is none of {', '.join((*self._names, f'{JSONPATH}TEMPLATE'))}", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(each) for each in (*self._names, JSONPATH) if each.startswith(incomplete)]
