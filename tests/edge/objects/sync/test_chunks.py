"""Updates in parts: in order, bounded, whole."""

from __future__ import annotations

import pytest

from fairlead_edge.objects.metastore import WriteRefused
from fairlead_edge.objects.sync import chunks
from fairlead_edge.objects.sync.chunks import Arrived, Chunks
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link.codec import CONTENT_BYTES_MAX


def update(id: int, *, parts: int = 2, name: str = "a") -> message.Update:
    path = f"api/v1/namespaces/shop/configmaps/{name}"
    return message.Update(id=id, resource=path, uid="u", resource_version="1", digest="d", chunks=parts)


def part(id: int, index: int) -> message.Chunk:
    return message.Chunk(id=id, index=index)


def test_parts_become_one_content() -> None:
    """The last part hands over the whole; nothing is kept."""
    held = Chunks()
    assert held.begin(update(1)) is None
    first = held.add(part(1, 0), b"ab")
    assert isinstance(first, Arrived) and (first.chunks, first.content) == (1, None)
    last = held.add(part(1, 1), b"cd")
    assert isinstance(last, Arrived) and (last.chunks, last.content) == (2, b"abcd")
    assert held.add(part(1, 2), b"ef") is None


def test_updates_may_arrive_side_by_side() -> None:
    """Small objects overtake a large one, and so may parts of another."""
    held = Chunks()
    held.begin(update(1, name="a"))
    held.begin(update(2, name="b"))
    held.add(part(1, 0), b"a")
    held.add(part(2, 0), b"b")
    last = held.add(part(1, 1), b"a")
    assert isinstance(last, Arrived) and last.content == b"aa"


@pytest.mark.parametrize("index", [-1, 0, 2])
def test_a_gap_or_a_repetition_is_a_broken_peer(index: int) -> None:
    """Order holds within a session, so a wrong index is no accident of the link."""
    held = Chunks()
    held.begin(update(1, parts=3))
    held.add(part(1, 0), b"a")
    with pytest.raises(Malformed):
        held.add(part(1, index), b"b")


@pytest.mark.parametrize("parts", [0, -1, chunks.PARTS_MAX + 1])
def test_an_absurd_number_of_parts_is_refused_for_good(parts: int) -> None:
    """The announcement itself is bounded."""
    answer = Chunks().begin(update(1, parts=parts))
    assert isinstance(answer, WriteRefused) and answer.permanent and answer.code == "too_large"


def test_too_many_at_once_are_asked_to_come_back() -> None:
    """Half-received objects cannot pile up."""
    held = Chunks()
    for id in range(chunks.UPDATES_MAX):
        assert held.begin(update(id, name=f"n{id}")) is None
    answer = held.begin(update(99, name="one-more"))
    assert isinstance(answer, WriteRefused) and not answer.permanent and answer.retry_after_seconds
    assert held.drop(update(0, name="n0").resource) == [0]
    assert held.begin(update(99, name="one-more")) is None


def test_an_object_over_the_limit_is_refused_and_forgotten() -> None:
    """Memory is given back at once; what still comes of it is passed over."""
    held = Chunks()
    half = b"x" * (CONTENT_BYTES_MAX // 2 + 1)
    held.begin(update(1, parts=3))
    held.add(part(1, 0), half)
    answer = held.add(part(1, 1), half)
    assert isinstance(answer, WriteRefused) and answer.permanent and answer.code == "too_large"
    assert held.add(part(1, 2), b"") is None


def test_all_of_them_together_are_bounded() -> None:
    """Several large ones at once do not fit; one at a time they do."""
    held = Chunks()
    large = b"x" * (CONTENT_BYTES_MAX - 1)
    answers = []
    for id in (1, 2, 3):
        held.begin(update(id, name=f"n{id}"))
        answers.append(held.add(part(id, 0), large))
    assert [type(answer) for answer in answers] == [Arrived, Arrived, WriteRefused]
    assert isinstance(answers[2], WriteRefused) and not answers[2].permanent
