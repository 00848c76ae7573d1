"""The listening socket: few openings at once, everybody's turn comes, and who only pretends is seen off."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.upstream import until
from tests.support.joining.pki import Authority
from websockets.asyncio.client import connect

from fairlead_hub.io.link import acceptor as acceptor_module
from fairlead_hub.io.link.acceptor import LinkAcceptor, LinkSocket
from fairlead_wire.io import tls

WAIT_SECONDS = 100.0
HALF = b"GET / HTTP/1.1\r\nHost: hub\r\n"
"""An upgrade that never ends."""


class Door:
    """An acceptor whose sockets count as sessions at once, unless ``hold`` says to keep them in their opening."""

    def __init__(self, *, context: ssl.SSLContext | None = None, hold: bool = False, **options: Any) -> None:
        self.failed: Counter[str] = Counter()
        self.opened: list[LinkSocket] = []
        self.most = 0
        self._hold = hold
        options = {"slots_max": 4, "seconds_max": WAIT_SECONDS, **options}
        self.acceptor = LinkAcceptor(self._take, context=context, failed=self.failed, **options)
        self.url = ""
        self.port = 0
        self._scheme = "wss" if context else "ws"

    def _take(self, connection: LinkSocket) -> None:
        self.most = max(self.most, self.acceptor.under_way)
        self.opened.append(connection)
        if not self._hold:
            self.acceptor.opened(connection)

    async def __aenter__(self) -> Door:
        self.port = await self.acceptor.start("127.0.0.1", 0)
        self.url = f"{self._scheme}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.acceptor.close()
        for connection in self.opened:
            connection.transport.abort()

    @contextlib.asynccontextmanager
    async def stranger(self, says: bytes = b"") -> AsyncIterator[asyncio.StreamReader]:
        """A bare TCP connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(says)
        try:
            yield reader
        finally:
            writer.close()

    async def visit(self, context: ssl.SSLContext | None = None) -> None:
        """A well-behaved opening."""
        async with asyncio.timeout(WAIT_SECONDS), connect(self.url, ssl=context, compression=None, proxy=None):
            pass


@pytest.mark.slow
async def test_however_many_come_at_once_few_are_opened_at_a_time(tmp_path: Path) -> None:
    """Forty handshakes through four slots: all succeed at the first attempt."""
    authority = Authority(tmp_path)
    hub, node = authority.issue("hub", hosts=("127.0.0.1",)), authority.issue("node")

    def files(pair: Any) -> tls.Files:
        return tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key)

    async with Door(context=tls.server_context(files(hub))) as door:
        await asyncio.gather(*(door.visit(tls.client_context(files(node))) for _ in range(40)))
        assert len(door.opened) == 40 and door.most <= 4 and not door.failed


async def test_an_opening_ends_with_the_session_and_not_before() -> None:
    """One slot, one connection that has not said who it is: the next waits until the first is judged."""
    async with Door(slots_max=1, slot_seconds=60, hold=True) as door, connect(door.url, proxy=None):
        await until(lambda: door.opened)
        second = asyncio.create_task(door.visit())
        await asyncio.wait({second}, timeout=0.05)
        assert len(door.opened) == 1 and not second.done()
        door.acceptor.opened(door.opened[0])
        await until(lambda: len(door.opened) == 2)
        door.acceptor.opened(door.opened[1])
        await second


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="this kernel does not tell")
async def test_how_many_wait_for_their_turn_is_known() -> None:
    """The kernel keeps the queue, and tells how long it is."""
    async with Door(slots_max=1, slot_seconds=60, hold=True) as door, connect(door.url, proxy=None):
        await until(lambda: door.opened)
        assert door.acceptor.queued == 0
        async with door.stranger(HALF), door.stranger(HALF):
            await until(lambda: door.acceptor.queued == 2)
            door.acceptor.opened(door.opened[0])
            await until(lambda: door.acceptor.queued < 2)


async def test_a_silent_peer_gives_its_slot_back_soon() -> None:
    """It began and says nothing more; the next is served while it still has its time."""
    async with Door(slots_max=1, slot_seconds=0.05) as door, door.stranger(HALF):
        await until(lambda: door.acceptor.under_way == 1)
        await door.visit()
        assert door.acceptor.under_way == 1 and not door.failed


