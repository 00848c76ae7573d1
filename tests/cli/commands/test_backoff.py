"""`fairlead backoff`: schedules as JSON lines, and the seed's picture as text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fairlead_cli import main


def schedule(*policies: dict[str, Any]) -> list[dict[str, Any]]:
    text = "".join(json.dumps(policy) + "\n" for policy in policies)
    done = CliRunner().invoke(main.build(), ["backoff", "schedule"], input=text)
    assert done.exit_code == 0
    return [json.loads(line) for line in done.output.splitlines()]


def test_a_policy_is_answered_with_its_schedule() -> None:
    answers = schedule(
        {"retries_with_no_delay": 1, "minimum_delay_retries": 0, "backoff_retries": 2, "maximum_delay_retries": 0},
        {"retries_max": 0},
    )
    assert answers == [
        {
            "schedule": [
                {"phase": "immediate", "seconds": 0.0},
                {"phase": "backoff", "seconds": 5.0},
                {"phase": "backoff", "seconds": 30.0},
            ],
            "total_seconds": 35.0,
        },
        {"schedule": [], "total_seconds": 0.0},
    ]


def test_a_bad_policy_is_answered_with_key_and_reason() -> None:
    (answer,) = schedule({"minimum_delay": 40})
    assert answer == {"error": [{"message": "maximum_delay: must not be below minimum_delay, is 30 < 40"}]}


def test_seeded_jitter_is_reproducible() -> None:
    """The same line gives the same answer; without a seed it does not."""
    seeded, open_ended = {"jitter": "full", "seed": 5}, {"jitter": "full"}
    answers = schedule(seeded, seeded, open_ended, open_ended)
    assert answers[0] == answers[1]
    assert answers[2] != answers[3]


def test_plot_draws_all_four_curves() -> None:
    """Minimum 5, maximum 260, ten retries: the picture the seed refers to."""
    shown = CliRunner().invoke(main.build(), ["backoff", "plot"])
    assert shown.exit_code == 0
    for name in ("linear", "arithmetic", "geometric", "exponential"):
        assert f"{name}: 10 retries" in shown.output
    assert shown.output.count("260.00 s " + "█" * 60) == 4


def plotted(*arguments: str, **more: Any) -> Result:
    return CliRunner().invoke(main.build(), ["backoff", "plot", *arguments], **more)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "begins"), [("curves.png", b"\x89PNG"), ("curves.svg", b"<?xml")])
def test_plot_writes_a_picture(tmp_path: Path, name: str, begins: bytes) -> None:
    file = tmp_path / name
    assert plotted(str(file)).output == f"{file}: drawn\n"
    assert file.read_bytes().startswith(begins)


@pytest.mark.slow
def test_plot_draws_a_policy_given_as_json_file_or_input(tmp_path: Path) -> None:
    policy = '{"minimum_delay": 1, "maximum_delay": 60, "backoff_retries": 7, "maximum_delay_retries": 190000}'
    file = tmp_path / "policy.json"
    file.write_text(policy)
    for shown in (plotted("--policy", policy), plotted("--policy", str(file)), plotted("--policy", "-", input=policy)):
        assert "policy: 190013 retries" in shown.output and "… and 189913 more" in shown.output
    assert plotted(str(tmp_path / "p.svg"), "--policy", policy).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("curves.pdf",), "curves.pdf: must end in .png or .svg"),
        (("--policy", "{"), "--policy: must be JSON"),
        (("--policy", "nowhere.json"), "--policy: nowhere.json: No such file"),
        (("--policy", '{"minimum_delay": 40}'), "maximum_delay: must not be below minimum_delay"),
    ],
)
def test_plot_refuses_with_the_reason(arguments: tuple[str, ...], reason: str) -> None:
    shown = plotted(*arguments)
    assert shown.exit_code == 2 and reason in shown.output


def test_plot_says_where_it_cannot_write(tmp_path: Path) -> None:
    shown = plotted(str(tmp_path / "nowhere" / "a.png"))
    assert shown.exit_code == 1 and "cannot be written: No such file or directory" in shown.output


def test_without_matplotlib_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    shown = plotted(str(tmp_path / "a.png"))
    assert shown.exit_code == 2 and "pip install 'fairlead-kubernetes[plot]'" in shown.output
    assert plotted().exit_code == 0
