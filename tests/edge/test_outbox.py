"""What belongs to the outbox's vocabulary alone; its behaviour is in tests/conformance."""

from __future__ import annotations

import pytest

from fairlead_edge.outbox import Item


@pytest.mark.parametrize(("expires", "live"), [(None, True), (10.1, True), (10.0, False), (9.0, False)])
def test_item_is_live_until_its_time_comes(expires: float | None, live: bool) -> None:
    """At the very second it is over."""
    assert Item(0, 1, "", 0, expires, b"").live(10.0) is live
