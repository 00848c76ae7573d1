"""What -o takes and refuses."""

from __future__ import annotations

import click
import pytest

from fairlead_cli.output import printer


def test_names_and_templates() -> None:
    """Only those of the command; a template is read at once."""
    assert printer.FormType().convert("wide", None, None) == printer.Form("wide")
    form = printer.FormType().convert("jsonpath={.a}", None, None)
    assert form.template is not None and form.template.applied({"a": 1}) == "1"
    with pytest.raises(click.BadParameter, match="'wide' is none of text, json, yaml, jsonpath=TEMPLATE"):
        printer.FormType(printer.DOCUMENTS).convert("wide", None, None)
    with pytest.raises(click.BadParameter, match=r"not closed; for example jsonpath='\{\.items"):
        printer.FormType().convert("jsonpath={.a", None, None)


def test_names_are_completed() -> None:
    """In the shell."""
    option = click.Option(["-o"], type=printer.FormType())
    items = option.shell_complete(click.Context(click.Command("x")), "j")
    assert [item.value for item in items] == ["json", "jsonpath="]
