"""The way to the hub: the first step that fails is the finding."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.hubs.hub_server import HubServer
from tests.support.joining.pki import Authority, Pair
from tests.support.processes import free_ports

from fairlead_cli.doctor.device import link
from fairlead_cli.doctor.device.link import Trip, judge
from fairlead_wire import message
from fairlead_wire.io import tls

NOW = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)


def found(**facts: object) -> list[tuple[str, str, str]]:
    trip = Trip(host="hub.example.com", port=10000, addresses=("192.0.2.7",), **facts)  # type: ignore[arg-type]
    return [(each.check, each.level, each.message + each.remedy) for each in judge(trip, NOW, "edge-1")]


def test_all_steps() -> None:
    assert [(check, level) for check, level, _ in found(greeted=True, hub="hub-0", hub_time=NOW)] == [
        ("proxy", "ok"), ("dns", "ok"), ("clock.skew", "ok"), ("link", "ok"),
    ]  # fmt: skip
    assert "no hello was sent because the agent is running" in found()[-1][2]


def test_a_step_that_fails() -> None:
    check, level, text = found(failed="hello", reason="there is no Node edge-1", code="node_unknown")[-1]
    assert (check, level) == ("link.hello", "problem")
    assert "there is no Node edge-1 (node_unknown)" in text and "kubectl label node edge-1" in text
    refused = found(failed="hello", reason="this edge has obeyed hub 901, this is 1", code="stale_hub")[-1]
    assert refused[1] == "problem" and refused[2].endswith(": fairlead node approve edge-1")
    assert found(failed="dns", reason="Name or service not known")[-1][:2] == ("dns", "problem")


def test_dates_that_fail_are_held_against_the_hubs_clock() -> None:
    """A clock that is wrong here, a certificate that has ended, and a hub whose time is not known."""
    reason, later = "the hub's certificate: certificate is not yet valid", NOW + datetime.timedelta(days=2)
    wrong = found(failed="tls", reason=reason, hub_time=later)
    assert ("clock.skew", "problem") in [each[:2] for each in wrong]
    assert "set this device's clock: it is 2 d behind the hub's" in wrong[-1][2] and "renew" not in wrong[-1][2]
    assert found(failed="tls", reason=reason, hub_time=NOW)[-1][2].endswith(link.REMEDIES["tls"])
    assert (
        "if it is not 2026-11-22 00:00 UTC now, set this device's clock; otherwise"
        in found(failed="tls", reason=reason)[-1][2]
    )


def test_a_hub_that_hangs_has_no_wrong_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "STEP_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        trip = link.dial(f"wss://127.0.0.1:{port}", ssl.create_default_context(), None)
    assert trip.failed == "tls" and trip.silent
    [*_, last] = judge(trip, NOW, "edge-1")
    assert "accepts the connection but does not respond" in last.message and last.remedy == link.SILENT


def test_proxies() -> None:
    assert found(proxy="http://proxy:3128")[0][:2] == ("proxy", "warning")
    _, level, text = found(unused_proxy="HTTPS_PROXY")[0]
    assert level == "ok" and "HTTPS_PROXY is set but not used" in text


# ---- dialling ----


HELLO = message.Hello(node="edge-1", agent="0.1.0", store_epoch=1, fence=0, bits=0, held=0, root="")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine answers late; and the proxies of this machine are for the world outside."""
    monkeypatch.setattr(link, "STEP_SECONDS", 120.0)
    for name in (*link.PROXY_VARIABLES, "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def client(authority: Authority, pair: Pair) -> ssl.SSLContext:
    return tls.client_context(tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key))


def server(authority: Authority, pair: Pair) -> ssl.SSLContext:
    files = tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key)
    return tls.server_context(files, logs_refusals=False)


async def dial(url: str, context: ssl.SSLContext | None = None, hello: message.Hello | None = None) -> Trip:
    return await asyncio.to_thread(link.dial, url, context, hello)


