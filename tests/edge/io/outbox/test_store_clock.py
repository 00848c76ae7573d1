"""The machine's clocks, read for real."""

from __future__ import annotations

import time

from fairlead_edge.io.outbox import store_clock
from fairlead_edge.outbox.age import Stamp


def test_reading_names_this_boot() -> None:
    first, second = store_clock.read(), store_clock.read()
    assert first.boot_id == second.boot_id != ""
    assert second.boot_seconds >= first.boot_seconds > 0
    assert abs(first.wall_seconds - time.time()) < 60


def test_clock_opens_where_the_stamp_left_it() -> None:
    now = store_clock.read()
    stamp = Stamp(boot_id=now.boot_id, boot_seconds=now.boot_seconds - 1, wall_seconds=0, age_seconds=50)
    assert 51 <= store_clock.open_clock(stamp).now(store_clock.boot_seconds()) < 60
