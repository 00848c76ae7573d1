"""Messages whose time to live ended."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.io.outbox.tables import expiry
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import NOTHING_DONE, QueueId

REST = QueueId("iothub")


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
    """Even if there are more runs than one step changes."""
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
