"""Who may ask."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from tests.support.messaging import Clock, Topics
from tests.support.pki import Authority

from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.io.metrics import Metrics
from fairlead_messaging.server.io.rest import routes
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_wire.io import tls

TOPIC = "/v1/namespaces/default/topics/t"


def files(authority: Authority, name: str) -> tls.Files:
    pair = authority.issue(name, hosts=("127.0.0.1",))
    return tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key)


async def statuses(authority: Authority, clients: list[str] | None, *names: str) -> list[int]:
    """What each certificate is answered for making a topic, and for deleting it."""
    shown = str(authority.certificate)
    settings = MessagingSettings(tls_ca=shown, tls_cert=shown, tls_key=shown, clients=clients)
    broker = Broker(MemoryKV(), settings, Clock(), "service")
    server = TestServer(routes.application(broker, Metrics()), host="127.0.0.1")
    await server.start_server(ssl=tls.server_context(files(authority, "messaging")))
    found = []
    try:
        for name in names:
            context: ssl.SSLContext = tls.client_context(files(authority, name))
            async with aiohttp.ClientSession() as session:
                for method in ("PUT", "DELETE"):
                    async with session.request(method, server.make_url(TOPIC), ssl=context) as answer:
                        found.append(answer.status)
    finally:
        await server.close()
        await broker.close()
    return found


async def test_a_nodes_certificate_does_not_open_messaging(tmp_path: Path) -> None:
    """Nodes go through the hub, which stamps their name and knows their topics; one authority may sign both."""
    authority = Authority(tmp_path)
    assert await statuses(authority, ["hub", "ingest"], "hub", "edge-1", "hubs") == [200, 200, 403, 403, 403, 403]
    assert await statuses(authority, [], "hub") == [403, 403]


async def test_whom_the_authority_vouches_for_may_ask_unless_clients_are_named(tmp_path: Path) -> None:
    """An authority of its own for services needs no list."""
    assert await statuses(Authority(tmp_path), None, "anybody") == [200, 200]


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
async def test_without_tls_no_web_page_may_ask(topics: Topics, headers: dict[str, str]) -> None:
    """A browser on this machine reaches loopback for any page that is open in it."""
    await topics.create("t")
    asked = await topics.ask("POST", "topics/t/publish", b'{"messages":["YQ=="]}', headers=headers)
    assert (asked.status, asked.code) == (403, "forbidden")
    assert (await topics.poll("t")).payloads == []
