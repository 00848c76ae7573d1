"""Asked again and again; only what changed is given."""

from __future__ import annotations

from itertools import islice

import click
import pytest

from fairlead_cli.output import printer


def test_only_changes() -> None:
    """All at first; then rows that are new or differ; what went is not shown."""
    answers = iter([[("a", 1), ("b", 1)], [("a", 1), ("b", 2)], [("b", 2)], [("a", 1), ("b", 2)]])
    pages = printer.changed_rows(lambda: next(answers), lambda row: row[0], pause=lambda _: None)
    assert list(islice(pages, 4)) == [[("a", 1), ("b", 1)], [("b", 2)], [], [("a", 1)]]


def test_an_outage_is_waited_for() -> None:
    """Said once; but what cannot be asked at first is an error."""
    said: list[str] = []
    answers = iter([[1], None, None, [2]])

    def ask() -> list[int]:
        answer = next(answers)
        if answer is None:
            raise click.ClickException("the hub does not answer")
        return answer

    pages = printer.changed_rows(ask, lambda row: row, pause=lambda _: None, complain=said.append)
    assert list(islice(pages, 4)) == [[1], [], [], [2]] and said == ["the hub does not answer"]

    def never() -> list[int]:
        raise click.ClickException("no")

    with pytest.raises(click.ClickException):
        next(printer.changed_rows(never, lambda row: row))
