"""A node goes over from one cluster to another: two API servers, two hubs, two messaging services, and a real agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.edges.site import NODE, Device, Producer, Site
from tests.support.processes import wait_until


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[tuple[Site, Site]]:
    old, new = Site(tmp_path / "old"), Site(tmp_path / "new")
    try:
        old.start(value="old")
        new.start(value="new")
        yield old, new
    finally:
        old.stop()
        new.stop()


@pytest.mark.kube
@pytest.mark.verify
def test_a_node_moves_to_another_cluster_while_it_takes_messages(tmp_path: Path, sites: tuple[Site, Site]) -> None:
    """Each message accepted is in one of the two topics, once; objects and fence are the new cluster's."""
    old, new = sites
    device = Device(tmp_path / "device")
    joined = device.command("join", old.url, old.token(), "--node", NODE)
    assert joined.returncode == 0, joined.stderr
    device.start()
    try:
        wait_until("it is connected", device.connected, seconds=100)
        wait_until("it takes messages", lambda: device.publish(-1)[0] == 200, seconds=100)
        # The old cluster's hubs took the Lease more often: its fence is higher than the new one's.
        for _ in range(2):
            old.hub.stop()
            old.hub.start()
        wait_until("it is connected again", device.connected, seconds=100)
        old_fence = device.get("/v1/status")[1]["link"]["fence"]
        producer = Producer(device)
        wait_until("much was accepted", lambda: len(producer.accepted) > 50, seconds=100)
        moved = device.command("move", new.url, new.token())
        assert moved.returncode == 0, moved.stderr + moved.stdout + device.log.read_text()[-3000:]
        assert f"moved from {old.url} to {new.url}" in moved.stdout
        assert f'hub_url = "{new.url}"' in device.config.read_text()

        def at_new() -> bool:
            status = device.get("/v1/status")[1]
            names = device.get("/api/v1/namespaces/shop/configmaps")[1]["items"]
            values = {each["metadata"]["name"]: each["data"]["value"] for each in names}
            return status["link"]["state"] == "connected" and values == {"prices": "new", "only-new": "new"}

        wait_until("it has the new cluster's objects", at_new, seconds=100)
        assert device.get("/v1/status")[1]["link"]["fence"] < old_fence
        since = len(producer.accepted)
        wait_until("it accepts again", lambda: len(producer.accepted) > since + 50, seconds=100)
        device.kill()  # what is in force now is what a start finds
        device.start()
        wait_until("it is at the new hub after a restart", at_new, seconds=100)
        producer.stop()

        def delivered() -> bool:
            return sorted(old.numbers() + new.numbers()) == sorted([-1, *producer.accepted])

        wait_until("each message is in one topic", delivered, seconds=100)
        first, second = old.numbers(), new.numbers()
        assert len(first) > 50 and len(second) > 50 and max(first) < min(second)
        assert (503, "moving") in producer.refusals or (503, "not_now") in producer.refusals
        assert {status for status, _ in producer.refusals} <= {503}
        assert not [line for line in device.events() if "traceback" in line]
        again = device.command("move", new.url, new.token())
        assert again.returncode == 0 and "already; nothing was done" in again.stdout
    finally:
        device.stop()
