"""Offsets are text to Spark: the same places must always be the same text."""

from __future__ import annotations

import json

import pytest

from fairlead_ingest import errors
from fairlead_ingest.source import offsets
from fairlead_ingest.source.offsets import Offsets, Position, Skip


def test_an_offset_survives_the_checkpoint() -> None:
    """What Spark wrote down comes back as it was, jumps included."""
    places = Offsets(
        service="s",
        topics={
            "b/t": Position(g=2, p="0f", fg=1, f="0a", r=7, skip=Skip(reason="recreated")),
            "a/t": Position.at(1, ""),
        },
    )
    assert offsets.parse(json.dumps(places.to_dict())) == places


def test_keys_are_sorted_whatever_the_order_of_topics() -> None:
    """Spark compares text: another order would be an empty batch."""
    one = Offsets(service="s", topics={"b/t": Position(), "a/t": Position()})
    other = Offsets(service="s", topics={"a/t": Position(), "b/t": Position()})
    assert json.dumps(one.to_dict()) == json.dumps(other.to_dict())
    assert list(one.to_dict()["topics"]) == ["a/t", "b/t"]


def test_a_rested_position_promises_nothing() -> None:
    """A topic that gave nothing to a batch is not counted again in it."""
    moved = Position(g=3, p="0f", fg=3, f="0a", r=7, skip=Skip(reason="expired", upto="0b", rows=2))
    assert moved.rested() == Position(g=3, p="0f", fg=3, f="0f", r=0)


def test_a_batch_without_new_data_begins_where_it_ends() -> None:
    """Spark runs such batches to move watermarks; nothing is promised for them again."""
    end = Offsets(service="s", topics={"a/t": Position(g=1, p="0f", fg=1, f="0a", r=7)})
    assert end.since(end) == Offsets(service="s", topics={"a/t": Position.at(1, "0f")})
    assert end.since(Offsets(service="s", topics={"a/t": Position.at(1, "0a")})) == end


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"v": 2}', '{"v": 1, "svc": "s", "topics": {"a": 5}}'])
def test_what_is_no_offset_of_ours_is_refused(text: str) -> None:
    """A checkpoint of another source, or a newer one, stops with its code."""
    with pytest.raises(errors.Stop, match=errors.BAD_CHECKPOINT):
        offsets.parse(text)


@pytest.mark.parametrize(
    ("limit", "topics", "expected"), [(None, 2, [None, None]), (10, 3, [4, 3, 3]), (1, 3, [1, 1, 1]), (6, 1, [6])]
)
def test_a_limit_is_shared_and_nobody_starves(limit: int | None, topics: int, expected: list[int | None]) -> None:
    """Each topic may read at least one row."""
    assert offsets.shares(limit, topics) == expected


def test_totals_say_what_was_gone_before_the_batch_was_planned() -> None:
    """Without them, what the service said of an expired start."""
    assert Position(g=1, p="0f", fg=1, f="0a", r=5, n=20, fn=12).expired == 3
    assert Position(g=1, p="0f", fg=1, f="0a", r=9, n=20, fn=12).expired == 0
    skip = Skip(reason="expired", upto="0c", rows=7)
    assert Position(g=1, p="0f", fg=1, f="0a", r=5, skip=skip).expired == 7
    assert Position(g=2, p="0f", fg=1, f="0a", r=5, skip=Skip(reason="recreated")).expired == 0
    assert (Position.at(1, "").passed, Position.at(1, "0a").passed, Position.at(1, "0a", 4).passed) == (0, None, 4)


def test_totals_survive_the_checkpoint_and_older_ones_have_none() -> None:
    """Keys stay sorted: Spark compares text."""
    end = Offsets(service="s", topics={"a/t": Position(g=1, p="0f", fg=1, f="0a", r=5, n=20, fn=12)})
    assert offsets.parse(end.to_dict()) == end
    assert list(end.to_dict()["topics"]["a/t"]) == ["f", "fg", "fn", "g", "n", "p", "r"]
    old = {"svc": "s", "topics": {"a/t": {"f": "", "fg": 1, "g": 1, "p": "0a", "r": 1}}, "v": 1}
    assert offsets.parse(old).topics["a/t"].n is None
