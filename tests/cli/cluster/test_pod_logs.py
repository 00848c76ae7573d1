"""Logs of Pods: which containers, in which order, and followed over a line that breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from fairlead_cli.commands.cluster import logs
from fairlead_cli.commands.cluster.logs import LogLine, LogSource
from fairlead_hub.io.cluster import api_error


def pod(name: str, *statuses: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "fairlead"}, "status": {"containerStatuses": list(statuses)}}


class Api:
    """Answers as the API server does; ``lives`` are what a followed log says until its line breaks, or it ends."""

    def __init__(self, pods: list[dict[str, Any]], lives: Mapping[str, list[list[str] | Exception]]) -> None:
        self.pods, self.lives = pods, lives
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def get(self, path: str, **query: str) -> bytes:
        self.asked.append((path, query))
        if path.endswith("/log"):
            return "\n".join(str(line) for life in self.lives[path.split("/")[-2]] for line in life).encode()  # type: ignore[union-attr]
        return json.dumps({"kind": "PodList", "metadata": {}, "items": self.pods}).encode()

    async def lines(self, path: str, query: Mapping[str, str], silence: float) -> AsyncIterator[bytes]:
        self.asked.append((path, dict(query)))
        life = self.lives[path.split("/")[-2]].pop(0)
        if isinstance(life, Exception):
            raise life
        broken = life[-1:] == ["broken"]
        for line in life[: len(life) - broken]:
            yield line.encode()
        if broken:
            raise api_error.ApiUnavailable("ended")


def source(name: str) -> LogSource:
    return LogSource("fairlead", name, "hub")


async def followed(api: Api, *names: str, query: Mapping[str, str] | None = None) -> list[LogLine]:
    found = []
    async with asyncio.timeout(60):
        async for lines in logs.follow(api, [source(each) for each in names], query or {}):  # type: ignore[arg-type]
            found += lines
    return found


async def test_containers_that_have_run() -> None:
    """One that waits to start for the first time has no log; one that waits to be started again has."""
    api = Api(
        [
            pod("b", {"name": "hub", "state": {"running": {}}, "restartCount": 0}),
            pod(
                "a",
                {"name": "hub", "state": {"waiting": {}}, "restartCount": 3},
                {"name": "x", "state": {"terminated": {}}},
            ),
            pod("c", {"name": "hub", "state": {"waiting": {}}, "restartCount": 0}),
            {"metadata": {"name": "d", "namespace": "fairlead"}},
        ],
        {},
    )
    found = await logs.sources(api, "fairlead", "edge", "edge-1")  # type: ignore[arg-type]
    assert [(each.pod, each.container) for each in found] == [("a", "hub"), ("a", "x"), ("b", "hub")]
    path, query = api.asked[0]
    assert path == "api/v1/namespaces/fairlead/pods"
    assert query["labelSelector"] == "app.kubernetes.io/part-of=fairlead,app.kubernetes.io/component=edge"
    assert query["fieldSelector"] == "spec.nodeName=edge-1"


async def test_lines_with_their_times() -> None:
    api = Api([], {"a": [["2026-11-22T10:00:00.1Z one two", "2026-11-22T10:00:01Z ", ""]]})
    assert await logs.read(api, source("a"), {"tailLines": "9"}) == [  # type: ignore[arg-type]
        LogLine("2026-11-22T10:00:00.100000000Z", "a", "one two"),
        LogLine("2026-11-22T10:00:01.000000000Z", "a", ""),
    ]
    assert api.asked[0][1]["timestamps"] == "true" and api.asked[0][1]["tailLines"] == "9"


async def test_a_broken_line_is_opened_again_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line twice and none left out, though the API takes whole seconds only; it ends when all containers have."""
    monkeypatch.setattr(logs, "PAUSE_SECONDS", 0.01)
    first = ["2026-11-22T10:00:00.1Z a", "2026-11-22T10:00:00.2Z b"]
    again = [*first, "2026-11-22T10:00:00.2Z b2", "2026-11-22T11:00:00.3+01:00 c"]
    api = Api(
        [], {"a": [api_error.ApiUnavailable("away"), [*first, "broken"], again], "b": [["2026-11-22T10:00:00.15Z z"]]}
    )
    found = await followed(api, "a", "b", query={"tailLines": "100"})
    assert sorted(line.text for line in found) == ["a", "b", "b2", "c", "z"]
    queries = [query for path, query in api.asked if "/a/" in path]
    assert [query.get("tailLines") for query in queries] == ["100", "100", None]
    assert queries[-1]["sinceTime"] == "2026-11-22T10:00:00Z"


async def test_what_is_refused_is_raised() -> None:
    api = Api([], {"a": [api_error.ApiRefused(403, "forbidden")]})
    with pytest.raises(api_error.ApiRefused):
        await followed(api, "a")
