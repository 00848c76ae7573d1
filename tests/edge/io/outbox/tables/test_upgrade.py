"""A store of the program that knew no checksums goes on under this one, and is watched over from then on.

``data/outbox-1.db.gz`` was written by that program: 31 messages for three queues, four of them settled.
"""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from fairlead_edge.errors import KeyReused
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.outbox import IdempotencyKey
from fairlead_edge.outbox.queue_id import QueueId

OLD = Path(__file__).parents[3] / "data" / "outbox-1.db.gz"
ALARMS, REST, MODULE = QueueId("iothub", 0), QueueId("iothub"), QueueId("edge-1/m/in", 3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "outbox.db"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    return path


@pytest.fixture
async def box(file: Path) -> AsyncIterator[SqliteOutbox]:
    opened = SqliteOutbox(file, epoch=5, max_bytes=1 << 30)
    yield opened
    await opened.close()


async def ids(box: SqliteOutbox, queue: QueueId) -> list[str]:
    items = await box.fetch(queue, after=-1, now=3, messages_max=99, bytes_max=1 << 20)
    return [envelope.read(item.content).id for item in items]


async def test_everything_is_there(box: SqliteOutbox) -> None:
    """Messages, counters, the dead letter and the key."""
    assert await ids(box, REST) == [f"old-{number}" for number in range(4, 30)]
    assert await ids(box, MODULE) == [f"old-{number}" for number in range(20, 30)]
    assert await ids(box, ALARMS) == ["old-30"]
    [letter] = await box.dead_letters()
    assert (envelope.read(letter.content).id, letter.code) == ("old-3", "no")
    assert await box.append([], now=3, idempotency=IdempotencyKey("key-1", b"d" * 32, b"other")) == b'{"results":[]}'
    with pytest.raises(KeyReused):
        await box.append([], now=3, idempotency=IdempotencyKey("key-1", b"e" * 32, b"other"))
    status = await box.status(now=3)
    assert [(each.accepted, each.sent, each.dead_lettered, each.damaged, each.length) for each in status.queues] == [
        (10, 0, 0, 0, 10),
        (1, 0, 0, 0, 1),
        (30, 3, 1, 0, 26),
    ]


async def test_damage_after_the_upgrade_is_noticed(file: Path) -> None:
    """Nothing that an older program accepted is exempt."""
    box = SqliteOutbox(file, epoch=5, max_bytes=1 << 30)
    await box.close()
    connection = apsw.Connection(str(file))
    connection.execute("UPDATE references_ SET start = start + 1 WHERE offset = 7 AND queue = 1")
    connection.close()
    box = SqliteOutbox(file, epoch=6, max_bytes=1 << 30)
    assert "old-7" not in await ids(box, REST)
    assert sum(each.damaged for each in (await box.status(now=3)).queues) == 1
    await box.close()


async def test_what_was_damaged_before_is_damaged(file: Path) -> None:
    """A body that cannot be read at the upgrade gets no checksum that would make it true."""
    connection = apsw.Connection(str(file))
    connection.execute("UPDATE references_ SET start = start + 1 WHERE offset = 7 AND queue = 1")
    connection.close()
    box = SqliteOutbox(file, epoch=6, max_bytes=1 << 30)
    assert await ids(box, REST) != []
    assert sum(each.damaged for each in (await box.status(now=3)).queues) == 1
    await box.close()
