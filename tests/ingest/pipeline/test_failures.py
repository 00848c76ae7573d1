"""Which failures count together, what follows from them, and the search for the messages that cause them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from fairlead_ingest import errors
from fairlead_ingest.pipeline import failures
from fairlead_ingest.pipeline.failures import (
    DENIED_SECONDS,
    HALVED_AT,
    NEVER_PASSED_MAX,
    RESET_SECONDS,
    RETRY_SECONDS_FIRST,
    RETRY_SECONDS_MAX,
    UNKNOWN_FAILURES_MAX,
    Failures,
    Next,
    TooMany,
)
from fairlead_ingest.source.offset_ranges import OffsetRange


def noted(failures: Failures, *causes: str, batch: int = 1, every: float = 1.0) -> list[Next]:
    return [failures.note(None, cause, batch, index * every) for index, cause in enumerate(causes)]


def test_the_same_failure_again_and_again_is_halved_once_and_stops():
    told = noted(Failures(), *[f"Error at 0x{index:x}, part-{index}" for index in range(UNKNOWN_FAILURES_MAX + 1)])
    assert told.index(Next.HALVE) == HALVED_AT - 1
    assert told.count(Next.HALVE) == told.count(Next.STOP) == 1
    assert told[-1] is Next.STOP


def test_failures_for_other_causes_or_of_other_batches_do_not_count_together():
    failures = Failures()
    for number in range(50):
        assert failures.note(errors.UNREACHABLE, "down", 1, float(number)) is Next.WAIT
    assert noted(failures, "one", "other", "one", "other") == [Next.WAIT] * 4
    assert [failures.note(None, "one", batch, 60.0) for batch in range(10)] == [Next.WAIT] * 10


def test_progress_and_time_end_a_row_of_failures():
    failures = Failures()
    assert noted(failures, "one", "one")[-1] is Next.HALVE
    assert failures.retry_seconds > RETRY_SECONDS_FIRST
    failures.progressed()
    assert noted(failures, "one") == [Next.WAIT]
    assert failures.retry_seconds == RETRY_SECONDS_FIRST
    assert noted(Failures(), *["one"] * 20, every=RESET_SECONDS + 1) == [Next.WAIT] * 20


def test_what_has_a_code_says_itself_whether_waiting_helps():
    failures = Failures()
    assert {failures.note(errors.DISK_FULL, "full", 1, float(n)) for n in range(3000)} == {Next.WAIT}
    assert failures.retry_seconds == RETRY_SECONDS_MAX
    assert failures.note(errors.TABLE_BEHIND, "behind", 1, 3000.0) is Next.STOP


@pytest.mark.parametrize("denied", [errors.STORE_DENIED, errors.CATALOG_DENIED])
def test_credentials_that_were_good_are_waited_for_and_not_for_ever(denied):
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


def cut(after: int, upto: int, topic: str = "a/t") -> OffsetRange:
    return OffsetRange(topic=topic, generation=1, after=f"{after:04x}", upto=f"{upto:04x}", rows=upto - after)


def split(whole: OffsetRange) -> Sequence[OffsetRange]:
    after, upto = int(whole.after, 16), int(whole.upto, 16)
    middle = (after + upto) // 2
    return [whole] if upto - after < 2 else [cut(after, middle, whole.topic), cut(middle, upto, whole.topic)]


def searched(ranges: list[OffsetRange], poison: set[tuple[str, int]]) -> tuple[dict[tuple[str, int], str], int]:
    """Found messages with their reasons, and how many trials it took."""
    search, trials = failures.search(ranges, split), 0
    asked = next(search)
    while True:
        trials += 1
        bad = sorted(
            number for each in asked for topic, number in poison
            if topic == each.topic and int(each.after, 16) < number <= int(each.upto, 16)
        )  # fmt: skip
        try:
            asked = search.send(f"bad {bad[0]}" if bad else None)
        except StopIteration as done:
            return {(each.topic, int(each.upto, 16)): why for each, why in done.value.items()}, trials


@pytest.mark.parametrize("seed", range(40))
def test_exactly_the_poison_is_found(seed):
    """Whatever it is and wherever, in a number of trials that grows with its number and not with the batch."""
    draw = random.Random(seed)
    ranges = [cut(0, draw.randrange(50, 4000), topic) for topic in ("a/t", "b/t", "c/t")[: draw.randrange(1, 4)]]
    messages = [(each.topic, number) for each in ranges for number in range(1, each.rows + 1)]
    poison = set(draw.sample(messages, draw.randrange(6)))
    found, trials = searched(ranges, poison)
    assert set(found) == poison
    assert all(found[topic, number] == f"bad {number}" for topic, number in poison)
    assert trials <= 1 + 2 * len(poison) * (math.log2(len(messages)) + 2)


def test_a_batch_of_nothing_but_poison_is_set_aside_or_the_pipelines_own_fault():
    """Few messages say nothing of a pipeline; where none ever passes, it is not the messages."""
    assert len(searched([cut(0, 3)], {("a/t", number) for number in range(1, 4)})[0]) == 3
    with pytest.raises(TooMany, match="every message that was tried"):
        searched([cut(0, 4 * NEVER_PASSED_MAX)], {("a/t", number) for number in range(1, 1000)})
    with pytest.raises(TooMany, match="more than"):
        searched([cut(0, 1000)], {("a/t", number) for number in range(2, 1000, 2)})


def test_what_no_longer_fails_is_left_alone():
    """The machine had a bad moment, or the parts fail only together."""
    search = failures.search([cut(0, 100)], split)
    next(search)
    with pytest.raises(StopIteration) as done:
        search.send(None)
    assert done.value.value == {}
    search = failures.search([cut(0, 100)], split)
    next(search)
    search.send("together")
    search.send(None)
    with pytest.raises(StopIteration) as done:
        search.send(None)
    assert done.value.value == {}
