"""Kubernetes Events in a real API server: created once, counted afterwards, never a reason to stop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.support.edges.upstream import until
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster

from fairlead_hub.events.kube_events import KubeEvents, Regarding
from fairlead_hub.io.cluster import event_recorder
from fairlead_hub.io.cluster.event_recorder import EventRecorder
from fairlead_hub.io.cluster.kube import Kube


def note(noted: KubeEvents, namespace: str, *, message: str = "no room", now: float = 0.0) -> None:
    about = Regarding(kind="ObjectSync", namespace=namespace, name="edge-1.u")
    noted.note(about, "Warning", "Parked", message, now, "2026-11-20T12:00:00Z")


async def events(client: Kube, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.json.decode(await client.get(f"api/v1/namespaces/{namespace}/events"))[
        "items"
    ]
    return found


async def test_the_same_again_raises_the_count(client: Kube, namespace: str) -> None:
    """One Event, as kubectl describe shows it."""
    noted, recorder = KubeEvents(), EventRecorder(client, "hub-1")
    note(noted, namespace)
    assert await recorder.write(noted.take()) == 1
    note(noted, namespace, message="still no room", now=1.0)
    assert await recorder.write(noted.take()) == 1
    assert await recorder.write(noted.take()) == 0
    [one] = await events(client, namespace)
    assert (one["count"], one["message"], one["reason"], one["type"]) == (2, "still no room", "Parked", "Warning")
    assert one["involvedObject"]["name"] == "edge-1.u"


async def test_what_cannot_be_written_is_counted_and_left(client: Kube, namespace: str) -> None:
    """A namespace that is gone; the others are written."""
    noted, recorder = KubeEvents(), EventRecorder(client, "hub-1")
    note(noted, "no-such-namespace")
    note(noted, namespace)
    assert await recorder.write(noted.take()) == 1
    assert recorder.dropped == 1
    assert len(await events(client, namespace)) == 1


async def test_a_busy_api_server_is_asked_once(cluster: Cluster, namespace: str) -> None:
    """Hints are not worth a retry storm; the next time the same happens it is created."""
    noted = KubeEvents()
    async with ApiFront(cluster) as front:
        recorder = EventRecorder(front.client(), "hub-1")
        front.answer("POST", "events", status=429, headers={"Retry-After": "10"})
        note(noted, namespace)
        assert await recorder.write(noted.take()) == 0
        assert (front.seen("POST", "events"), recorder.dropped) == (1, 1)
        note(noted, namespace, now=1.0)
        assert await recorder.write(noted.take()) == 1
        [one] = await events(front.client(), namespace)
        assert one["count"] == 2


async def test_an_api_server_that_does_not_answer_costs_hints_alone(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is given up after its time, several at once; the next ones are written."""
    monkeypatch.setattr(event_recorder, "REQUEST_SECONDS", 0.05)
    silent = asyncio.Event()

    async def never(_: web.Request) -> web.StreamResponse:
        await silent.wait()
        return web.Response(status=503)

    noted = KubeEvents()
    async with ApiFront(cluster) as front:
        recorder = EventRecorder(front.client(), "hub-1")
        front.answer_with("POST", "events", never, times=None)
        for number in range(20):
            about = Regarding(kind="ObjectSync", namespace=namespace, name=f"edge-{number}.u")
            noted.note(about, "Warning", "Parked", "no room", 0.0, "2026-11-20T12:00:00Z")
        async with asyncio.timeout(100):
            assert await recorder.write(noted.take()) == 0
        assert recorder.dropped == 20
        silent.set()
        front.pass_everything()
        monkeypatch.setattr(event_recorder, "REQUEST_SECONDS", 30.0)
        note(noted, namespace, now=1.0)
        assert await recorder.write(noted.take()) == 1


async def test_without_the_lease_events_wait(client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that was stopped and goes on tells nothing under its old number."""
    monkeypatch.setattr(event_recorder, "FLUSH_SECONDS", 0.01)
    noted, left = KubeEvents(), 0.0
    recorder = EventRecorder(client, "hub-1", seconds_left=lambda: left)
    note(noted, namespace)
    asked = 0

    def idle() -> None:
        nonlocal asked
        asked += 1
        assert recorder.is_idle
        recorder.push(noted.take())

    task = asyncio.create_task(recorder.run(idle))
    try:
        await asyncio.sleep(0.05)  # five times the pause between two flushes
        assert asked == 0
        left = 10.0
        await until(lambda: asked > 1)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert len(await events(client, namespace)) == 1
