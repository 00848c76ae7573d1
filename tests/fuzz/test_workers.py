"""Slices in processes of their own: what kills or stops a process is a finding, and the others go on."""

from __future__ import annotations

import os
import signal

import pytest
from tests.fuzz import corpus, limits, workers
from tests.fuzz.target import Target

pytestmark = pytest.mark.process


def kills(content: bytes) -> None:
    """As a crash in C would."""
    os.kill(os.getpid(), signal.SIGKILL)


def spins(content: bytes) -> None:
    while True:
        pass


def swallows(content: bytes) -> None:
    """More memory than there is."""
    bytes(limits.MEMORY_BYTES_MAX * 2)


def target(read) -> Target:
    return Target(name=read.__name__, says="Of this test.", read=read, refusals=(ValueError,), shape="bytes")


@pytest.mark.parametrize(("read", "kind"), [(kills, "Crash"), (spins, "TooSlow"), (swallows, "MemoryError")])
def test_a_process_that_dies_or_spins_or_swallows_is_a_finding(read, kind, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(corpus, "CORPUS", tmp_path)
    monkeypatch.setattr(corpus, "GROWN", tmp_path / "grown")
    monkeypatch.setattr(limits, "SECONDS_MAX", 0.1)
    (tmp_path / read.__name__).mkdir()
    (tmp_path / read.__name__ / "one").write_bytes(b"seed")
    ((_, found),) = workers.run([(target(read), "fixed", 0.1)], 1)
    assert [finding.kind for _, finding in found.findings.values()] == [kind]
    assert found.tried >= 1
