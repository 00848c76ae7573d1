"""Keeping a transaction alive, played step by step."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from fairlead_messaging.client import errors, transaction
from fairlead_messaging.client.errors import TransactionLost
from fairlead_messaging.client.script import Pause, perform

LOST_ANSWER = errors.Disconnected("the connection ended")
OVER = errors.TransactionOver(
    "over", code="transaction_not_in_progress", status=409, facts={"state": "invalid", "ended_by": "hold_up"}
)
OVER.reason = "it held up the readers"


class Left(BaseException):
    """The block was left."""


def play(answers: Callable[[int], BaseException | None]) -> tuple[TransactionLost | None, list[float]]:
    """How it was lost, and when it was renewed (seconds); ``answers(n)``: what the nth renewal meets."""
    now, asked = [0.0], list[float]()

    def do(step: Any) -> Any:
        if isinstance(step, Pause):
            now[0] += step.seconds
            return None
        assert step.path.endswith("/7/renew") and b"30" in step.body
        asked.append(round(now[0], 3))
        if (error := answers(len(asked))) is not None:
            raise error
        return None

    return perform(transaction.keep_alive(7, 30.0, lambda: now[0]), do), asked


def until(count: int) -> Callable[[int], BaseException | None]:
    """All is well, and then the block is left."""
    return lambda number: Left() if number > count else None


def test_it_is_renewed_three_times_within_its_timeout() -> None:
    """So that two in a row may fail."""
    with pytest.raises(Left):
        play(until(3))
    lost, asked = play(lambda number: OVER if number == 4 else None)
    assert asked == [10, 20, 30, 40]
    assert lost is not None


def test_after_a_failure_it_asks_again_soon() -> None:
    """And from the next answer on it has its whole timeout again."""
    _, asked = play(lambda number: {1: LOST_ANSWER, 2: LOST_ANSWER, 5: OVER}.get(number))
    assert asked == [10, 13, 16, 26, 36]


def test_without_any_answer_for_its_timeout_it_is_lost() -> None:
    """Counted from the last renewal that was answered, and said with the failure."""
    lost, asked = play(lambda number: None if number == 1 else LOST_ANSWER)
    assert asked[:2] == [10, 20] and asked[-1] == 40
    assert lost is not None and (lost.state, lost.ended_by) == ("unknown", "timeout")
    assert re.search(r"transaction 7 was lost: no renewal was answered for 30 s: the connection ended", str(lost))


def test_the_service_says_why_it_is_over() -> None:
    """In its own words, with its facts."""
    lost, _ = play(lambda _: OVER)
    assert lost is not None and (lost.state, lost.ended_by, lost.status) == ("invalid", "hold_up", 409)
    assert str(lost) == "transaction 7 was lost: it held up the readers"


def test_a_service_without_renewals_is_left_alone() -> None:
    """An earlier version: the transaction lives as long as it asked for."""
    lost, asked = play(lambda _: errors.Denied("no such path", code="no_such_path", status=404))
    assert (lost, asked) == (None, [10])
