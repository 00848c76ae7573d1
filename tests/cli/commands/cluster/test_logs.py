"""`fairlead logs`: of which Pods, in which form; that a kubelet really gives them is told in e2e."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.kube.cluster import Cluster

from fairlead_cli.commands.cluster import logs
from fairlead_cli.commands.cluster.logs import LogLine, LogSource
from fairlead_cli.main import build
from fairlead_hub.io.cluster import api_error


def run(*words: str) -> Result:
    return CliRunner().invoke(build(), ["logs", *words])


def line(second: int, **said: Any) -> str:
    return json.dumps({"ts": f"2026-11-22T10:00:0{second}.000000Z", "level": "info", "room": "hub", **said})


@pytest.fixture
def two_pods(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """hub-0 and edge-a, whose kubelet does not answer when `away` is set; `asked` is with what."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    seen: dict[str, Any] = {"away": (), "asked": []}

    async def sources(kube: object, *asked: object) -> list[LogSource]:
        seen["asked"].append(asked)
        return [LogSource("f", "hub-0", "hub"), LogSource("f", "edge-a", "edge")]

    async def read(kube: object, source: LogSource, query: dict[str, str]) -> list[LogLine]:
        seen["asked"].append(query)
        if source.pod in seen["away"]:
            raise api_error.ApiRefused(500, "no kubelet")
        said = {
            "hub-0": [
                (1, line(1, event="session_opened", node="edge-1")),
                (4, line(4, event="parked", level="warning")),
            ],
            "edge-a": [(2, line(2, event="started")), (3, "Traceback (most recent call last):")],
        }
        return [LogLine(f"2026-11-22T10:00:0{at}.000000000Z", source.pod, text) for at, text in said[source.pod]]

    monkeypatch.setattr(logs, "sources", sources)
    monkeypatch.setattr(logs, "read", read)
    return seen


def test_all_pods_in_one_order(two_pods: dict[str, Any]) -> None:
    done = run()
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "10:00:01.000  info      hub-0  session_opened node=edge-1",
        "10:00:02.000  info      edge-a  started",
        "10:00:03.000            edge-a  Traceback (most recent call last):",
        "10:00:04.000  warning   hub-0  parked",
    ]
    assert two_pods["asked"][0] == (None, None, None) and two_pods["asked"][1] == {"tailLines": "100"}
    assert "\x1b[33m" in run("--color", "always").stdout


def test_only_what_was_asked_for(two_pods: dict[str, Any]) -> None:
    assert [each.split()[-1] for each in run("--level", "warning").stdout.splitlines()] == ["parked"]
    assert [each.split()[3] for each in run("--event", "started", "--event", "parked").stdout.splitlines()] == [
        "started",
        "parked",
    ]
    assert len(run("hub", "--node", "edge-1").stdout.splitlines()) == 1
    assert len(run("edge", "--node", "edge-1", "-n", "f").stdout.splitlines()) == 4
    assert ("f", "edge", "edge-1") in two_pods["asked"]
    assert run("--since", "2h", "--previous").exit_code == 0
    assert two_pods["asked"][-1] == {"sinceSeconds": "7200", "previous": "true"}


def test_as_they_are(two_pods: dict[str, Any]) -> None:
    found = [json.loads(each) for each in run("-o", "json").stdout.splitlines()]
    assert found[0] == json.loads(line(1, event="session_opened", node="edge-1"))
    assert found[2] == {
        "ts": "2026-11-22T10:00:03.000000000Z", "pod": "edge-a", "text": "Traceback (most recent call last):",
    }  # fmt: skip


def test_one_that_cannot_be_read_holds_up_no_other(two_pods: dict[str, Any]) -> None:
    two_pods["away"] = ("hub-0",)
    assert len(run().stdout.splitlines()) == 2
    two_pods["away"] = ("hub-0", "edge-a")
    done = run()
    assert done.exit_code == 1 and "no kubelet" in done.output


def test_of_a_cluster_without_pods(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    done = run("hub", "-n", "kube-system")
    assert (
        done.exit_code == 1 and "found no running hub Pod in namespace kube-system; outside Kubernetes" in done.output
    )
    done = run("-f", "--previous")
    assert done.exit_code == 2 and "previous containers have ended" in done.output


# ---- logs of Pods ----


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


# ---- lines of a log as people read them, and which of them were asked for ----


LINE = {
    "ts": "2026-11-22T10:00:00.123456Z",
    "level": "info",
    "room": "hub",
    "logger": "hub.link",
    "event": "session_opened",
}


def said(**more: Any) -> str:
    found = logs.parse(json.dumps({**LINE, **more}))
    assert found is not None
    return logs.text(found, "hub-0")


def test_time_level_who_event_and_the_rest() -> None:
    assert said(node="edge-1", objects=3, why="a b", none=None) == (
        '10:00:00.123  info      hub-0  session_opened node=edge-1 objects=3 why="a b" none=null'
    )


@pytest.mark.parametrize("line", ["", "Traceback (most recent call last):", "7", "[]", '{"level": "info"}', "[" * 9999])
def test_what_is_not_ours_is_said_to_be_none(line: str) -> None:
    assert logs.parse(line) is None


def test_a_value_is_not_obeyed_by_the_terminal() -> None:
    shown = said(reason="\x1b[2Jgone\n10:00:00 error")
    assert "\x1b" not in shown and "\n" not in shown
    assert len(said(reason="x" * 100_000)) < 1000


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, True),
        ({"node": "edge-1"}, True),
        ({"node": "edge-2"}, False),
        ({"events": frozenset({"session_opened", "x"})}, True),
        ({"events": frozenset({"x"})}, False),
        ({"level": "info"}, True),
        ({"level": "warning"}, False),
    ],
)
def test_which_lines_are_wanted(asked: dict[str, Any], wanted: bool) -> None:
    """What is not ours is shown where nothing was asked for by what only ours have."""
    everything: dict[str, Any] = {"node": None, "events": frozenset(), "level": None}
    found = {**LINE, "node": "edge-1"}
    assert logs.is_wanted(found, **{**everything, **asked}) == wanted
    assert logs.is_wanted(None, **{**everything, **asked}) == (not asked)
