"""What counts together, and what follows."""

from __future__ import annotations

import pytest

from fairlead_ingest import errors
from fairlead_ingest.pipeline.failures import (
    DENIED_SECONDS,
    HALVED_AT,
    RESET_SECONDS,
    RETRY_SECONDS_FIRST,
    RETRY_SECONDS_MAX,
    UNKNOWN_FAILURES_MAX,
    Failures,
    Next,
)


def noted(failures: Failures, *causes: str, batch: int = 1, every: float = 1.0) -> list[Next]:
    return [failures.note(None, cause, batch, index * every) for index, cause in enumerate(causes)]


def test_the_same_failure_again_and_again_is_halved_once_and_stops() -> None:
    """What differs between two of them, an address or a number, is not the cause."""
    told = noted(Failures(), *[f"Error at 0x{index:x}, part-{index}" for index in range(UNKNOWN_FAILURES_MAX + 1)])
    assert told.index(Next.HALVE) == HALVED_AT - 1
    assert told.count(Next.HALVE) == told.count(Next.STOP) == 1
    assert told[-1] is Next.STOP


def test_failures_for_other_causes_or_of_other_batches_do_not_count_together() -> None:
    """A service that was down, another error, another batch."""
    failures = Failures()
    for number in range(50):
        assert failures.note(errors.UNREACHABLE, "down", 1, float(number)) is Next.WAIT
    assert noted(failures, "one", "other", "one", "other") == [Next.WAIT] * 4
    assert [failures.note(None, "one", batch, 60.0) for batch in range(10)] == [Next.WAIT] * 10


def test_progress_and_time_end_a_row_of_failures() -> None:
    """Both in what is counted and in how long is waited."""
    failures = Failures()
    assert noted(failures, "one", "one")[-1] is Next.HALVE
    assert failures.retry_seconds > RETRY_SECONDS_FIRST
    failures.progressed()
    assert noted(failures, "one") == [Next.WAIT]
    assert failures.retry_seconds == RETRY_SECONDS_FIRST
    assert noted(Failures(), *["one"] * 20, every=RESET_SECONDS + 1) == [Next.WAIT] * 20


def test_what_has_a_code_says_itself_whether_waiting_helps() -> None:
    """However often."""
    failures = Failures()
    assert {failures.note(errors.DISK_FULL, "full", 1, float(n)) for n in range(3000)} == {Next.WAIT}
    assert failures.retry_seconds == RETRY_SECONDS_MAX
    assert failures.note(errors.TABLE_BEHIND, "behind", 1, 3000.0) is Next.STOP


@pytest.mark.parametrize("denied", [errors.STORE_DENIED, errors.CATALOG_DENIED])
def test_credentials_that_were_good_are_waited_for_and_not_for_ever(denied: str) -> None:
    """Those that never were good are a mistake."""
    failures = Failures()
    assert failures.note(denied, "denied", 1, 0.0) is Next.STOP
    for work in (failures.answered, failures.progressed):
        work()
        assert failures.note(denied, "denied", 1, 10.0) is Next.WAIT
        assert failures.note(denied, "denied", 1, 9.0 + DENIED_SECONDS) is Next.WAIT
        assert failures.renewal_seconds(denied, 9.0 + DENIED_SECONDS) == 1.0
        assert failures.note(denied, "denied", 1, 10.0 + DENIED_SECONDS) is Next.STOP
        assert failures.renewal_seconds(errors.TABLE_TAKEN, 10.0) is None
        failures.progressed()
    assert failures.note(denied, "denied", 1, 2000.0) is Next.WAIT, "a later end is another one"
