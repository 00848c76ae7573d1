"""A request whose answer got lost, and a hub that is slow: the same token all the same."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from fairlead_cli.cluster import join_tokens
from fairlead_cli.cluster.join_tokens import HubAddresses, TokenOptions
from fairlead_hub.io.cluster import api_error

WANTED = TokenOptions(expires=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), uses=3)


class Server:
    """An API server that answers as the test says."""

    def __init__(self, *answers: Exception | dict[str, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []

    async def request(self, method: str, path: str, body: Any = None) -> bytes:
        self.asked.append((method, path, body))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()

    async def get(self, path: str) -> bytes:
        return await self.request("GET", path)


async def test_a_token_that_is_there_already_was_ours() -> None:
    server: Any = Server(api_error.ApiRefused(409, "exists"))
    made = await join_tokens.create(server, WANTED, "shop-*")
    [(method, path, body)] = server.asked
    assert (method, path) == ("POST", "apis/fairlead.dev/v1alpha1/jointokens")
    assert body["spec"]["pattern"] == "shop-*" and body["spec"]["expires"] == "2026-01-01T00:00:00Z"
    assert body["metadata"]["name"] == made.token.id and "node" not in body["spec"]


async def test_any_other_refusal_is_passed_on() -> None:
    server: Any = Server(api_error.ApiRefused(403, "forbidden"))
    with pytest.raises(api_error.ApiRefused, match="forbidden"):
        await join_tokens.create(server, WANTED, "shop-1")


async def test_a_hub_is_waited_for() -> None:
    seen = {"status": {"pins": ["ab"], "url": "wss://hub:1"}}
    server: Any = Server({}, {"status": {"url": "wss://hub:1"}}, seen)
    assert await join_tokens.introduced(server, "aaaaaaaaaa", 100.0) == HubAddresses(url="wss://hub:1", pins=("ab",))
    assert await join_tokens.introduced(server_without := Server({}), "aaaaaaaaaa", 0.0) is None  # type: ignore[arg-type]
    assert len(server_without.asked) == 1


async def test_a_token_that_is_gone_is_no_failure() -> None:
    server: Any = Server({}, api_error.ApiRefused(404, "none"), api_error.ApiRefused(403, "forbidden"))
    assert await join_tokens.delete(server, "aaaaaaaaaa")
    assert not await join_tokens.delete(server, "aaaaaaaaaa")
    with pytest.raises(api_error.ApiRefused):
        await join_tokens.delete(server, "aaaaaaaaaa")
