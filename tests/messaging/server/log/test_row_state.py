"""Reading asks for a row's state and knows nothing of transactions."""

from __future__ import annotations

from tests.support.topics.messaging_core import Core, publish

from fairlead_messaging.api.message_id import FIRST, Position, id_of
from fairlead_messaging.server.log import reader
from fairlead_messaging.server.log.rows import RowState, Uncommitted
from fairlead_messaging.server.transactions.commands import Start


def test_a_page_shows_what_is_committed_skips_what_is_aborted_and_ends_at_what_is_neither() -> None:
    """The three states are all that reading needs."""
    core = Core()
    core.create("t")
    pointers = [core.do(Start(timeout_seconds=30)).transaction.pointer for _ in range(3)]
    for pointer in pointers:
        core.do(publish("t", f"of {pointers.index(pointer)}", pointer=pointer))
    states = dict(zip(pointers, (RowState.ABORTED, RowState.COMMITTED, RowState.UNCOMMITTED), strict=True))
    with core.kv.snapshot() as snapshot:
        page = reader.read(
            snapshot, core.topic("t"), after=FIRST, limit=10, bytes_max=100, now_ms=core.now_ms,
            states=states.__getitem__,
        )  # fmt: skip
    assert (page.payloads, page.aborted, page.blocked, page.complete) == ([b"of 1"], 1, True, True)


def test_the_first_uncommitted_message_says_since_when_it_is_there() -> None:
    """Its id begins with the time of its publication."""
    found = Uncommitted(message_id=id_of(Position(1234, 5).encode()), pointer=7)
    assert found.since_ms == 1234
