"""Frames straight to a function and out without waiting, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from tests.support.edges.upstream import until
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode, Frame, Opcode

from fairlead_hub.io.link.acceptor import FRAGMENTS_MAX, LinkAcceptor, LinkSocket

WAIT_SECONDS = 100.0


class Ends:
    """Both ends of one connection; ``heard`` is what came to ours."""

    def __init__(self) -> None:
        self.heard: list[bytes | str] = []
        self.lost = 0
        self.room = 0
        self.ours: LinkSocket
        self.theirs: ClientConnection

    def take(self, ours: LinkSocket) -> None:
        self.ours = ours
        ours.on_message, ours.on_lost, ours.on_room = self.heard.append, self._lose, self._room_changed

    def _lose(self) -> None:
        self.lost += 1

    def _room_changed(self) -> None:
        self.room += 1


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    ends = Ends()
    acceptor = LinkAcceptor(ends.take, context=None, slots_max=4, seconds_max=60, failed=Counter())
    port = await acceptor.start("127.0.0.1", 0)
    async with connect(f"ws://127.0.0.1:{port}", compression=None, proxy=None, max_size=1 << 26) as ends.theirs:
        await until(lambda: hasattr(ends, "ours"))
        yield ends
        ends.ours.transport.abort()
    acceptor.close()


async def test_messages_come_as_they_were_sent(ends: Ends) -> None:
    """Bytes as bytes, in order; text, which should not be sent, as text; pieces joined."""
    await ends.theirs.send(b"one")
    await ends.theirs.send("two")
    await ends.theirs.send([b"th", b"r", b"ee"])
    await until(lambda: len(ends.heard) == 3)
    assert ends.heard == [b"one", "two", b"three"]


async def test_frames_arrive_one_by_one_however_they_were_joined(ends: Ends) -> None:
    """Also those larger than what is joined."""
    frames = [b"a", b"b" * 100_000, b"", b"c"]
    ends.ours.write_frames(frames)
    async with asyncio.timeout(WAIT_SECONDS):
        assert [await ends.theirs.recv(decode=False) for _ in frames] == frames


async def test_a_reader_that_does_not_read_pauses_the_writer(ends: Ends) -> None:
    """And wakes it when it does."""
    ends.theirs.transport.pause_reading()
    while not ends.ours.paused:
        ends.ours.write_frames([b"x" * 1_000_000])
        await asyncio.sleep(0)
    assert ends.room == 1
    ends.theirs.transport.resume_reading()
    reading = asyncio.create_task(_drain(ends.theirs))
    await until(lambda: ends.room == 2 and not ends.ours.paused)
    reading.cancel()


async def _drain(connection: ClientConnection) -> None:
    async for _ in connection:
        pass


async def test_the_end_is_reported_once(ends: Ends) -> None:
    """With a goodbye or without."""
    await ends.theirs.close()
    await until(lambda: ends.lost == 1)
    assert ends.ours.closed_normally
    ends.ours.write_frames([b"it does not arrive"])
    ends.ours.transport.abort()
    assert ends.lost == 1


async def test_a_break_is_no_goodbye(ends: Ends) -> None:
    """The other end vanishes."""
    ends.theirs.transport.abort()
    await until(lambda: ends.lost == 1)
    assert not ends.ours.closed_normally and not ends.ours.is_open


async def test_who_says_goodbye_and_stays_is_put_out(ends: Ends) -> None:
    """The answer was given; after ``close_timeout`` the connection is cut."""
    ends.ours.close_timeout = 0.05
    # The frame alone, so that the peer's own machinery does not close the connection.
    ends.theirs.transport.write(Frame(Opcode.CLOSE, b"\x03\xe8").serialize(mask=True))
    ends.theirs.transport.pause_reading()
    await until(lambda: ends.lost == 1)
    ends.theirs.transport.abort()


async def test_a_message_in_very_many_pieces_ends_the_connection(ends: Ends) -> None:
    """Pieces without content would pass every limit of size."""
    with contextlib.suppress(ConnectionClosed):
        await ends.theirs.send([b""] * (FRAGMENTS_MAX + 2))
    async with asyncio.timeout(WAIT_SECONDS):
        with pytest.raises(ConnectionClosed) as closed:
            await ends.theirs.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == CloseCode.POLICY_VIOLATION
    assert not ends.heard
