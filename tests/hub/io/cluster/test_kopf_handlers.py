"""kopf around our own resources: each is checked when it changes, and nothing is written on users' objects."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import kopf
import pytest
from tests.support.edges.upstream import until
from tests.support.hubs.hub import config_map, sync_rule
from tests.support.kube.cluster import Cluster

from fairlead_hub.cluster.sync_rule import SpecCheck
from fairlead_hub.io.cluster import api_access, kopf_handlers

CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}


class Asked:
    """Remembers what was checked, and in which thread."""

    def __init__(self) -> None:
        self.asked: set[tuple[str, str]] = set()
        self.mistakes: dict[str, str] = {}
        self.loops: set[asyncio.AbstractEventLoop] = set()

    def checked(self, check: SpecCheck) -> None:
        self.loops.add(asyncio.get_running_loop())
        self.asked.add((check.collection, check.name))
        self.mistakes[check.name] = check.mistakes


@pytest.fixture
def kube(defined: Cluster) -> Iterator[Cluster]:
    yield defined
    defined.kubectl("delete", "syncrules,edgeroutes", "--all")


@contextlib.asynccontextmanager
async def operating(kube: Cluster) -> AsyncIterator[Asked]:
    desk = Asked()
    task = asyncio.create_task(kopf_handlers.run(api_access.load(str(kube.kubeconfig)), desk.checked))
    try:
        yield desk
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def routes(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeRoutes", "metadata": {"name": name},
        "spec": {"schemaVersion": "1.1", "routes": {"r": {"route": "FROM /* INTO $upstream"}},
                 "storeAndForwardConfiguration": {}},
    }  # fmt: skip


@pytest.mark.verify
async def test_what_is_there_and_what_comes_is_checked(kube: Cluster) -> None:
    """In the hub's own loop, although kopf lives in another; an API server that was killed is found again."""
    await asyncio.to_thread(kube.apply, sync_rule("there", CONFIG_MAPS))
    async with operating(kube) as desk:
        await until(lambda: ("syncrules", "there") in desk.asked)
        await asyncio.to_thread(kube.apply, routes("main"))
        await until(lambda: ("edgeroutes", "main") in desk.asked)
        assert desk.loops == {asyncio.get_running_loop()}
        assert desk.mistakes == {"there": "", "main": ""}
        await asyncio.to_thread(kube.restart_apiserver)
        await asyncio.to_thread(kube.apply, sync_rule("after", CONFIG_MAPS))
        await until(lambda: ("syncrules", "after") in desk.asked, seconds=120)


async def test_nothing_is_written_on_any_object(kube: Cluster, namespace: str) -> None:
    """No finalizer, no annotation, no label: rules and users' objects stay as they were applied."""
    await asyncio.to_thread(kube.apply, [sync_rule("r", CONFIG_MAPS), config_map("a", namespace, n="1")])

    def metadata() -> tuple[Any, ...]:
        rule = json.loads(kube.kubectl("get", "syncrule", "r", "-o", "json"))["metadata"]
        user = json.loads(kube.kubectl("get", "configmap", "a", "-n", namespace, "-o", "json"))["metadata"]
        return rule, user

    before = await asyncio.to_thread(metadata)
    async with operating(kube) as desk:
        await until(lambda: ("syncrules", "r") in desk.asked)
    assert await asyncio.to_thread(metadata) == before
    assert all("finalizers" not in each for each in before)


async def test_it_ends_when_it_is_asked_to(kube: Cluster) -> None:
    """With its thread, so that the hub can end."""
    async with asyncio.timeout(100):
        async with operating(kube) as desk:
            await asyncio.to_thread(kube.apply, sync_rule("r", CONFIG_MAPS))
            await until(lambda: desk.asked)


async def test_a_life_that_fails_is_followed_by_another(kube: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ended kopf: the nodes are served on, and it is started again."""
    monkeypatch.setattr(kopf_handlers, "RESTART_SECONDS", 0.01)
    lives: list[str] = []
    live = kopf_handlers._live

    def fails_first(*arguments: Any) -> str:
        lives.append("one")
        return "it failed" if len(lives) == 1 else live(*arguments)

    monkeypatch.setattr(kopf_handlers, "_live", fails_first)
    await asyncio.to_thread(kube.apply, sync_rule("r", CONFIG_MAPS))
    async with operating(kube) as desk:
        await until(lambda: ("syncrules", "r") in desk.asked)
        assert len(lives) == 2


async def test_a_task_that_fails_ends_the_life_it_was_part_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may wait for it for ever, as all do for a login that died; the next life begins with why."""

    async def login() -> None:
        raise AssertionError("the session was closed")

    async def waits_for_its_login(*, stop_flag: threading.Event, **_: object) -> None:
        asyncio.ensure_future(login())  # noqa: RUF006 - how it ends does not matter
        while not stop_flag.is_set():  # noqa: ASYNC110 - a flag of threads
            await asyncio.sleep(0.001)

    monkeypatch.setattr(kopf, "operator", waits_for_its_login)
    reason = await asyncio.to_thread(kopf_handlers._live, kopf.OperatorRegistry(), threading.Event())
    assert reason == "AssertionError: the session was closed"


async def test_a_kopf_that_ignores_being_asked_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cancelled, so that the hub can end."""

    async def waits_for_ever(**_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(kopf, "operator", waits_for_ever)
    monkeypatch.setattr(kopf_handlers, "ENDING_SECONDS", 0.05)
    stop = threading.Event()
    life = kopf_handlers._begin(kopf.OperatorRegistry(), stop)
    stop.set()
    assert await asyncio.wait_for(life, 100) == "ended"


async def test_an_object_it_cannot_decode_ends_a_life_of_kopf(
    kube: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every one of its lives: so nothing that decides may wait for kopf.  The API server takes such an object."""
    made = routes("deep")
    made["spec"]["routes"]["r"]["odd"] = "deep"
    deep = json.dumps(made).replace('"odd": "deep"', f'"odd": {"[" * 3000 + "]" * 3000}')
    file = tmp_path / "deep.json"
    file.write_text(deep)
    await asyncio.to_thread(kube.kubectl, "create", "--validate=false", "-f", str(file))
    async with operating(kube):
        await until(lambda: "operator_restarted" in caplog.text, seconds=120)
