"""Prints rows and documents in the requested format."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast, get_args

import click

from fairlead_cli.output import jsonpath, tables
from fairlead_cli.output.tables import TableView
from fairlead_cli.text import printable, yaml_text

JSONPATH = "jsonpath="
ALL = ("text", "wide", "name", "json", "yaml")
DOCUMENTS = ("text", "json", "yaml")
"""Formats of commands that print one document and no table."""
POLL_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Form:
    """One of ``ALL``, or a template (then the name is ``jsonpath``)."""

    name: str
    template: jsonpath.JsonPathTemplate | None = None

    @property
    def is_for_people(self) -> bool:
        return self.name in ("text", "wide")


TEXT = Form("text")


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Printer:
    """Standard output gets only the result; ``say`` writes to standard error."""

    form: Form = TEXT
    headers: bool = True
    color: tables.Mode = "auto"

    @property
    def is_for_people(self) -> bool:
        """A table or sentences, not a document."""
        return self.form.is_for_people

    @property
    def is_wide(self) -> bool:
        return self.form.name == "wide"

    @property
    def is_colored(self) -> bool:
        return tables.wants_color(self.color, sys.stdout.isatty(), os.environ)

    def items(self, view: TableView, rows: Sequence[Any], *, none: str = "") -> None:
        """All rows: a table, or a document with `items`. ``none`` is printed if there are no rows."""
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
        """Any value, as JSON, YAML, or the result of a JSONPath template."""
        if self.form.template is not None:
            click.echo(self.form.template.applied(value), nl=False)
        elif self.form.name == "yaml":
            click.echo(yaml_text.text_of(value), nl=False)
        else:
            click.echo(json.dumps(value, indent=2))

    def follow(self, view: TableView, pages: Iterable[Sequence[Any]]) -> None:
        """Print each page of changed rows as it arrives, until interrupted or until the reader closes the output.

        A table has one head; documents: one JSON object a line, or YAML documents. An empty page prints nothing: it
        is a chance to see that the reader has gone.
        """
        widths: list[int] = []
        try:
            for rows in pages:
                if not has_reader():
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
        """Print hints and notes on standard error."""
        click.echo(printable.lines(sentence), err=True)

    def paint(self, text: str, style: tables.Style) -> str:
        """Print one line, coloured if wanted, with control characters escaped."""
        return tables.paint(printable.one_line(text), style if self.is_colored else "")

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


def options(names: Sequence[str] = ALL) -> Callable[[F], F]:
    """Adds -o, --no-headers and --color; the command receives ``shown``, a Printer."""

    def decorate(command: F) -> F:
        @wraps(command)
        def with_printer(*arguments: Any, output: Form, no_headers: bool, color: tables.Mode, **rest: Any) -> Any:
            return command(*arguments, shown=Printer(output, not no_headers, color), **rest)

        wrapped: Any = with_printer
        for option in (
            click.option(
                "--color",
                type=click.Choice(get_args(tables.Mode)),
                default="auto",
                show_default=True,
                help="auto: on a terminal, unless NO_COLOR is set or TERM is dumb.",
            ),
            click.option("--no-headers", is_flag=True, help="Omit the header line of tables."),
            click.option(
                "-o",
                "--output",
                type=FormType(names),
                default="text",
                show_default=True,
                help="Output format.",
            ),
        ):
            wrapped = option(wrapped)
        return cast(F, wrapped)

    return decorate


Row = TypeVar("Row")

watch_option = click.option("-w", "--watch", is_flag=True, help="Then print a line for each change, until interrupted.")


# ── forms of output ───────────────────────────────────────────────────────────────────────────────────────────────────


class FormType(click.ParamType[Form]):
    """The names of formats, and `jsonpath=TEMPLATE`."""

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


# ── following changes ─────────────────────────────────────────────────────────────────────────────────────────────────


def changed_rows(
    ask: Callable[[], Sequence[Row]],
    name: Callable[[Row], object],
    *,
    said: Callable[[Row], Any] = lambda row: row,
    pause: Callable[[float], None] = time.sleep,
    complain: Callable[[str], None] = lambda text: click.echo(f"{text}; asked again", err=True),
) -> Iterator[list[Row]]:
    """All rows first, then only those whose ``said`` has changed; endless.

    ``name`` tells rows apart. What cannot be asked is waited for, after it could be asked once.
    """
    before: dict[object, Any] = {}
    known = False
    troubled = False
    while True:
        try:
            rows = ask()
        except click.ClickException as trouble:
            if not known:
                raise
            if not troubled:
                complain(trouble.format_message())
            troubled, rows = True, ()
        else:
            now = {name(row): said(row) for row in rows}
            fresh = [row for row in rows if name(row) not in before or before[name(row)] != now[name(row)]]
            before, known, troubled, rows = now, True, False, fresh
        yield list(rows)
        pause(POLL_SECONDS)


# ── a reader that goes away ───────────────────────────────────────────────────────────────────────────────────────────


def has_reader() -> bool:
    """False if standard output is a pipe without a reader, as in `… --watch | head`; only polling shows it."""
    watching = select.poll()
    try:
        watching.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # no file, or none that can be watched
        return True
    return not any(events & (select.POLLERR | select.POLLNVAL) for _, events in watching.poll(0))
