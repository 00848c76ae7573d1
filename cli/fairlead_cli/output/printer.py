"""Prints rows and documents in the form that was asked for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast, get_args

import click

from fairlead_cli.output import colors, forms, reader, tables
from fairlead_cli.output.tables import TableView
from fairlead_cli.text import printable, yaml_text

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Printer:
    """Standard output gets what was asked for and nothing else; ``say`` writes beside it."""

    form: forms.Form = forms.TEXT
    headers: bool = True
    color: colors.Mode = "auto"

    @property
    def is_for_people(self) -> bool:
        """A table or sentences, not a document."""
        return self.form.is_for_people

    @property
    def is_wide(self) -> bool:
        return self.form.name == "wide"

    @property
    def is_colored(self) -> bool:
        return colors.is_wanted(self.color, sys.stdout.isatty(), os.environ)

    def items(self, view: TableView, rows: Sequence[Any], *, none: str = "") -> None:
        """All rows: a table, or a document with `items`. ``none`` is said where there are no rows."""
        if not self.is_for_people and self.form.name != "name":
            self.document({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(rows)})
        elif rows:
            self._lines(view, rows, [])
        if not rows and none and self.form.name != "jsonpath":
            self.say(none)

    def one(self, view: TableView, row: Any) -> None:
        """A table with one row, or the row as a document."""
        if self.is_for_people or self.form.name == "name":
            self._lines(view, [row], [])
        else:
            self.document(row)

    def document(self, value: Any) -> None:
        """Any value, as JSON, YAML, or what a JSONPath template takes of it."""
        if self.form.template is not None:
            click.echo(self.form.template.applied(value), nl=False)
        elif self.form.name == "yaml":
            click.echo(yaml_text.text_of(value), nl=False)
        else:
            click.echo(json.dumps(value, indent=2))

    def follow(self, view: TableView, pages: Iterable[Sequence[Any]]) -> None:
        """Each page of changed rows as it comes, until interrupted or until the output is read no more.

        A table has one head; documents: one JSON object a line, or YAML documents. An empty page prints nothing: it
        is a chance to see that the reader has gone.
        """
        widths: list[int] = []
        try:
            for rows in pages:
                if not reader.is_there():
                    return
                if not rows:
                    continue
                if self.is_for_people or self.form.name == "name":
                    widths = self._lines(view, rows, widths, headers=not widths)
                else:
                    for row in rows:
                        self._streamed(row)
        except KeyboardInterrupt:
            sys.exit(0)

    def say(self, sentence: str) -> None:
        """Beside the output: hints, notes and what is not there."""
        click.echo(printable.lines(sentence), err=True)

    def paint(self, text: str, style: colors.Style) -> str:
        """One line in its colour, where colour is wanted; a text of others in it is not obeyed by the terminal."""
        return colors.paint(printable.one_line(text), style if self.is_colored else "")

    def _lines(self, view: TableView, rows: Sequence[Any], widths: list[int], *, headers: bool = True) -> list[int]:
        if self.form.name == "name":
            lines = [view.full_name(row) for row in rows]
        else:
            columns = view.shown(self.is_wide)
            shows_head = headers and self.headers
            lines, widths = tables.lines(columns, rows, headers=shows_head, colored=self.is_colored, widths=widths)
        for line in lines:
            click.echo(line, color=self.is_colored)
        return widths

    def _streamed(self, row: Any) -> None:
        if self.form.name == "json":
            click.echo(json.dumps(row))
            return
        if self.form.name == "yaml":
            click.echo("---")
        self.document(row)


def options(names: Sequence[str] = forms.ALL) -> Callable[[F], F]:
    """Adds -o, --no-headers and --color; the command is given ``shown``, a Printer."""

    def decorate(command: F) -> F:
        @wraps(command)
        def with_printer(*arguments: Any, output: forms.Form, no_headers: bool, color: colors.Mode, **rest: Any) -> Any:
            return command(*arguments, shown=Printer(output, not no_headers, color), **rest)

        wrapped: Any = with_printer
        for option in (
            click.option(
                "--color",
                type=click.Choice(get_args(colors.Mode)),
                default="auto",
                show_default=True,
                help="auto: on a terminal, unless NO_COLOR is set or TERM is dumb.",
            ),
            click.option("--no-headers", is_flag=True, help="Tables without their first line."),
            click.option(
                "-o",
                "--output",
                type=forms.FormType(names),
                default="text",
                show_default=True,
                help="Form of the output.",
            ),
        ):
            wrapped = option(wrapped)
        return cast(F, wrapped)

    return decorate
