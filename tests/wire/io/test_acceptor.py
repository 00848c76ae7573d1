"""Connections are accepted until it is closed, and too many that are opening do not keep others out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from fairlead_wire.io import logs
from fairlead_wire.io.acceptor import Acceptor, bound

LOG = logs.get("test.acceptor")
SECONDS = 60.0


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
        await asyncio.sleep(0.005)


def test_an_address_that_is_taken_is_named() -> None:
    [taken] = bound("127.0.0.1", 0, backlog=1)
    port = taken.getsockname()[1]
    with taken, pytest.raises(OSError, match=f"127.0.0.1:{port}: ") as refused:
        bound("127.0.0.1", port, backlog=1)
    assert refused.value.errno is not None


async def test_each_connection_is_opened_beside_the_others() -> None:
    """One that takes its time does not hold the next up; what it closes itself needs no task."""
    opened: list[str] = []
    waiting = asyncio.Event()

    async def open_it(connection: socket.socket, which: int) -> None:
        with connection:
            if which == 1:
                await waiting.wait()
            opened.append(f"connection {which}")

    count = 0

    def accepted(connection: socket.socket, peer: str) -> Coroutine[Any, Any, None] | None:
        nonlocal count
        count += 1
        assert peer == "127.0.0.1"
        if count == 2:
            connection.close()
            return None
        return open_it(connection, count)

    acceptor = Acceptor(
        bound("127.0.0.1", 0, backlog=9), accepted, lambda: None, tick_seconds=SECONDS, retry_seconds=0.01, log=LOG
    )
    async with asyncio.timeout(SECONDS):
        for _ in range(3):
            _, writer = await asyncio.open_connection(*acceptor.address)
            writer.close()
        await until(lambda: opened == ["connection 3"])
        waiting.set()
        await until(lambda: len(opened) == 2)
    await acceptor.close()


async def test_the_oldest_that_is_opening_makes_way() -> None:
    """A client that opens connections and sends nothing keeps no other out."""
    ended: list[int] = []
    begun: list[int] = []

    async def open_it(connection: socket.socket, which: int) -> None:
        begun.append(which)
        try:
            with connection:
                await asyncio.Event().wait()
        finally:
            ended.append(which)

    numbers = iter(range(9))
    acceptor = Acceptor(
        bound("127.0.0.1", 0, backlog=9), lambda connection, peer: open_it(connection, next(numbers)), lambda: None,
        tick_seconds=SECONDS, retry_seconds=0.01, log=LOG, opening_max=2,
    )  # fmt: skip
    writers = []
    async with asyncio.timeout(SECONDS):
        for count in range(1, 4):
            writers.append((await asyncio.open_connection(*acceptor.address))[1])
            await until(partial(lambda wanted: len(begun) == wanted, count))
        await until(lambda: ended == [0])
        await acceptor.close()
    assert sorted(ended) == [0, 1, 2]
    for writer in writers:
        writer.close()


async def test_it_looks_again_and_again_until_it_is_closed() -> None:
    looked = 0

    def look() -> None:
        nonlocal looked
        looked += 1

    acceptor = Acceptor(
        bound("127.0.0.1", 0, backlog=1), lambda connection, peer: None, look,
        tick_seconds=0.01, retry_seconds=0.01, log=LOG,
    )  # fmt: skip
    async with asyncio.timeout(SECONDS):
        await until(lambda: looked >= 3)
    await acceptor.close()
    seen = looked
    await asyncio.sleep(0.05)
    assert looked == seen
