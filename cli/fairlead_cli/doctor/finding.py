"""One thing that was looked at: how it is, in a sentence, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from fairlead_cli.text import printable

Level = Literal["ok", "warning", "problem"]
RANK: Final[dict[str, int]] = {"ok": 0, "warning": 1, "problem": 2}


class Finding(msgspec.Struct, frozen=True):
    """``check`` is a stable name (``disk.fsync``); ``remedy`` is empty when nothing is to be done."""

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
    """Of none: ok."""
    return max((each.level for each in findings), key=RANK.__getitem__, default="ok")


def counts(findings: Iterable[Finding]) -> dict[Level, int]:
    """How many of each level."""
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
    """For people: a line each, the remedy below it, and the counts at the end."""
    width = max((len(each.check) for each in findings), default=0)
    shown = []
    for each in findings:
        shown.append(f"{each.level.upper():8} {each.check.ljust(width)}  {printable.one_line(each.message)}")
        if each.remedy:
            shown.append(f"{'':8} {'':{width}}  -> {printable.one_line(each.remedy)}")
    found = counts(findings)
    plural = "" if len(findings) == 1 else "s"
    shown.append(
        f"{len(findings)} finding{plural}: {found['ok']} ok, {found['warning']} warning, {found['problem']} problem"
    )
    return shown
