"""The real agent on a disk of its own that is full: it refuses what arrives, and drains what it has."""

from __future__ import annotations

import contextlib
import subprocess
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.edges.edge_line import CountingHub, EdgeProgram, telemetry
from tests.support.processes import wait_until

DISK_BYTES = 48 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, small. Needs the right to mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "fairlead-full", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a file system here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Take all the room there is, to the last byte."""
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))


def publish_until_full(edge: EdgeProgram, disk: Path) -> int:
    """Publish while the disk fills up; returns how many were answered 200."""
    answered = 0
    for number in range(2_000):
        if number == 40:
            fill(disk / "hog")
        try:
            batch = [telemetry(number % 10, {"n": answered + each, "pad": "x" * 900}) for each in range(20)]
            answered += len(edge.publish(batch))
        except urllib.error.HTTPError as error:
            assert error.code == 507, error
            if number > 40:
                return answered
    raise AssertionError("the disk never was full")


@pytest.mark.process
def test_a_full_disk_drains_when_the_link_returns_and_a_restart_while_full_starts(disk: Path) -> None:
    """kill -9 and SIGTERM on the full disk, others taking every byte that is free: all 200s arrive, and it is noted."""
    with CountingHub() as hub, EdgeProgram(disk / "edge", hub.port, max_bytes=1 << 30) as edge:
        edge.await_routes()
        hub.wait_for(0)
        hub.cut()
        answered = publish_until_full(edge, disk)
        assert edge.status()["store"]["diskFull"] is True
        assert edge.running is not None and '"disk_full"' in edge.running.tail()
        for _ in range(2):
            edge.kill()
            fill(disk / "hog")
            edge.start()
        edge.stop()
        fill(disk / "hog")
        edge.start()
        fill(disk / "hog")
        assert edge.get("/readyz") == b"ok"
        hub.mend()
        assert edge.running is not None
        wait_until("the outbox drains", edge.drained, seconds=120, describe=edge.running.tail)
        bodies = [bytes(each.body) for each in hub.messages() if b'"n"' in bytes(each.body)]
        assert len(bodies) == answered == len(set(bodies))
        sent = sum(queue["sent"] for queue in edge.status()["queues"])
        assert sent == answered
        wait_until("there is room again", lambda: _accepts(edge), seconds=120)
        hub.wait_for(answered + 1)
        log = (edge.folder / "edge.log").read_text()
        assert "Traceback" not in log and '"traceback"' not in log


def _accepts(edge: EdgeProgram) -> bool:
    with contextlib.suppress(urllib.error.HTTPError):
        return bool(edge.publish([telemetry(0, {"late": True})]))
    return False
