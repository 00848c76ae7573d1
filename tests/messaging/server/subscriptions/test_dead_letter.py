"""Each dead letter is stored once."""

from __future__ import annotations

from fairlead_messaging.server.log.topic import NAME_CHARS_MAX
from fairlead_messaging.server.producers import PRODUCER_ID_BYTES_MAX
from fairlead_messaging.server.subscriptions import subscription


def test_a_dead_letter_has_a_producer_whatever_the_names_length() -> None:
    """Names may have 200 characters each; a refused producer would hold the subscription up for ever."""
    longest = ("n" * NAME_CHARS_MAX, "t" * NAME_CHARS_MAX, "s" * NAME_CHARS_MAX)
    ids = {
        subscription.dead_letter_producer_id((*longest[:2], last), p)
        for last in ("s" * 200, "r" * 200)
        for p in ("00", "01")
    }
    assert len(ids) == 4 and max(map(len, ids)) <= PRODUCER_ID_BYTES_MAX
    assert subscription.dead_letter_producer_id(("default", "t", "s"), "00") == "subscription/default/t/s/00"
