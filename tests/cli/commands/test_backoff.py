"""`fairlead backoff`: schedules as JSON lines, and the seed's picture as text."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from fairlead_cli import main


def schedule(*policies: dict[str, Any]) -> list[dict[str, Any]]:
    text = "".join(json.dumps(policy) + "\n" for policy in policies)
    done = CliRunner().invoke(main.build(), ["backoff", "schedule"], input=text)
    assert done.exit_code == 0
    return [json.loads(line) for line in done.output.splitlines()]


def test_a_policy_is_answered_with_its_schedule() -> None:
    """Phases and seconds in order, and their sum."""
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
    """And the exit code stays 0: the answer is the result."""
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


def test_plot_refuses_what_a_policy_refuses() -> None:
    """Exit 2 with the key."""
    shown = CliRunner().invoke(main.build(), ["backoff", "plot", "--minimum", "0"])
    assert shown.exit_code == 2
    assert "minimum_delay: must be above 0" in shown.output
