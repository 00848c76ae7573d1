"""Probes run beside each other; one that hangs or fails is a finding and hides nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from fairlead_cli.doctor import examination
from fairlead_cli.doctor.examination import Check, Finding, ok


def test_a_probe_that_hangs_is_a_finding() -> None:
    """The others are not kept waiting, and the order is that of the checks."""
    never = threading.Event()

    def hangs() -> Iterator[Finding]:
        never.wait()
        yield ok("disk", "never said")

    ended: list[str] = []
    checks = [Check("disk", 0.05, hangs, "look at dmesg"), Check("clock", 60, lambda: [ok("clock", "right")], "")]
    found = examination.run(checks, done=ended.append)
    never.set()
    assert [(each.check, each.level) for each in found] == [("disk", "problem"), ("clock", "ok")]
    assert "gave no answer within 0.05 s" in found[0].message and found[0].remedy == "look at dmesg"
    assert ended == ["disk", "clock"]


def test_a_probe_that_fails_is_a_finding() -> None:
    """With the error's name."""

    def fails() -> Iterator[Finding]:
        raise OSError("no such device")

    [found] = examination.run([Check("disk", 60, fails, "look at dmesg")])
    assert found.level == "problem" and "OSError: no such device" in found.message
