"""The line up as a whole: what its owner sees of it."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path

import apsw
import pytest
from tests.support.edges.upstream import FakeHub, body, open_upstream

from fairlead_edge.errors import StoreFailed
from fairlead_edge.io.outbox.store_clock import timestamp
from fairlead_wire.errors import LocalError


def test_wall_is_rfc_3339_in_utc() -> None:
    """To the millisecond, with Z."""
    text = timestamp()
    assert text.endswith("Z") and len(text) == len("2026-11-20T12:00:00.000Z")
    then = datetime.datetime.fromisoformat(text)
    assert abs((datetime.datetime.now(datetime.UTC) - then).total_seconds()) < 60


async def test_failed_disk_ends_the_run_with_its_own_error(tmp_path: Path) -> None:
    """Not wrapped in groups: the program has to know it for what it is."""
    hub = FakeHub()
    upstream = open_upstream(tmp_path / "outbox.db", hub)
    running = asyncio.create_task(upstream.run())
    hub.connect()

    def break_disk(connection: apsw.Connection) -> None:
        connection.execute("ROLLBACK")
        raise apsw.IOError("flush failed")

    with pytest.raises(StoreFailed):
        await upstream.outbox.writer.submit(break_disk)
    with pytest.raises(LocalError):
        await upstream.publisher.publish(body({}))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await upstream.outbox.close()


async def test_disk_that_fails_under_the_pump_is_reported_to_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A settlement that cannot be written ends ``run``."""
    hub = FakeHub()
    upstream = open_upstream(tmp_path / "outbox.db", hub)

    async def broken(*_: object, **__: object) -> None:
        raise StoreFailed("the disk failed")

    monkeypatch.setattr(upstream.outbox, "settle", broken)
    running = asyncio.create_task(upstream.run())
    hub.connect()
    await upstream.publisher.publish(body({}))
    async with asyncio.timeout(100):
        with pytest.raises(StoreFailed, match="the disk failed"):
            await running
    await upstream.outbox.close()
