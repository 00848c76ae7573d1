"""A node is taken out of service on a real device and in a real cluster, and the device joins again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.edges.edge_agent import PROGRAM
from tests.support.edges.site import NODE, Device, Producer, Site
from tests.support.hubs.hub import edge_node
from tests.support.processes import wait_until


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path / "site")
    try:
        found.start(value="1")
        yield found
    finally:
        found.stop()


def leave(device: Device, *more: str) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), "edge", "leave", "--config", str(device.config), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL)


def delete(site: Site, *more: str) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), "node", "delete", NODE, "--kubeconfig", str(site.cluster.kubeconfig), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def stored(device: Device) -> set[str]:
    return {path.name for path in (device.folder / "data").iterdir()}


@pytest.mark.kube
@pytest.mark.verify
def test_a_node_leaves_is_deleted_and_joins_again(tmp_path: Path, site: Site) -> None:
    """All it accepted is in its topic once; nothing of the cluster is left on the device, nor of it in the cluster."""
    device = Device(tmp_path / "device")
    joined = device.command("join", site.url, site.token(), "--node", NODE)
    assert joined.returncode == 0, joined.stderr
    device.start()
    try:
        wait_until("it is connected", device.connected, seconds=100)
        wait_until("it takes messages", lambda: device.publish(-1)[0] == 200, seconds=100)
        wait_until("it holds objects", lambda: device.get("/v1/status")[1]["objects"]["held"], seconds=100)
        wait_until("there are records", lambda: NODE in site.cluster.kubectl("get", "osync", "-A"), seconds=100)

        site.messaging.stop()
        producer = Producer(device)
        wait_until("some wait", lambda: len(producer.accepted) > 50, seconds=100)
        given_up = leave(device, "--deadline", "2s")
        assert given_up.returncode == 1 and "were not delivered" in given_up.stderr, given_up
        assert "--undelivered leave" in given_up.stderr
        since = len(producer.accepted)
        wait_until("it accepts as before", lambda: len(producer.accepted) > since, seconds=100)
        refused = delete(site)
        assert refused.returncode == 1 and "fairlead edge leave" in refused.stderr

        site.messaging.start()
        left = leave(device)
        producer.stop()
        assert left.returncode == 0, left.stdout + left.stderr
        assert f"{NODE} is out of service" in left.stdout and f"fairlead node delete {NODE}" in left.stdout
        running = device.running
        assert running is not None
        wait_until("the agent has ended", lambda: not running.alive, seconds=100)
        assert sorted(site.numbers()) == sorted([-1, *producer.accepted])
        assert {"identity", "objects.db", "routes.copy", "last-session.json", "move"}.isdisjoint(stored(device))
        assert "outbox.db" in stored(device)
        started = subprocess.run(
            [str(PROGRAM), "edge", "run", "--config", str(device.config)], capture_output=True, text=True, timeout=100
        )
        assert started.returncode == 2 and "was taken out of service" in started.stderr

        dry = delete(site, "--dry-run")
        assert dry.returncode == 0 and f"would be deleted    node/{NODE}" in dry.stdout, dry
        assert NODE in site.cluster.kubectl("get", "nodes")
        deleted = delete(site)
        assert deleted.returncode == 0 and "kept " in deleted.stdout, deleted
        assert NODE not in site.cluster.kubectl("get", "nodes,osync,cosync", "-A")
        again = delete(site)
        assert again.returncode == 0 and "node/" not in again.stdout.replace("edgenode/", ""), again

        (device.folder / "data" / "notes.txt").write_text("of a person")
        unasked = leave(device, "--purge")
        assert unasked.returncode == 2 and "--yes" in unasked.stderr and "outbox.db" in stored(device)
        for _ in range(2):
            purged = leave(device, "--purge", "--yes")
            assert purged.returncode == 0 and "and purged" in purged.stdout, purged
            assert "notes.txt: not the agent's" in purged.stdout
            assert stored(device) == {"lock", "left.json", "notes.txt"}

        site.cluster.apply(edge_node(NODE))
        joined = device.command("join", site.url, site.token(replace=True))
        assert joined.returncode == 0, joined.stderr
        device.start()
        wait_until("it is connected again", device.connected, seconds=100)
        assert "left.json" not in stored(device)
    finally:
        if device.running is not None and device.running.alive:
            device.stop()
