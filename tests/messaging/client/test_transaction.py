"""A transaction around participants, played step by step."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fairlead_messaging.api.responses import Started
from fairlead_messaging.client import errors, transaction
from fairlead_messaging.client.errors import TransactionLost
from fairlead_messaging.client.script import Pause, perform
from fairlead_messaging.client.transaction import Persist, RollBack, Script, TransactionCoordinator
from fairlead_wire.errors import LocalError

LOST = errors.TimedOut("lost", seconds=1)
OVER = errors.TransactionOver("over", code="transaction_not_in_progress", facts={"state": "invalid"})


class Who:
    def __init__(self, name: str) -> None:
        self.name = name

    def changes(self) -> Sequence[str]:
        return [self.name]


ONE, TWO = Who("one"), Who("two")


def words(step: Any) -> str:
    match step:
        case Persist(who):
            return f"persist {who.name}"
        case RollBack(who):
            return f"roll back {who.name}"
        case Pause():
            return "pause"
        case call:
            return str(call.path.rsplit("/", 1)[1])


def play(script: Script[Who], meet: Callable[[str, int], BaseException | None] = lambda *_: None) -> list[str]:
    """Runs a script; ``meet(step, how often it was taken)`` says what goes wrong."""
    taken: list[str] = []

    def do(step: Any) -> Any:
        taken.append(words(step))
        if error := meet(taken[-1], taken.count(taken[-1])):
            raise error
        return Started(7, b"snapshot", 0) if taken[-1] == "transactions" else b"detail"

    perform(script, do)
    return taken


def opened(*participants: Who, buffer_bytes_max: int = 100) -> TransactionCoordinator[Who]:
    work = TransactionCoordinator(participants, timeout_seconds=None, buffer_bytes_max=buffer_bytes_max)
    assert play(work.begin()) == ["transactions"]
    return work


def test_participants_persist_before_messages_are_published() -> None:
    work = opened(ONE, TWO)
    assert play(work.add("n", "t", [b"a"])) == []
    assert play(work.finish(None)) == ["persist one", "persist two", "publish", "commit"]


def test_a_full_buffer_is_stored_and_then_all_of_it_is() -> None:
    work = opened(buffer_bytes_max=2)
    assert play(work.add("n", "t", [b"aaa"])) == ["store"]
    assert play(work.add("n", "u", [b"b"])) == []
    assert play(work.finish(None)) == ["store", "publish", "publish", "commit"]


@pytest.mark.parametrize("where", ["persist two", "publish", "commit"])
def test_any_failure_rolls_everybody_back(where: str) -> None:
    work = opened(ONE, TWO)
    play(work.add("n", "t", [b"a"]))
    taken: list[str] = []

    def meet(step: str, _: int) -> BaseException | None:
        taken.append(step)
        return OVER if step == where else None

    with pytest.raises(errors.TransactionOver):
        play(work.finish(None), meet)
    undone = taken[taken.index(where) + 1 :]
    published = ["rollback"] if where == "commit" else []
    assert undone == ["roll back two", "roll back one", *published, "abort"]


def test_what_cannot_be_rolled_back_is_invalidated() -> None:
    work = opened(ONE, TWO)
    broken = RuntimeError("disk")
    taken = play(work.finish(ValueError()), lambda step, _: broken if step == "roll back two" else None)
    assert taken == ["roll back two", "roll back one", "invalidate"]
    assert work.failures == [broken]


def test_a_commit_without_an_answer_is_asked_for_until_there_is_one() -> None:
    """Nothing is undone meanwhile: it may have happened."""
    work = opened(ONE)
    taken = play(work.finish(None), lambda step, count: LOST if step == "commit" and count < 4 else None)
    assert taken == ["persist one", *["commit", "pause"] * 3, "commit"]


def test_a_commit_found_undone_after_all_is_undone() -> None:
    work = opened(ONE)
    answers = {1: LOST, 2: OVER}
    taken: list[str] = []

    def meet(step: str, count: int) -> BaseException | None:
        taken.append(step)
        return answers.get(count) if step == "commit" else None

    with pytest.raises(errors.TransactionOver):
        play(work.finish(None), meet)
    assert taken[-2:] == ["roll back one", "abort"]


def test_without_an_answer_it_is_in_doubt_and_nothing_is_rolled_back() -> None:
    work = opened(ONE)
    taken: list[str] = []

    def meet(step: str, _: int) -> BaseException | None:
        taken.append(step)
        return LOST if step == "commit" else None

    with pytest.raises(errors.InDoubt) as doubt:
        play(work.finish(None), meet)
    assert doubt.value.pointer == 7
    assert taken.count("commit") == len(transaction.COMMIT_PAUSES_SECONDS) + 1
    assert "roll back one" not in taken


def test_a_commit_that_was_never_sent_is_undone() -> None:
    """Unreachable the whole time: surely nothing happened."""
    work = opened(ONE)
    down = errors.Unreachable("down")
    with pytest.raises(errors.Unreachable):
        play(work.finish(None), lambda step, _: None if step.startswith(("persist", "roll", "pause")) else down)
    assert work.failures == [down]


def test_outside_of_its_block_it_refuses() -> None:
    with pytest.raises(LocalError):
        play(TransactionCoordinator([ONE], timeout_seconds=None).add("n", "t", [b"a"]))


# --- Keeping a transaction alive, played step by step.

LOST_ANSWER = errors.Disconnected("the connection ended")
RENEWAL_OVER = errors.TransactionOver(
    "over", code="transaction_not_in_progress", status=409, facts={"state": "invalid", "ended_by": "hold_up"}
)
RENEWAL_OVER.reason = "it held up the readers"


class Left(BaseException):
    """The block was left."""


def play_renewal(answers: Callable[[int], BaseException | None]) -> tuple[TransactionLost | None, list[float]]:
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
        play_renewal(until(3))
    lost, asked = play_renewal(lambda number: RENEWAL_OVER if number == 4 else None)
    assert asked == [10, 20, 30, 40]
    assert lost is not None


def test_after_a_failure_it_asks_again_soon() -> None:
    _, asked = play_renewal(lambda number: {1: LOST_ANSWER, 2: LOST_ANSWER, 5: RENEWAL_OVER}.get(number))
    assert asked == [10, 13, 16, 26, 36]


def test_without_any_answer_for_its_timeout_it_is_lost() -> None:
    lost, asked = play_renewal(lambda number: None if number == 1 else LOST_ANSWER)
    assert asked[:2] == [10, 20] and asked[-1] == 40
    assert lost is not None and (lost.state, lost.ended_by) == ("unknown", "timeout")
    assert re.search(r"transaction 7 was lost: no renewal was answered for 30 s: the connection ended", str(lost))


def test_the_service_says_why_it_is_over() -> None:
    lost, _ = play_renewal(lambda _: RENEWAL_OVER)
    assert lost is not None and (lost.state, lost.ended_by, lost.status) == ("invalid", "hold_up", 409)
    assert str(lost) == "transaction 7 was lost: it held up the readers"


def test_a_service_without_renewals_is_left_alone() -> None:
    """An earlier version: the transaction lives as long as it asked for."""
    lost, asked = play_renewal(lambda _: errors.Denied("no such path", code="no_such_path", status=404))
    assert (lost, asked) == (None, [10])
