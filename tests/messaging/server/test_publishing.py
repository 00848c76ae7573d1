"""Publishing: contiguous rows, and what is known in the same batch."""

from __future__ import annotations

import pytest
from tests.support.messaging_core import Core, producer, publish

from fairlead_messaging.api.errors import NotFound, Refused


def test_rows_of_one_request_are_contiguous() -> None:
    """First and last position are the request's own."""
    core = Core()
    core.create("t")
    one, two = core.batch(publish("t", "a", "b"), publish("t", "c"))
    assert one.first < one.last < two.first == two.last
    assert core.read("t") == ["a", "b", "c"]


def test_a_repeat_within_one_batch_is_known() -> None:
    """The second of two concurrent retries is told so, and both are durable together."""
    core = Core()
    core.create("t")
    one, two = core.batch(publish("t", "a", producer=producer(3)), publish("t", "a", producer=producer(3)))
    assert (one.stored, two.known) == ((3,), (3,))
    assert core.read("t") == ["a"]


def test_a_lost_batch_is_not_known() -> None:
    """After a failed write the retry stores; nothing of the failed one is remembered."""
    core = Core()
    core.create("t")
    core.batch(publish("t", "a", producer=producer(0)), lost=True)
    assert core.do(publish("t", "a", producer=producer(0))).stored == (0,)
    assert core.read("t") == ["a"]


def test_what_cannot_be_published() -> None:
    """No topic, or one that wants transactions."""
    core = Core()
    with pytest.raises(NotFound):
        core.do(publish("t", "a"))
    core.create("t", transactional="required")
    with pytest.raises(Refused):
        core.do(publish("t", "a"))