async def test_a_hub_that_welcomes() -> None:
    """Its name and its time; without a hello, up to the WebSocket upgrade."""
    async with HubServer() as hub:
        going = asyncio.create_task(dial(hub.url, None, HELLO))
        await hub.open()
        trip = await going
        assert trip.greeted and trip.hub == "test-hub" and not trip.failed and trip.addresses == ("127.0.0.1",)
        assert trip.hub_time is not None
        assert not (await dial(hub.url)).greeted


async def test_a_hub_that_refuses() -> None:
    async with HubServer() as hub:
        going = asyncio.create_task(dial(hub.url, None, HELLO))
        peer = await hub.accept()
        await peer.send(message.Refuse(code="node_unknown", reason="there is no Node edge-1"))
        trip = await going
        assert (trip.failed, trip.code, trip.reason) == ("hello", "node_unknown", "there is no Node edge-1")


async def test_certificates(tmp_path: Path) -> None:
    """Good ones; an authority the hub does not know; a hub of an unknown authority, with another name, expired."""
    ours, theirs = Authority(tmp_path / "a", "ours"), Authority(tmp_path / "b", "theirs")
    edge, foreign = ours.issue("edge-1"), theirs.issue("edge-1")
    good = ours.issue("hub", hosts=("127.0.0.1",))
    async with HubServer(context=server(ours, good)) as hub:
        trip = await dial(hub.url, client(ours, edge))
        assert not trip.failed and trip.hub_certificate is not None and trip.hub_certificate.name == "hub"
        trip = await dial(hub.url, client(ours, foreign))
        assert trip.failed == "tls" and "our certificate" in trip.reason and "theirs" in trip.reason
        trip = await dial(hub.url, client(theirs, foreign))
        assert trip.failed == "tls" and "was refused here" in trip.reason
    for wrong in (
        ours.issue("other", hosts=("192.0.2.1",)),
        ours.issue("old", hosts=("127.0.0.1",), valid=datetime.timedelta(seconds=-1)),
    ):
        async with HubServer(context=server(ours, wrong)) as hub:
            assert (await dial(hub.url, client(ours, edge))).failed == "tls"
    admits_all = tls.server_context(  # as a hub that signs
        tls.Files(ca=ours.certificate, cert=wrong.certificate, key=wrong.key), verifies_clients=False
    )
    async with HubServer(context=admits_all) as hub:
        trip = await dial(hub.url, client(ours, edge))
        assert trip.failed == "tls" and "expired" in trip.reason and trip.hub_time is not None


async def test_ports_and_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed port, a name that is none, and a program that is no hub."""
    trip = await dial(f"ws://127.0.0.1:{free_ports(1)[0]}")
    assert (trip.failed, trip.reason) == ("tcp", "Connection refused")
    real = socket.getaddrinfo

    def resolve(host: str, *arguments: Any, **more: Any) -> Any:
        """No network is asked: some answer for every name, some not at all."""
        if host == "no-such-host.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    trip = await dial("ws://no-such-host.invalid:10000")
    assert (trip.failed, trip.reason) == ("dns", "Name or service not known")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        trip = await dial(f"ws://127.0.0.1:{port}")
        assert trip.failed == "upgrade" and "HTTP 404" in trip.reason


def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one an agent would use is asked, and its password is never shown."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        heard: list[bytes] = []

        def refuse() -> None:
            connection, _ = listening.accept()
            with connection:
                heard.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://user:hunter2@127.0.0.1:{listening.getsockname()[1]}")
        trip = link.dial("wss://hub.example.com:10000", None, None)
        thread.join()
        assert heard[0].startswith(b"CONNECT hub.example.com:10000 HTTP/1.1\r\n")
        assert trip.failed == "tcp" and "403 Forbidden" in trip.reason
        assert trip.proxy.startswith("http://127.0.0.1:") and "hunter2" not in repr(trip)
