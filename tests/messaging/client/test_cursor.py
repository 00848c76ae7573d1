"""Where an iteration stands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_messaging.api.responses import Message, Page
from fairlead_messaging.client.cursor import Cursor
from fairlead_wire.errors import RemoteError


def asked(cursor: Cursor) -> dict[str, Any]:
    body = cursor.ask().body
    assert body is not None
    question: dict[str, Any] = json.loads(body)
    return question


def page(*ids: str, then: str) -> Page:
    return Page(messages=tuple(Message(id=each, payload=b"") for each in ids), next_position=then)


def test_each_page_goes_on_behind_the_last() -> None:
    """The first start is inclusive if one wants; every other is a next position, which is not."""
    cursor = Cursor("n", "t", start_from="0a")
    assert asked(cursor) == {"startFrom": "0a", "isolation": "read_committed", "wait_ms": 0}
    assert [message.id for message in cursor.take(page("0a", "0b", then="0b"))] == ["0a", "0b"]
    assert (asked(cursor)["startFrom"], asked(cursor)["inclusive"]) == ("0b", False)


def test_the_end_is_where_nothing_moves_any_more() -> None:
    """An empty page that moved on passed over what may not be seen; something may come behind."""
    cursor = Cursor("n", "t")
    cursor.take(page(then="0c"))
    assert cursor.more
    cursor.take(page(then="0c"))
    assert not cursor.more


def test_a_page_that_leads_back_is_refused() -> None:
    """A service that answers so would be asked for ever."""
    cursor = Cursor("n", "t", start_from="0a", limit=1)
    cursor.take(page("0a", then="0a"))
    assert (cursor.position, asked(cursor)["limit"]) == ("0a", 1)
    for back in ("0a", "09"):
        with pytest.raises(RemoteError):
            cursor.take(page("0a", then=back))


def test_the_beginning_and_a_time_may_be_exclusive_too() -> None:
    """Neither is an id that a page could lead back to."""
    for start in (None, 1_700_000_000_000):
        cursor = Cursor("n", "t", start_from=start, inclusive=False)
        assert len(cursor.take(page("0a", then="0a"))) == 1


def test_following_never_ends_and_lets_the_service_wait() -> None:
    """Not the reader, which would ask again and again."""
    cursor = Cursor("n", "t", follow=True)
    cursor.take(page(then="0c"))
    cursor.take(page(then="0c"))
    assert cursor.more
    assert asked(cursor)["wait_ms"] > 0
