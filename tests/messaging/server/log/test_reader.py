"""Pages: bounds, limits, and that every start leads on."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.topics.messaging_core import Core, publish

from fairlead_messaging.api.message_id import FIRST
from fairlead_messaging.server.commands import Publish
from fairlead_messaging.server.log import reader
from fairlead_messaging.server.log.rows import LoggedMessage


def filled(count: int) -> Core:
    core = Core()
    core.create("t")
    for number in range(count):
        core.do(publish("t", str(number)))
    return core


def test_bounds_are_exclusive_and_inclusive() -> None:
    """after < id ≤ upto."""
    core = filled(5)
    ids = core.page("t").ids
    assert core.read("t", after=ids[0], upto=ids[2]) == ["1", "2"]
    assert core.read("t", after=ids[2], upto=ids[2]) == []
    assert core.read("t", after=ids[3], upto=ids[1]) == []


@settings(max_examples=30, deadline=None)
@given(limit=st.integers(1, 8), bytes_max=st.integers(1, 8))
def test_pages_of_any_size_make_the_whole(limit: int, bytes_max: int) -> None:
    """Each next position goes on right after the page."""
    core = filled(20)
    seen: list[bytes] = []
    position = FIRST
    while (page := core.page("t", after=position, limit=limit, bytes_max=bytes_max)).ids:
        assert len(page.ids) <= limit
        seen += page.ids
        position = page.next_position
    assert seen == core.page("t").ids
    assert page.complete


def test_work_is_bounded_even_when_nothing_is_shown() -> None:
    """A page over many rows that no reader may see ends early, empty, with a next position further on."""
    core = Core()
    core.create("t")
    messages = [LoggedMessage(b"x", 1)] * (reader.JUDGED_ROWS_MAX + 10)
    core.do(Publish(namespace="n", name="t", messages=messages))
    core.do(publish("t", "end"))
    core.now_ms += 1500
    page = core.page("t")
    assert (page.ids, page.complete) == ([], False)
    assert core.read("t", after=page.next_position) == ["end"]
