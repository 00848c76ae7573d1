"""`fairlead topics list`, `top topics` and `ingest jobs` on a real messaging service."""

from __future__ import annotations

import json

from click.testing import CliRunner
from tests.support.messaging import Topics

from fairlead_cli.main import build


def run(messaging: Topics, *words: str) -> str:
    done = CliRunner().invoke(build(), [*words[:2], "--url", messaging.url, *words[2:]])
    assert done.exit_code == 0, done.output
    return done.stdout


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
