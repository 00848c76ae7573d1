"""The search against ranges whose poison is known."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from fairlead_ingest.pipeline import failures
from fairlead_ingest.pipeline.failures import NEVER_PASSED_MAX, TooMany
from fairlead_ingest.source.offset_ranges import OffsetRange


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
def test_exactly_the_poison_is_found(seed: int) -> None:
    """Whatever it is and wherever, in a number of trials that grows with its number and not with the batch."""
    draw = random.Random(seed)
    ranges = [cut(0, draw.randrange(50, 4000), topic) for topic in ("a/t", "b/t", "c/t")[: draw.randrange(1, 4)]]
    messages = [(each.topic, number) for each in ranges for number in range(1, each.rows + 1)]
    poison = set(draw.sample(messages, draw.randrange(6)))
    found, trials = searched(ranges, poison)
    assert set(found) == poison
    assert all(found[topic, number] == f"bad {number}" for topic, number in poison)
    assert trials <= 1 + 2 * len(poison) * (math.log2(len(messages)) + 2)


def test_a_batch_of_nothing_but_poison_is_set_aside_or_the_pipelines_own_fault() -> None:
    """Few messages say nothing of a pipeline; where none ever passes, it is not the messages."""
    assert len(searched([cut(0, 3)], {("a/t", number) for number in range(1, 4)})[0]) == 3
    with pytest.raises(TooMany, match="each message that was tried"):
        searched([cut(0, 4 * NEVER_PASSED_MAX)], {("a/t", number) for number in range(1, 1000)})
    with pytest.raises(TooMany, match="more than"):
        searched([cut(0, 1000)], {("a/t", number) for number in range(2, 1000, 2)})


def test_what_no_longer_fails_is_left_alone() -> None:
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
