"""A handshake that fails says whose certificate it was, on both sides, with and without an event loop."""

from __future__ import annotations

import asyncio
import datetime
import io
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.joining.pki import Authority

from fairlead_wire.identity.certificate import Certificate
from fairlead_wire.io import handshake, logs, tls
from fairlead_wire.log_limiter import LogLimiter

LATE = -datetime.timedelta(minutes=1)
NOW = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
WHOSE = Certificate(common_name="edge-1", names=(), issuer="a", not_before=NOW, not_after=NOW)


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs.configure("hub", stream=stream)
    monkeypatch.setattr(handshake, "_limiter", LogLimiter(handshake.LOG_SECONDS))
    yield stream


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours", "ours")


def files(authority: Authority, name: str, *hosts: str, valid: datetime.timedelta | None = None) -> tls.Files:
    pair = authority.issue(name, hosts=hosts) if valid is None else authority.issue(name, hosts=hosts, valid=valid)
    return tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key)


async def meet(server: ssl.SSLContext, client: ssl.SSLContext) -> BaseException:
    """What the client gets from one connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0, ssl=server) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises((OSError, asyncio.IncompleteReadError)) as caught:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
            try:
                await reader.readexactly(1)
            finally:
                writer.close()
    return caught.value


async def test_a_server_logs_a_refused_client_once_in_a_while(authority: Authority, log_lines: io.StringIO) -> None:
    server = tls.server_context(files(authority, "hub", "127.0.0.1"))
    client = tls.client_context(files(authority, "edge-1", valid=LATE))
    for _ in range(2):
        await meet(server, client)
    [line] = map(json.loads, log_lines.getvalue().splitlines())
    assert (line["event"], line["name"], line["check"]) == ("certificate_refused", "edge-1", "certificate has expired")
    assert "issued by ours" in line["reason"] and "valid until" in line["reason"]


async def test_a_server_logs_that_none_was_shown(authority: Authority, log_lines: io.StringIO) -> None:
    bare = ssl.create_default_context(cafile=str(authority.certificate))
    await meet(tls.server_context(files(authority, "hub", "127.0.0.1")), bare)
    [line] = map(json.loads, log_lines.getvalue().splitlines())
    assert (line["name"], line["check"]) == ("", "none was shown")


async def test_a_replaced_context_still_knows_its_own_certificate(authority: Authority, log_lines: io.StringIO) -> None:
    mine = files(authority, "hub", "127.0.0.1")
    server = tls.server_context(mine, logs_refusals=False)
    tls.renew(server, mine)
    await meet(server, tls.client_context(files(authority, "edge-1", valid=LATE)))
    assert log_lines.getvalue() == "", "a server that was asked for silence logs nothing"


async def test_a_client_names_the_servers(authority: Authority) -> None:
    error = await meet(
        tls.server_context(files(authority, "hub", "hub.example")), tls.client_context(files(authority, "edge-1"))
    )
    refused = handshake.refusal(error)
    assert refused is not None and refused.whose is not None and not refused.ours
    assert refused.whose.names == ("hub.example",) and "127.0.0.1" in refused.check and str(refused) in str(error)


def test_without_an_event_loop(authority: Authority) -> None:
    """Programs with plain sockets read the same words, of either side's certificate."""
    server = tls.server_context(files(authority, "hub", "localhost"), logs_refusals=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):
                accepted, _ = listener.accept()
                with accepted:
                    try:
                        server.wrap_socket(accepted, server_side=True).close()
                    except OSError:
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        for name, host, words in (("a", "elsewhere", "the certificate of hub"), ("b", "localhost", "it has expired")):
            client = tls.client_context(files(authority, name, valid=LATE if name == "b" else None))
            with (
                socket.create_connection(listener.getsockname()) as plain,
                pytest.raises(ssl.SSLError, match=words),
                client.wrap_socket(plain, server_hostname=host) as wrapped,
            ):
                wrapped.recv(1)
        thread.join()


def test_what_has_nothing_to_do_with_certificates_is_left_alone() -> None:
    assert handshake.refusal(None) is None
    assert handshake.refusal(ssl.SSLError(1, "other")) is None


def test_the_words() -> None:
    known = handshake.HandshakeFailure(ours=True, whose=WHOSE, check="it has expired")
    assert str(known).startswith("the other side refused our certificate: it has expired; ours is the")
    unknown = handshake.HandshakeFailure(ours=False, whose=None, check="x")
    assert str(unknown) == "the certificate of the other side was refused here: x"
    assert (unknown.event, handshake.HandshakeFailure(ours=True, whose=None, check="x").event) == (
        "certificate_refused",
        "our_certificate_refused",
    )


def test_sending_the_alert_never_fails() -> None:
    ours, theirs = socket.socketpair()
    refused = handshake.HandshakeFailure(ours=False, whose=None, check="x", alert=b"why")
    with theirs:
        spare = handshake.spare(ours)
        ours.close()
        assert spare is not None
        with spare:
            handshake.send_alert(spare, refused)
        assert theirs.recv(10) == b"why"
    handshake.send_alert(None, refused)
    handshake.send_alert(ours, refused)
    assert handshake.spare(ours) is None


async def pass_through(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """One connection that works."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0, ssl=server) as listener:
        port = listener.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        assert await reader.readexactly(1) == b"x"
        writer.close()


async def test_a_clock_that_is_not_believed_accepts_what_ended_later_than_a_bound(authority: Authority) -> None:
    """Names and authorities are checked as ever, and what ended before the bound is refused."""
    now = datetime.datetime.now(datetime.UTC).timestamp()
    server = tls.server_context(files(authority, "hub", "127.0.0.1", valid=LATE))
    client = tls.client_context(files(authority, "edge-1"))
    assert isinstance(client, handshake.HandshakeContext)
    assert "expired" in str(await meet(server, client))
    client.distrust_clock(now - 3600)
    await pass_through(server, client)
    client.distrust_clock(now)
    found = handshake.refusal(await meet(server, client))
    assert found is not None and (found.ours, found.check) == (False, "certificate has expired")
    assert found.whose is not None and found.whose.common_name == "hub"
    client.distrust_clock(None)
    assert "expired" in str(await meet(server, client))


async def test_a_clock_that_is_not_believed_still_wants_the_right_name_and_authority(
    authority: Authority, tmp_path: Path
) -> None:
    client = tls.client_context(files(authority, "edge-1"))
    assert isinstance(client, handshake.HandshakeContext)
    client.distrust_clock(0.0)
    other = tls.server_context(files(authority, "hub", "hub.example"))
    assert "IP address mismatch" in str(await meet(other, client))
    stranger = tls.server_context(files(Authority(tmp_path / "theirs", "theirs"), "hub", "127.0.0.1"))
    found = handshake.refusal(await meet(stranger, client))
    assert found is not None and not found.ours


async def test_a_server_whose_clock_is_not_believed_takes_clients_by_the_same_bound(authority: Authority) -> None:
    now = datetime.datetime.now(datetime.UTC).timestamp()
    server = tls.server_context(files(authority, "hub", "127.0.0.1"), logs_refusals=False)
    client = tls.client_context(files(authority, "edge-1", valid=LATE))
    assert isinstance(server, handshake.HandshakeContext)
    server.distrust_clock(now - 3600)
    await pass_through(server, client)
    server.distrust_clock(now)
    await meet(server, client)
