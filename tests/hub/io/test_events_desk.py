"""Happenings become Events in the API, counted when they happen again."""

from __future__ import annotations

import json

from tests.support.cluster import Cluster

from fairlead_hub.happenings import Happenings, Regarding
from fairlead_hub.io import events_desk
from fairlead_hub.io.kube import Kube

NOON = "2026-11-20T12:00:00Z"


async def test_created_once_then_counted(client: Kube, cluster: Cluster, namespace: str) -> None:
    """The same about the same record: one Event, its count and time rise."""
    noted = Happenings()
    record = Regarding(kind="ObjectSync", namespace=namespace, name="edge-1.some-uid")
    noted.note(record, "Warning", "Parked", "too sour", 0.0, NOON)
    assert await events_desk.write(client, noted, "hub") == 1
    noted.note(record, "Warning", "Parked", "still sour", 5.0, "2026-11-20T12:00:05Z")
    noted.note(record, "Warning", "Parked", "still sour", 6.0, "2026-11-20T12:00:06Z")
    assert await events_desk.write(client, noted, "hub") == 1
    (event,) = json.loads(await client.get(f"api/v1/namespaces/{namespace}/events"))["items"]
    assert (event["reason"], event["count"], event["message"]) == ("Parked", 3, "still sour")
    assert event["involvedObject"]["name"] == record.name
    assert await events_desk.write(client, noted, "hub") == 0


async def test_what_cannot_be_written_is_counted_and_left(client: Kube) -> None:
    """Events are hints: a namespace that is gone costs the hint."""
    noted = Happenings()
    noted.note(Regarding(kind="ObjectSync", namespace="gone", name="x"), "Normal", "Unparked", "", 0.0, NOON)
    assert await events_desk.write(client, noted, "hub") == 0
    assert noted.dropped == 1