@pytest.mark.slow
async def test_a_silent_peer_is_closed_after_its_time() -> None:
    """Half an upgrade is none."""
    async with Door(seconds_max=0.1) as door, door.stranger(HALF) as reader, asyncio.timeout(WAIT_SECONDS):
        assert await reader.read() == b""
        assert door.failed == {"deadline": 1} and door.acceptor.under_way == 0


async def test_a_silent_peer_of_a_tls_port_is_closed_after_its_time(tmp_path: Path) -> None:
    """It said hello in TLS' way, and nothing more."""
    authority = Authority(tmp_path)
    pair = authority.issue("hub", hosts=("127.0.0.1",))
    context = tls.server_context(tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key))
    hello = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="hub").do_handshake()
    async with Door(context=context, seconds_max=0.2) as door, door.stranger(hello.read()) as reader:
        async with asyncio.timeout(WAIT_SECONDS):
            await reader.read()
            await until(lambda: door.failed == {"deadline": 1} and door.acceptor.under_way == 0)


@pytest.mark.skipif(not hasattr(socket, "TCP_DEFER_ACCEPT"), reason="Linux holds back who says nothing")
async def test_who_connects_and_says_nothing_is_not_even_let_in() -> None:
    """The kernel keeps it; a thousand such cost no slot and no memory of ours."""
    async with (
        Door(slots_max=1, slot_seconds=60, hold=True) as door,
        door.stranger(),
        connect(door.url, proxy=None),
    ):
        await until(lambda: door.opened)
        assert door.acceptor.under_way == 1


@pytest.mark.skipif(sys.platform != "linux", reason="POLLRDHUP")
async def test_no_work_is_done_for_who_has_left() -> None:
    """It waited, had enough and went; its turn is passed over."""
    async with Door(slots_max=1, slot_seconds=60, hold=True) as door, connect(door.url, proxy=None):
        await until(lambda: door.opened)
        async with door.stranger(HALF):
            pass
        door.acceptor.opened(door.opened[0])
        await until(lambda: door.failed == {"left": 1})
        assert len(door.opened) == 1


@pytest.mark.parametrize("first", [b"\x16\x03\x01\r\nhello\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\r\n" * 40], ids=repr)
async def test_what_is_no_upgrade_is_answered_and_closed(first: bytes) -> None:
    """Counted, and the door stays open for others."""
    async with Door() as door:
        async with door.stranger(first) as reader, asyncio.timeout(WAIT_SECONDS):
            await reader.read()
        await until(lambda: door.failed == {"upgrade": 1})
        await door.visit()


async def test_what_is_no_tls_is_closed(tmp_path: Path) -> None:
    """An HTTP request on a TLS port."""
    authority = Authority(tmp_path)
    pair = authority.issue("hub", hosts=("127.0.0.1",))
    context = tls.server_context(tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key))
    async with Door(context=context) as door:
        async with door.stranger(HALF) as reader, asyncio.timeout(WAIT_SECONDS):
            await reader.read()
        await until(lambda: door.failed == {"tls": 1})
        assert door.acceptor.under_way == 0


async def test_without_file_descriptors_it_waits_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection stays in the kernel's queue meanwhile."""
    monkeypatch.setattr(acceptor_module, "EXHAUSTED_SECONDS", 0.01)
    real, refusals = socket.socket.accept, [OSError(errno.EMFILE, "too many open files")] * 3

    def accept(self: socket.socket) -> Any:
        if refusals:
            raise refusals.pop()
        return real(self)

    async with Door() as door:
        monkeypatch.setattr(socket.socket, "accept", accept)
        await door.visit()
        assert not refusals


async def test_an_error_of_one_connection_is_not_the_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network went away between SYN and accept: the next connection is served."""
    real, errors = socket.socket.accept, [OSError(errno.EHOSTUNREACH, "no route to host")]

    def accept(self: socket.socket) -> Any:
        if errors:
            raise errors.pop()
        return real(self)

    async with Door() as door:
        monkeypatch.setattr(socket.socket, "accept", accept)
        await door.visit()
        assert not errors


async def test_an_address_in_use_is_said() -> None:
    """The caller decides what that means."""
    async with Door() as door:
        other = Door()
        with pytest.raises(OSError, match=r"in use"):
            await other.acceptor.start("127.0.0.1", door.port)
        other.acceptor.close()
