"""Who may ask, health, and the account."""

from __future__ import annotations

import pytest
from tests.support.edges.edge_api import TOKEN, serving

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("path", ["/api/v1/pods", "/v1/status", "/metrics", "/version", "/nowhere"])
async def test_where_a_token_is_required_it_is_required_everywhere(path: str) -> None:
    async with serving(required=True) as api:
        for headers in ({}, {"Authorization": TOKEN}, {"Authorization": "Bearer "}, {"Authorization": "Bearer wrong"}):
            status, body = await api.ask(path, **headers)
            assert status == 401 and "data folder" in str(body)
        assert (await api.ask(path, **BEARER))[0] in (200, 404)


@pytest.mark.parametrize("path", ["/api/v1/configmaps", "/v1/status", "/metrics", "/v1/messages"])
@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_without_security_no_web_page_may_ask(path: str, headers: dict[str, str]) -> None:
    """A browser on the node reaches loopback for whatever page is open in it."""
    async with serving() as api:
        status, body = await api.ask(path, **headers)
        assert status == 403 and "page" in str(body)
        assert await api.ask("/readyz", **headers) == (200, "ok")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not_found"),
        ("DELETE", "/v1/status", 405, "method_not_allowed"),
        ("GET", "/nowhere", 404, "not_found"),
    ],
)
async def test_what_is_not_there_is_said_in_json(method: str, path: str, status: int, code: str) -> None:
    async with serving() as api, api.client.request(method, path) as answer:
        body = await answer.json()
        assert (answer.status, body["error"]["code"]) == (status, code)
        assert path in body["error"]["message"]
        assert ("Allow" in answer.headers) is (status == 405)


async def test_not_ready_says_why() -> None:
    async with serving(unready="the disk failed") as api:
        assert await api.ask("/readyz") == (503, "the disk failed")
        assert await api.ask("/healthz") == (200, "ok")


async def test_metrics_are_plain_text() -> None:
    async with serving() as api:
        answer = await api.client.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert await answer.text() == "up 1\n"
