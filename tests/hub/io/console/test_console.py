"""The console as the hub's app has it, and over HTTP, asked as a browser asks and as an attacker would."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from tests.support.hubs.console import Served, fleet, serving, traced
from tests.support.hubs.hub_core import Core
from tests.support.hubs.live import SECRET

from fairlead_hub.console import pages
from fairlead_hub.io.console.console import Assets
from fairlead_hub.settings import HubSettings


async def test_what_the_core_reports_stands_on_the_page() -> None:
    """Events reach it also without messaging."""
    core = Core("edge-1")
    async with serving(core) as served, aiohttp.ClientSession() as session:
        core.connect()
        served.happened()
        async with session.get(f"{served.url}/console/events") as answer:
            assert "node.connected" in await answer.text()


async def test_a_hub_that_does_not_serve_says_so() -> None:
    """It starts, waits for the Lease, or stops."""
    async with serving(fleet(3), ready=False) as served, aiohttp.ClientSession() as session:
        async with session.get(f"{served.url}/console/") as answer:
            assert "waiting for the Lease" in await answer.text()
        served.health.serves()
        async with session.get(f"{served.url}/console/") as answer:
            assert "waiting for the Lease" not in await answer.text()
        served.health.stops()
        async with session.get(f"{served.url}/console/") as answer:
            assert "This hub is stopping" in await answer.text()


def test_it_is_on_unless_it_is_switched_off() -> None:
    """It shows what `/v1/…` shows, to the same people."""
    assert HubSettings(security="insecure").console.enabled
    assert not HubSettings.model_validate({"security": "insecure", "console": {"enabled": False}}).console.enabled


PAGES = ("", "nodes", "parked", "queues", "topics", "events", "explain", "nodes.json")
PLANTED = "hunter2-planted-secret"


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(fleet(40)) as found:
        yield found


@pytest.fixture
async def web(served: Served) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"{served.url}/") as session:
        yield session


def guarded(answer: aiohttp.ClientResponse) -> bool:
    return all(answer.headers.get(name) == value for name, value in pages.HEADERS.items())


async def test_every_page_is_there_with_its_headers(served: Served, web: aiohttp.ClientSession) -> None:
    """Nothing is stored, framed, sniffed, or loaded from elsewhere; also of what is not there."""
    name = sorted(served.core.hub.placement.rules.nodes)[0]
    found = [
        f"console/static/{Assets().version}/console.js",
        f"console/nodes/{name}",
        *(f"console/{page}" for page in PAGES),
    ]
    for path in found:
        async with web.get(path) as answer:
            assert answer.status == 200 and guarded(answer), path
    for path in ("console/other", "console/nodes/none", "console/static/x/..%2fpages.py", "console/static/x/none.js"):
        async with web.get(path) as answer:
            assert answer.status == 404 and guarded(answer), path
    async with web.get("console", allow_redirects=False) as answer:
        assert answer.status == 308 and answer.headers["Location"] == "/console/" and guarded(answer)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_there_changes_anything(web: aiohttp.ClientSession, method: str) -> None:
    """There is nothing to ask but GET."""
    for path in ("console/", "console/nodes", "console/stream", "console/nodes/a"):
        async with web.request(method, path) as answer:
            assert answer.status == 405


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
async def test_other_sites_pages_are_refused(web: aiohttp.ClientSession, headers: dict[str, str], status: int) -> None:
    """As of /v1/…; a link that a person follows is answered."""
    for path in ("console/", "console/nodes.json", "console/parked"):
        async with web.get(path, headers=headers) as answer:
            assert (answer.status, guarded(answer)) == (status, True)
    async with web.get("console/stream", headers={"Host": "evil.example"}) as answer:
        assert answer.status == 403 and guarded(answer)


async def test_a_link_from_elsewhere_opens_pages_and_not_the_account(web: aiohttp.ClientSession) -> None:
    """The exception is the console's alone."""
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    async with web.get("v1/nodes", headers=headers) as answer:
        assert answer.status == 403


async def test_rows_are_what_the_table_shows(served: Served, web: aiohttp.ClientSession) -> None:
    """Each as an array, with the number of the frame after which changes follow."""
    async with web.get("console/nodes.json") as answer:
        found = await answer.json()
    assert [line[0] for line in found["lines"]] == sorted(served.core.hub.placement.rules.nodes)
    assert found["after"] == served.console.source.ring.last_id


async def test_traces_have_a_page_where_they_are_recorded() -> None:
    """Found by the trace's id, and on the page of a node; the id leads to the address of the settings."""
    link = "https://traces.example/trace/{trace_id}"
    core = Core("edge-1", "edge-2", traces={"link": link})
    ring = traced(["edge-1", "edge-2"])
    trace_id = ring.newest()[0].trace_id
    async with (
        serving(core, spans=ring) as found,
        aiohttp.ClientSession(f"{found.url}/console/") as session,
    ):

        async def page(path: str) -> str:
            async with session.get(path) as answer:
                assert answer.status == 200 and guarded(answer)
                return await answer.text()

        assert 'href="/console/traces"' in await page("nodes")
        shown = await page(f"traces?q=00-{trace_id}-00f067aa0ba902b7-01")
        assert "1 of 1 traces" in shown and f'href="{link.replace("{trace_id}", trace_id)}"' in shown
        assert shown.index("observe") < shown.index("edge-1") and "store_full" in shown
        assert "0 of 0 traces" in await page("traces?q=" + "f" * 4000)
        node = await page("nodes/edge-2")
        assert f'href="/console/traces?q={trace_id}"' in node and "store_full" not in node


async def test_without_traces_there_is_no_page_of_them(web: aiohttp.ClientSession) -> None:
    """Neither in the navigation nor on the page of a node; one who asks reads why."""
    for path in ("console/", "console/nodes/berlin-store-0001"):
        async with web.get(path) as answer:
            assert "races" not in await answer.text()
    async with web.get("console/traces") as answer:
        assert answer.status == 404 and guarded(answer) and "[traces] endpoint" in await answer.text()


async def test_odd_queries_are_taken_politely(web: aiohttp.ClientSession) -> None:
    """Whatever stands in an address."""
    for query in ("page=-1", "page=x", "page=" + "9" * 400, "q=" + "x" * 4000, "state=%00", "page=%C2%B2", "q=%ff"):
        async with web.get(f"console/nodes?{query}") as answer:
            assert answer.status == 200, query


async def test_a_planted_secret_is_nowhere(served: Served, web: aiohttp.ClientSession) -> None:
    """On its way, parked and held; in every answer below /console/."""
    core = served.core
    core.rule({"apiVersion": "v1", "kind": "Secret"}, name="secrets")
    core.put("keys", SECRET, namespace="shop", data={"password": PLANTED}, annotations={"applied": PLANTED})
    node = next(name for name in sorted(core.hub.open_sessions.by_node))
    core.now += 10.0
    paths = [f"console/{page}" for page in PAGES]
    paths += [f"console/nodes/{node}", f"console/explain?node={node}&kind=secret&namespace=shop&name=keys"]
    for path in paths:
        async with web.get(path) as answer:
            assert answer.status == 200 and PLANTED not in await answer.text(), path
