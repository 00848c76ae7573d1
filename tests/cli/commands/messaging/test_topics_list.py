"""`fairlead topics list`, `top topics` and `ingest jobs` on a real messaging service."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tests.support.topics.messaging import Topics

from fairlead_cli import completing, kubectl_completion
from fairlead_cli.main import build


def test_names_and_facts(messaging: Topics) -> None:
    """Names alone for programs, as ever; wide says what is stored. `list` may be left out."""
    for words in (["create", "orders"], ["publish", "orders", "a", "bb"]):
        assert CliRunner().invoke(build(), ["topics", "--url", messaging.url, *words]).exit_code == 0
    url = ["topics", "--url", messaging.url]
    assert CliRunner().invoke(build(), url).stdout == "orders\n"
    assert json.loads(CliRunner().invoke(build(), [*url, "-o", "json"]).stdout) == ["orders"]
    assert CliRunner().invoke(build(), [*url, "-A", "-o", "yaml"]).stdout == "- default/orders\n"
    head, row = CliRunner().invoke(build(), [*url, "-o", "wide"]).stdout.splitlines()
    assert head.split()[:3] == ["NAMESPACE", "TOPIC", "MESSAGES"] and row.split()[:3] == ["default", "orders", "2"]
    names = CliRunner().invoke(build(), ["tail", "orders", "--url", messaging.url]).stdout
    assert [line.split()[-1] for line in names.splitlines()] == ["a", "bb"]


def test_names_are_completed(messaging: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """By kubectl and by shells: topics of `default`, or of the namespace before the slash."""
    monkeypatch.setenv(completing.VARIABLE, "100")
    assert CliRunner().invoke(build(), ["topics", "--url", messaging.url, "create", "shop/orders"]).exit_code == 0
    assert kubectl_completion.answer(["tail", "--url", messaging.url, "sho"]) == ["shop/", ":6"]
    assert kubectl_completion.answer(["topics", "--url", messaging.url, "tail", "shop/"]) == ["shop/orders", ":4"]
