"""The conversation without a certificate: what is learned of the other side, and how it fails."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import re
import ssl
from pathlib import Path

import pytest
from tests.support.joining.join_hub import JoinHub

from fairlead_edge.io.identity import join_client
from fairlead_edge.io.identity.join_client import HubUnreachable, RefusedByHub
from fairlead_wire import message
from fairlead_wire.identity.join_token import ALPN


@pytest.fixture(autouse=True)
def no_exceptions_from_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the machine that runs the tests."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


async def test_what_is_learned_of_a_hub(tmp_path: Path) -> None:
    async with JoinHub(tmp_path) as hub, join_client.connected(hub.url, join_client.unverified(), agent="0") as found:
        assert await found.authorities() == hub.internal.certificate.read_bytes()
        assert found.hub_certificate() == ssl.PEM_cert_to_DER_cert(hub.own.certificate.read_text())
        theirs = found.hub_time()
        assert theirs is not None
        assert abs(datetime.datetime.now(datetime.UTC) - theirs) < datetime.timedelta(minutes=10)
        assert hub.protocols == [ALPN]


async def test_a_verified_context_believes_one_authority(tmp_path: Path) -> None:
    async with JoinHub(tmp_path / "a") as hub, JoinHub(tmp_path / "b") as other:
        context = join_client.verified(hub.internal.certificate.read_bytes())
        async with join_client.connected(hub.url, context, agent="0") as found:
            await found.authorities()
        with pytest.raises(HubUnreachable) as refused:
            async with join_client.connected(other.url, context, agent="0"):
                pass
        assert refused.value.refusal is not None and not refused.value.refusal.ours


async def test_refusals_and_silence_have_names(tmp_path: Path) -> None:
    async with JoinHub(tmp_path) as hub:
        hub.answers = [("refuse", "busy", 2.0), ("hang up",)]
        request = message.Join(token_id="a", secret="b", agent="0")
        async with join_client.connected(hub.url, join_client.unverified(), agent="0") as found:
            with pytest.raises(RefusedByHub, match="busy: so it is") as refused:
                await found.ask(request)
            assert (refused.value.code, refused.value.retry_after) == ("busy", 2.0)
        hub.answers = [("close",)]
        async with join_client.connected(hub.url, join_client.unverified(), agent="0") as found:
            with pytest.raises(HubUnreachable, match="closed the connection without an answer"):
                await found.ask(request)


@pytest.mark.parametrize(
    ("url", "proxy", "sentence"),
    [
        ("wss://a..b:1", {}, "a..b:1 cannot be reached: not a valid host name"),
        ("wss://127.0.0.1:1", {}, "127.0.0.1:1 cannot be reached: "),
        (
            "wss://hub.invalid:1",
            {"https_proxy": "nonsense"},
            "cannot be reached: the proxy setting is unusable: nonsense",
        ),
        ("wss://hub.invalid:1", {"https_proxy": "http://127.0.0.1:1"}, "hub.invalid:1 cannot be reached: "),
    ],
)
async def test_a_way_that_leads_nowhere_is_one_sentence(
    url: str, proxy: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in proxy.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(HubUnreachable, match=re.escape(sentence)):
        async with join_client.connected(url, join_client.unverified(), agent="0"):
            pass


async def test_it_goes_through_the_proxy_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the agent's link does; the proxy finds the hub, and TLS is between device and hub."""
    asked: list[bytes] = []
    async with JoinHub(tmp_path, hosts=("hub.example",)) as hub:

        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append((await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0])
            beyond, to_hub = await asyncio.open_connection("127.0.0.1", hub.port)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await asyncio.gather(_pass_on(reader, to_hub), _pass_on(beyond, writer))

        proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        url = f"wss://hub.example:{hub.port}"
        context = join_client.verified(hub.internal.certificate.read_bytes())
        async with join_client.connected(url, context, agent="0") as found:
            assert await found.authorities() == hub.internal.certificate.read_bytes()
        proxy.close()
    assert asked == [f"CONNECT hub.example:{hub.port} HTTP/1.1".encode()]


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while content := await reader.read(65_536):
            writer.write(content)
    writer.close()
