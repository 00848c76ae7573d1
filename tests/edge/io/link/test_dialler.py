"""One attempt to reach a hub, and the words for what fails."""

from __future__ import annotations

import os
import re
import socket
import ssl
import sys

import pytest
from websockets.asyncio.server import serve
from websockets.http11 import Request, Response

from fairlead_edge.io.line_meter import LineMeter
from fairlead_edge.io.link.dialler import Dialler, LinkUnreachable, TurnedAway


def test_the_port_follows_from_the_scheme() -> None:
    assert (Dialler("wss://hub", agent="1").port, Dialler("ws://hub", agent="1").port) == (443, 80)
    assert (Dialler("wss://hub:10000", agent="1").host, Dialler("wss://hub:10000", agent="1").port) == ("hub", 10000)


async def test_a_port_without_a_hub_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(LinkUnreachable) as caught:
        await Dialler(f"ws://127.0.0.1:{port}", agent="1").connect(None)
    assert caught.value.refused is None and not caught.value.hung_up and "refused" in str(caught.value).lower()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts")
async def test_an_attempt_that_came_to_nothing_is_counted() -> None:
    """A hub that is away is dialled each second: that adds up to megabytes a day."""
    meter = LineMeter()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for number in (1, 2):
        with pytest.raises(LinkUnreachable):
            await Dialler(f"ws://127.0.0.1:{port}", agent="1", meter=meter).connect(None)
        meter.end()
        assert meter.carried().headers >= number * 52


async def test_an_http_answer_says_when_to_come_back() -> None:
    def busy(connection: object, request: Request) -> Response:
        from websockets.datastructures import Headers

        return Response(503, "busy", Headers({"Retry-After": "7"}))

    async with serve(lambda connection: connection.wait_closed(), "127.0.0.1", 0, process_request=busy) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TurnedAway, match="HTTP 503") as caught:
            await Dialler(f"ws://127.0.0.1:{port}", agent="1").connect(None)
        assert caught.value.retry_after == 7.0


@pytest.mark.parametrize(
    ("url", "proxy", "sentence"),
    [
        ("wss://a..b:1", "", "'a..b' is not a valid host name"),
        ("wss://hub.invalid:1", "socks5h://127.0.0.1:1", "SOCKS proxies are not supported"),
        ("wss://hub.invalid:1", "nonsense", "nonsense isn't a valid proxy"),
    ],
)
async def test_an_address_that_cannot_be_dialled_is_reported_and_ends_no_agent(
    url: str, proxy: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    if proxy:
        monkeypatch.setenv("socks_proxy" if proxy.startswith("socks") else "https_proxy", proxy)
    with pytest.raises(LinkUnreachable, match=re.escape(sentence)):
        await Dialler(url, agent="1").connect(ssl.create_default_context())
