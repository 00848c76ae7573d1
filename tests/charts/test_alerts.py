"""Alerts: what promtool says of them, one case firing and one not for each, and a runbook whose commands exist."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.support.kube.charts import CHARTS, RELEASE, helm_with
from tests.support.pages import blocks
from tests.support.tools import tool

from fairlead_cli.default_command import DefaultCommand
from fairlead_cli.main import build

ROOMS = ("hub", "edges", "messaging", "ingest")
ALERTS = CHARTS / "fairlead" / "files" / "alerts"
CASES = Path(__file__).parent / "alerts"
RUNBOOKS = CHARTS.parent / "docs" / "runbooks"
HEADINGS = ("What it means", "How to diagnose", "How to fix", "When to ignore it")
SEVERITIES = {"critical", "warning", "info"}
every_room = pytest.mark.parametrize("room", ROOMS)


@cache
def alerts() -> dict[str, dict[str, Any]]:
    """Every alert by its name."""
    found = {}
    for room in ROOMS:
        for group in yaml.safe_load((ALERTS / f"{room}.yaml").read_text())["groups"]:
            for rule in group["rules"]:
                assert rule["alert"] not in found, rule["alert"]
                found[rule["alert"]] = rule
    return found


def promtool(*arguments: str) -> None:
    done = subprocess.run(
        [tool("promtool"), *arguments], cwd=CASES, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.verify
@pytest.mark.process
@every_room
def test_promtool_takes_the_rules_and_they_fire_when_they_should(room: str) -> None:
    """Syntax, then the cases of tests/charts/alerts: firing with its labels and texts, and not firing."""
    promtool("check", "rules", "--lint=all", "--lint-fatal", str(ALERTS / f"{room}.yaml"))
    promtool("test", "rules", f"{room}.yaml")


@every_room
def test_each_alert_has_a_case_that_fires_and_one_that_does_not(room: str) -> None:
    """So that a new alert is not forgotten."""
    firing: dict[str, set[bool]] = {}
    for case in yaml.safe_load((CASES / f"{room}.yaml").read_text())["tests"]:
        for expected in case["alert_rule_test"]:
            firing.setdefault(expected["alertname"], set()).add(bool(expected["exp_alerts"]))
    named = {
        rule["alert"]
        for group in yaml.safe_load((ALERTS / f"{room}.yaml").read_text())["groups"]
        for rule in group["rules"]
    }
    assert firing == {name: {True, False} for name in named}


def test_each_alert_says_what_it_is_and_where_to_read_on() -> None:
    """A summary in one sentence, a description, a severity, and a page of its own; and no page without an alert."""
    for name, rule in alerts().items():
        notes = rule["annotations"]
        assert set(notes) == {"summary", "description", "runbook_url"}, name
        assert notes["summary"].endswith(".") and notes["description"].endswith((".", ").")), name
        assert notes["runbook_url"] == f"docs/runbooks/{name}.md"
        assert rule["labels"]["severity"] in SEVERITIES, name
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == {*alerts(), "index"}


@pytest.mark.parametrize("name", sorted(page.stem for page in RUNBOOKS.glob("Fairlead*.md")))
def test_a_runbook_says_four_things(name: str) -> None:
    """In this order, with commands to look by; the index leads to it."""
    text = (RUNBOOKS / f"{name}.md").read_text()
    assert text.startswith(f"# {name}\n")
    assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == HEADINGS
    assert alerts()[name]["labels"]["severity"] in text.splitlines()[2]
    assert f"]({name}.md)" in (RUNBOOKS / "index.md").read_text()


def fairlead_commands(page: Path) -> list[list[str]]:
    """Every call of `fairlead` in the blocks and in the prose of a page."""
    text = page.read_text()
    lines = [line for block in blocks(page, text) for line in block.text.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", text)
    return [_words(found[1]) for line in lines if (found := re.search(r"(?:^|-- )fairlead ([a-z].*)", line))]


def _words(text: str) -> list[str]:
    """Up to a pipe, a redirection or the next command."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|>;")
    lexer.whitespace_split = True
    return list(itertools.takewhile(lambda word: word[0] not in "|>;", lexer))


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda page: page.stem)
def test_the_commands_of_a_runbook_exist(page: Path) -> None:
    """Each word is a command of the program, each option one of that command."""
    for words in fairlead_commands(page):
        command: click.Command = build()
        context = click.Context(command)
        rest = [word for word in words if word != "…"]
        said = f"{page.name}: fairlead {' '.join(words)}"
        while isinstance(command, click.Group) and rest:
            if rest[0].startswith("-"):  # an option of the group, with its value, or of what it does without a command
                if isinstance(command, DefaultCommand) and rest[0] not in options(command):
                    rest.insert(0, command.default)
                    continue
                assert rest[0] in options(command), said
                del rest[:2]
                continue
            found = command.get_command(context, rest.pop(0))
            assert found is not None, said
            command = found
        assert {word for word in rest if word.startswith("-")} <= options(command), said


IN_IMAGES = {"fairlead", "python3"}
"""What each image has to start; there is no shell and no `df` but in that of ingest, for Spark's scripts."""


def test_what_runs_in_a_pod_is_in_its_image() -> None:
    """An image holds Python, its packages, and nothing of a system."""
    started = [
        (page.name, found[1], found[2])
        for page in sorted((CHARTS.parent / "docs").rglob("*.md"))
        for found in re.finditer(r"kubectl exec [^\n]*?(\S+) -- (\S+)", page.read_text())
    ]
    assert len(started) > 5
    assert not [each for each in started if each[2] not in IN_IMAGES and "ingest" not in each[1]]


def options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}


@pytest.mark.process
@pytest.mark.usefixtures("helm")
def test_the_chart_makes_rules_of_them() -> None:
    """All of them, with the address of the runbooks and labels of one's own; those one does not want are left out."""
    rules = {
        "enabled": True,
        "disabled": ["FairleadNodesLost"],
        "alertLabels": {"team": "edge"},
        "runbookUrl": "https://docs.example/{alert}.html",
    }
    text = helm_with({"monitoring": {"rules": rules}}, "template", RELEASE, str(CHARTS / "fairlead"))
    made = {
        rule["alert"]: rule
        for each in yaml.safe_load_all(text)
        if each and each["kind"] == "PrometheusRule"
        for group in each["spec"]["groups"]
        for rule in group["rules"]
    }
    assert set(made) == set(alerts()) - {"FairleadNodesLost"}
    for name, rule in made.items():
        own = alerts()[name]
        assert rule["annotations"]["runbook_url"] == f"https://docs.example/{name}.html"
        assert rule["labels"] == {**own["labels"], "team": "edge"}
        assert (rule["expr"], rule.get("for")) == (own["expr"], own.get("for"))
        for key in ("summary", "description"):
            assert rule["annotations"][key].split() == own["annotations"][key].split(), name
