"""Messages whose time to live ended."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from tests.support.edges.outbox_tables import append, tables

from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.io.outbox.tables import expiry
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import NOTHING_DONE, InFlight, QueueId

REST = QueueId("iothub")


@pytest.mark.parametrize(("entire", "gone"), [(False, [0]), (True, [0, 2, 3])])
def test_heads_only_or_everywhere(entire: bool, gone: list[int]) -> None:
    connection = tables()
    for ttl in (1.0, None, 1.0, 1.0):
        append(connection, Entry("", b"x", (Reference(REST, ttl),)))
    swept = expiry.sweep(connection, now=2, entire=entire, in_flight=InFlight()).messages
    assert sorted(offset for _, offsets in swept for offset in offsets) == gone
    assert rows(connection, "SELECT expired FROM queues") == [(len(gone),)]


def test_what_is_in_flight_waits_for_its_answer() -> None:
    connection = tables()
    append(connection, *[Entry("", b"x", (Reference(REST, 1.0),))] * 3)
    out = InFlight()
    out.take(REST, [1])
    assert expiry.sweep(connection, now=2, entire=True, in_flight=out).messages == [(REST, [0, 2])]


def test_a_damaged_time_to_live_is_not_believed() -> None:
    connection = tables()
    append(connection, Entry("", b"x", (Reference(REST, 1000.0),)))
    rows(connection, "UPDATE runs SET expires = 1.0")
    for entire in (False, True):
        assert expiry.sweep(connection, now=2, entire=entire, in_flight=InFlight()).messages == []


# ---- runs that inherit their time to live ----------------------------------------------------------------------------


def entry(name: str, origin: str = "plant", ttl: float | None = 60) -> Entry:
    return Entry(name, name.encode(), (Reference(REST, ttl, "default/all", origin),))


def opened(folder: Path) -> SqliteOutbox:
    return SqliteOutbox(folder / "outbox.db", epoch=1, max_bytes=1 << 20)


async def expiries(box: SqliteOutbox, now: float = 0) -> list[float | None]:
    items = await box.fetch(REST, after=NOTHING_DONE, now=now, messages_max=99, bytes_max=1 << 20)
    return [item.expires for item in items]


async def test_a_change_survives_and_is_taken_up_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when there are more runs than one step takes."""
    monkeypatch.setattr(expiry, "STEP_ROWS", 2)
    box = opened(tmp_path)
    for number in range(5):
        await box.append([entry(str(number))], now=number)
    await box.inherit({"plant": 30}, now=5)
    await box.close()
    box = opened(tmp_path)
    assert await expiries(box) == [30, 31, 32, 33, 34]
    await box.inherit({"plant": 40}, now=31.5)
    assert await expiries(box, 32) == [42, 43, 44]
    assert await box.scrubber.scrub() == 0
    await box.close()


async def test_an_expiry_that_the_disk_changed_is_not_believed(tmp_path: Path) -> None:
    box = opened(tmp_path)
    await box.append([entry("a"), entry("b", "shop")], now=0)
    await box.close()
    connection = apsw.Connection(str(tmp_path / "outbox.db"))
    connection.execute("UPDATE runs SET expires = 1.0 WHERE inherits = 'plant'")
    connection.execute("UPDATE runs SET inherits = 'plant' WHERE inherits = 'shop'")
    connection.close()
    box = opened(tmp_path)
    assert await box.sweep(now=50, entire=True) == 0
    assert await box.scrubber.scrub() == 2
    await box.close()
