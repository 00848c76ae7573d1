"""Runs probes beside each other, each in a thread of its own with a limit; what does not end in time is a finding.

A thread cannot be ended from outside, so it is left behind: it is a daemon and goes with the program.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

import click
import msgspec

from fairlead_cli.doctor.finding import Finding, problem

Probe = Callable[[], Iterable[Finding]]


class Check(msgspec.Struct, frozen=True):
    """One probe: its name, how long it may take, and what to do when it takes longer."""

    name: str
    seconds: float
    probe: Probe
    remedy: str


class _Running:
    """One probe in its thread."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self.done = threading.Event()
        self._findings: list[Finding] = []
        self._thread = threading.Thread(target=self._run, name=f"doctor {check.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._findings = list(self.check.probe())
        except Exception as error:  # noqa: BLE001 - a probe that fails must not hide what the others found
            said = error.message if isinstance(error, click.ClickException) else f"{type(error).__name__}: {error}"
            text = f"could not be looked at: {said}"
            self._findings = [problem(self.check.name, text, self.check.remedy)]
        self.done.set()

    def findings(self) -> list[Finding]:
        if self.done.is_set():
            return self._findings
        text = f"gave no answer within {self.check.seconds:g} s"
        return [problem(self.check.name, text, self.check.remedy)]


def run(checks: Sequence[Check], *, done: Callable[[str], None] = lambda _: None) -> list[Finding]:
    """Everything that was found, in the order of ``checks``; ``done`` is called with the name of each that ended."""
    started = time.monotonic()
    running = [_Running(check) for check in checks]
    found: list[Finding] = []
    for each in running:
        each.done.wait(max(0.0, started + each.check.seconds - time.monotonic()))
        found += each.findings()
        done(each.check.name)
    return found
