"""Health, readiness, metrics and account over plain HTTP, asked as a probe or the command line asks."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.joining.pki import Authority

from fairlead_hub import http_operations
from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.io import http
from fairlead_wire.io import tls


class Asked:
    """The service, and its answers as (status, body)."""

    def __init__(
        self, url: str, core: Core, health: http.HubHealth, freshness: WatchHealth, session: aiohttp.ClientSession
    ) -> None:
        self._url, self.core, self.health, self._session = url, core, health, session
        self.freshness = freshness

    async def text(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        async with self._session.request(method, self._url + path, headers=headers) as answer:
            return answer.status, await answer.text()

    async def json(self, path: str) -> tuple[int, Any]:
        async with self._session.get(self._url + path) as answer:
            return answer.status, await answer.json()


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    core, app = Core("edge-1"), web.Application()
    core.rule(CONFIG_MAPS)
    freshness = WatchHealth({"nodes"})
    nodes_api = http.NodesApi(core.hub.view, freshness, lambda: core.now)
    nodes_api.add_to(app)
    health = http.HubHealth(nodes_api.stale)
    health.add_to(app, lambda: b"fairlead_hub_nodes 1\n")
    runner, port = await http.listen(app, "127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        yield Asked(f"http://127.0.0.1:{port}", core, health, freshness, session)
    await runner.cleanup()


async def test_alive_is_not_ready(asked: Asked) -> None:
    """A hub that waits for the Lease must not be restarted, and not be sent anything either."""
    assert await asked.text("/healthz") == (200, "ok\n")
    assert await asked.text("/readyz") == (503, "starting\n")
    asked.health.serves()
    assert await asked.text("/readyz") == (200, "ok\n")
    asked.health.stops()
    assert await asked.text("/readyz") == (503, "stopping\n")


async def test_what_is_stale_is_reported_and_makes_a_blind_hub_unready(asked: Asked) -> None:
    """Since when and why; a kind that cannot be followed concerns its own objects alone."""
    asked.health.serves()
    asked.core.hub.report(asked.core.now)
    asked.freshness.stale("widgets", "answered 503", asked.core.now)
    status, text = await asked.text("/readyz")
    assert status == 200 and text.startswith("ok\nstale: widgets since ") and "503" in text
    asked.freshness.stale("nodes", "answered 503", asked.core.now)
    asked.core.now += 30.0
    status, text = await asked.text("/readyz")
    assert status == 503 and not text.startswith("ok") and "stale: nodes since " in text
    _, found = await asked.json("/v1/nodes")
    assert [one["collection"] for one in found["stale"]] == ["nodes", "widgets"]
    assert found["stale"][0]["seconds"] == 30.0 and found["recordsRefused"] == {"count": 0}
    asked.freshness.fresh("nodes")
    asked.freshness.fresh("widgets")
    assert await asked.text("/readyz") == (200, "ok\n")


async def test_no_web_page_reads_the_account(asked: Asked) -> None:
    """A name bound to loopback, or a page of another origin: its browser says so."""
    assert (await asked.text("/v1/nodes"))[0] == 200
    assert (await asked.text("/v1/nodes", Host="evil.example"))[0] == 403
    assert (await asked.text("/v1/nodes", Origin="https://evil.example"))[0] == 403
    assert (await asked.text("/healthz", Host="evil.example"))[0] == 200


async def test_metrics_are_plain_text(asked: Asked) -> None:
    """As Prometheus reads them."""
    assert await asked.text("/metrics") == (200, "fairlead_hub_nodes 1\n")


async def test_all_nodes_and_one(asked: Asked) -> None:
    """Who the hub is, and a row for each node."""
    asked.core.connect()
    status, found = await asked.json("/v1/nodes")
    assert (status, found["hub"], found["fence"]) == (200, "hub-1", 3)
    assert [(row["node"], row["connected"]) for row in found["nodes"]] == [("edge-1", True)]
    status, one = await asked.json("/v1/nodes/edge-1")
    assert (status, one["pendingObjects"]) == (200, [])


async def test_why_an_object_is_not_there(asked: Asked) -> None:
    """One question, one sentence."""
    asked.core.put("a")
    edge = asked.core.connect()
    edge.nack(edge.sent()[0], reason="no room")
    status, found = await asked.json("/v1/explain?node=edge-1&kind=cm&namespace=shop&name=a")
    assert status == 200 and found["code"] == "not_watched", "live kinds of this core have no short names"
    status, found = await asked.json("/v1/explain?node=edge-1&kind=configmap&namespace=shop&name=a")
    assert (status, found["code"]) == (200, "parked")
    assert "no room" in found["answer"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/nodes/unknown", 404, "no_node"),
        ("/v1/explain", 400, "missing_parameter"),
        ("/v1/explain?node=edge-1&kind=&name=a", 400, "missing_parameter"),
        ("/v1/explain?node=edge-1&kind=configmap", 400, "missing_parameter"),
    ],
)
async def test_what_cannot_be_answered_says_why(asked: Asked, path: str, status: int, code: str) -> None:
    """A code for programs, a sentence for people."""
    answered, body = await asked.json(path)
    assert (answered, body["error"]["code"]) == (status, code)
    assert body["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/nodes/%ff%fe", "/v1/explain?node=%ff&kind=%00&name=%ff&namespace=" + "x" * 4000])
async def test_nonsense_is_answered_politely(asked: Asked, path: str) -> None:
    """Whatever the bytes: no stack trace, no 500."""
    status, _ = await asked.text(path)
    assert status in (200, 400, 404)


async def test_it_is_read_only(asked: Asked) -> None:
    """Nothing here changes anything."""
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert (await asked.text("/v1/nodes", method))[0] == 405


async def test_with_certificates_no_other_sees_the_account(tmp_path: Path) -> None:
    """Beyond loopback: names of nodes and objects are shown to those of our authority only, and to no node."""
    authority = Authority(tmp_path)

    def files(name: str, uri: str = "") -> tls.Files:
        pair = authority.issue(name, hosts=("127.0.0.1",), uri=uri)
        return tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key)

    app = web.Application()
    http.NodesApi(Core("edge-1").hub.view, WatchHealth(), lambda: 0.0).add_to(app)
    runner, port = await http.listen(app, "127.0.0.1", 0, tls.server_context(files("hub")))
    url = f"https://127.0.0.1:{port}/v1/nodes"
    without = ssl.create_default_context(cafile=str(authority.certificate))
    try:
        async with aiohttp.ClientSession() as session:
            async with session.get(url, ssl=tls.client_context(files("operator"))) as answer:
                assert answer.status == 200
            uris = ("spiffe://fairlead/hub/edge-1", "spiffe://fairlead/node/edge-1")
            program, node = (tls.client_context(files("edge-1", uri)) for uri in uris)
            async with session.get(url, ssl=program) as answer:
                assert answer.status == 200
            async with session.get(url, ssl=node) as answer:
                assert answer.status == 403 and "a node's" in await answer.text()
            with pytest.raises(aiohttp.ClientError):
                await session.get(url, ssl=without)
            with pytest.raises(aiohttp.ClientError):
                await session.get(url.replace("https", "http"))
    finally:
        await runner.cleanup()


async def test_a_port_in_use_is_an_error_of_the_system(asked: Asked) -> None:
    """The program says so and ends; it does not pretend to serve."""
    runner, port = await http.listen(web.Application(), "127.0.0.1", 0)
    with pytest.raises(OSError, match="address already in use"):
        await http.listen(web.Application(), "127.0.0.1", port)
    await runner.cleanup()


async def test_the_description_is_answered_to_everyone(asked: Asked) -> None:
    """Also to a page of a browser: it is the same at every hub, and says nothing of this one."""
    assert await asked.json("/openapi.json") == (200, http_operations.document())
    assert (await asked.text("/openapi.json", Origin="https://elsewhere.example"))[0] == 200
    assert (await asked.text("/v1/nodes", Origin="https://elsewhere.example"))[0] == 403
