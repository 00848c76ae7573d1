"""Group commit: order, sharing, limits, failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support.topics.messaging import Clock
from tests.support.topics.messaging_core import NAMESPACE, publish

from fairlead_messaging.api.errors import Conflict, StorageError, Unavailable
from fairlead_messaging.server.commands import Command, CreateTopic, PublishedAt, RecordReaderPosition
from fairlead_messaging.server.io import committer
from fairlead_messaging.server.io.committer import Committer
from fairlead_messaging.server.service import Service
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch


class Gate(MemoryKV):
    """A store whose writes wait until they are let through, and fail when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.open.set()
        self.failing = False
        self.writes = 0

    def apply(self, batch: Batch) -> None:
        self.open.wait()
        self.writes += 1
        if self.failing:
            self.failing = False
            raise StorageError("no")
        super().apply(batch)


@pytest_asyncio.fixture
async def kv() -> Gate:
    return Gate()


@pytest_asyncio.fixture
async def group(kv: Gate) -> AsyncIterator[Committer]:
    made = Committer(kv, Service(kv), Clock(), lambda names: None)
    await made.submit(create())
    yield made
    kv.open.set()
    await made.close()


def create() -> CreateTopic:
    return CreateTopic(namespace=NAMESPACE, name="t", ttl_seconds=100, properties={})


async def gather(group: Committer, kv: Gate, *commands: Command[Any]) -> list[object]:
    """All commands while one write is held up, so that they share the next one."""
    kv.open.clear()
    first = asyncio.create_task(group.submit(publish("t", "first")))
    await asyncio.sleep(0)
    rest = [asyncio.create_task(group.submit(command)) for command in commands]
    await asyncio.sleep(0)
    kv.open.set()
    await first
    return list(await asyncio.gather(*rest, return_exceptions=True))


async def test_what_waits_becomes_one_write(group: Committer, kv: Gate) -> None:
    before = kv.writes
    answers = await gather(group, kv, *(publish("t", str(number)) for number in range(50)))
    assert all(isinstance(answer, PublishedAt) for answer in answers)
    assert kv.writes - before == 2


async def test_a_failed_write_fails_each_of_its_commands(group: Committer, kv: Gate) -> None:
    """Refusals too, for they may rest on what was not stored; afterwards everything works."""
    kv.open.clear()
    first = asyncio.create_task(group.submit(publish("t", "first")))
    await asyncio.sleep(0)
    rest = [asyncio.create_task(group.submit(command)) for command in (publish("t", "a"), create(), publish("t", "b"))]
    await asyncio.sleep(0)
    kv.failing = True
    kv.open.set()
    answers = await asyncio.gather(first, *rest, return_exceptions=True)
    failed = [answer for answer in answers if isinstance(answer, Unavailable)]
    assert [error.code for error in failed] == ["storage_failed"] * len(failed)
    assert len(failed) in (1, 3)  # whichever write the failure met
    again = await group.submit(publish("t", "again"))
    assert isinstance(again, PublishedAt)
    assert group.failures == 1


async def test_refusals_do_not_cost_others(group: Committer, kv: Gate) -> None:
    one, two, three = await gather(group, kv, publish("t", "a"), create(), publish("t", "b"))
    assert isinstance(one, PublishedAt) and isinstance(two, Conflict) and isinstance(three, PublishedAt)


async def test_too_much_waiting_is_refused_for_now(group: Committer, kv: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "WAITING_COMMANDS_MAX", 5)
    answers = await gather(group, kv, *(publish("t", str(number)) for number in range(10)))
    assert sum(isinstance(answer, PublishedAt) for answer in answers) == 5
    with pytest.raises(Unavailable) as refused:
        await group.submit(publish("t", "huge"), committer.WAITING_BYTES_MAX + 1)
    assert refused.value.code == "overloaded"


async def test_large_groups_are_cut(group: Committer, kv: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "GROUP_BYTES_MAX", 1000)
    before = kv.writes
    await gather(group, kv, *(publish("t", "x" * 600) for _ in range(6)))
    assert kv.writes - before >= 4


async def test_a_defect_fails_its_batch_and_nothing_else(group: Committer, kv: Gate) -> None:
    broken = RecordReaderPosition(namespace=NAMESPACE, name="t", reader=None, position=b"", generation=None)  # type: ignore[arg-type]
    with pytest.raises(Unavailable):
        await group.submit(broken)
    after = await group.submit(publish("t", "a"))
    assert isinstance(after, PublishedAt)
