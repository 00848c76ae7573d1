"""What both buffered publishers are."""

from __future__ import annotations

from typing import Any

from fairlead_messaging.client.io.buffered_publisher import Publisher
from fairlead_wire.errors import FairleadError, Permanent


def names(publisher: Publisher) -> tuple[Any, Any]:
    return publisher._buffer._producer_id, publisher._buffer._epoch


def test_every_run_has_a_name_of_its_own() -> None:
    """Made up when none is given: two runs that number alike must not be taken for one."""
    one, two = names(Publisher("n", "t")), names(Publisher("n", "t"))
    assert one[0] != two[0]
    assert one[1] < 2**53
    assert names(Publisher("n", "t", producer_id="p", epoch=0)) == ("p", 0)


def test_what_is_called_for_drops_cannot_end_the_sending() -> None:
    """What it raises is logged; with nothing dropped it is not called."""
    reported: list[int] = []

    def broken(count: int, error: FairleadError) -> None:
        reported.append(count)
        raise ValueError

    publisher = Publisher("n", "t", on_drop=broken)
    publisher._report(0, Permanent("x"))
    publisher._report(2, Permanent("x"))
    assert reported == [2]
