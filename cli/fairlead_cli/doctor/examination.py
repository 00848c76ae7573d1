"""Checks and their findings.

Checks run in parallel, each in a daemon thread with a time limit.  One that exceeds it is a finding; its thread ends
with the program, because a thread cannot be stopped from outside.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

import click
import msgspec
from msgspec import structs

from fairlead_cli.text import printable, quantities
from fairlead_wire import errors

Level = Literal["ok", "warning", "problem"]
RANK: Final[dict[str, int]] = {"ok": 0, "warning": 1, "problem": 2}


class Finding(msgspec.Struct, frozen=True):
    """``check`` is a stable name (``disk.fsync``); ``remedy`` is empty when there is nothing to do."""

    check: str
    level: Level
    message: str
    remedy: str = ""


def ok(check: str, message: str) -> Finding:
    return Finding(check, "ok", message)


def warning(check: str, message: str, remedy: str) -> Finding:
    return Finding(check, "warning", message, remedy)


def problem(check: str, message: str, remedy: str) -> Finding:
    return Finding(check, "problem", message, remedy)


def worst(findings: Iterable[Finding]) -> Level:
    """The worst level; ok if there are no findings."""
    return max((each.level for each in findings), key=RANK.__getitem__, default="ok")


def counts(findings: Iterable[Finding]) -> dict[Level, int]:
    """The number of findings of each level."""
    found: dict[Level, int] = {"ok": 0, "warning": 0, "problem": 0}
    for each in findings:
        found[each.level] += 1
    return found


def document(side: str, findings: list[Finding]) -> dict[str, Any]:
    """For ``-o json``."""
    return {
        "kind": "Findings",
        "side": side,
        "worst": worst(findings),
        "counts": counts(findings),
        "items": [msgspec.to_builtins(each) for each in findings],
    }


def lines(findings: list[Finding]) -> list[str]:
    """For people: one line per finding, its remedy below it, and the counts at the end."""
    width = max((len(each.check) for each in findings), default=0)
    shown = []
    for each in findings:
        shown.append(f"{each.level.upper():8} {each.check.ljust(width)}  {printable.one_line(each.message)}")
        if each.remedy:
            shown.append(f"{'':8} {'':{width}}  -> {printable.one_line(each.remedy)}")
    found = counts(findings)
    counted = ", ".join(quantities.of(found[level], level) for level in ("warning", "problem"))
    shown.append(f"{quantities.of(len(findings), 'finding')}: {found['ok']} ok, {counted}")
    return shown


Probe = Callable[[], Iterable[Finding]]


# ── running checks ────────────────────────────────────────────────────────────────────────────────────────────────────


class Check(msgspec.Struct, frozen=True):
    """One probe: its name, how long it may take, and what to report when it takes longer."""

    name: str
    seconds: float
    probe: Probe
    remedy: str


PERMISSION: Final = "run fairlead doctor as the owner of that file, or as root"


class _Running:
    """Run one probe in its own thread."""

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
            reason = error.message if isinstance(error, click.ClickException) else errors.described(error)
            text = f"could not be checked: {reason}"
            remedy = PERMISSION if isinstance(error, PermissionError) else self.check.remedy
            self._findings = [problem(self.check.name, text, remedy)]
        self.done.set()

    def findings(self) -> list[Finding]:
        if self.done.is_set():
            return self._findings
        text = f"did not finish within {self.check.seconds:g} s"
        return [problem(self.check.name, text, self.check.remedy)]


def run(checks: Sequence[Check], *, done: Callable[[str], None] = lambda _: None) -> list[Finding]:
    """All findings, in the order of ``checks``; ``done`` is called with the name of each completed check."""
    started = time.monotonic()
    running = [_Running(check) for check in checks]
    found: list[Finding] = []
    for each in running:
        each.done.wait(max(0.0, started + each.check.seconds - time.monotonic()))
        found += each.findings()
        done(each.check.name)
    return _each_once(found)


def _each_once(findings: Iterable[Finding]) -> list[Finding]:
    """Without repetition: checks that failed for the same reason are one problem, which names the others."""
    same: dict[tuple[str, ...], list[Finding]] = {}
    for number, each in enumerate(findings):
        alike = (each.message, each.remedy) if each.level == "problem" else (str(number),)
        same.setdefault(alike, []).append(each)
    found = []
    for first, *others in same.values():
        names = ", ".join(dict.fromkeys(each.check for each in others if each.check != first.check))
        found.append(structs.replace(first, message=f"{first.message} (likewise {names})") if names else first)
    return found
