"""Probes run beside each other; one that hangs or fails is a finding and hides nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from fairlead_cli.doctor import examination
from fairlead_cli.doctor.examination import Check, Finding, counts, document, lines, ok, problem, warning, worst


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
    assert "did not finish within 0.05 s" in found[0].message and found[0].remedy == "look at dmesg"
    assert ended == ["disk", "clock"]


def test_a_probe_that_fails_is_a_finding() -> None:
    def fails() -> Iterator[Finding]:
        raise OSError("no such device")

    [found] = examination.run([Check("disk", 60, fails, "look at dmesg")])
    assert found.level == "problem" and "OSError: no such device" in found.message


def test_a_probe_that_may_not_look_says_who_may() -> None:
    def fails() -> Iterator[Finding]:
        raise PermissionError(13, "Permission denied", "/data/outbox.db")

    [found] = examination.run([Check("store", 60, fails, "look at dmesg")])
    assert "/data/outbox.db" in found.message and found.remedy == examination.PERMISSION


def test_one_reason_for_several_checks_is_one_problem() -> None:
    def fails() -> Iterator[Finding]:
        raise OSError("the server is away")

    found = examination.run([Check(name, 60, fails, "start it") for name in ("api", "rights", "pods")])
    assert [each.check for each in found] == ["api"]
    assert found[0].message.endswith("the server is away (likewise rights, pods)")


# ---- findings ----


SEVERAL = [
    ok("clock", "it is right"),
    warning("disk.fsync", "it is slow", "a faster one"),
    problem("dns", "no", "mend it"),
]


def test_the_worst_decides() -> None:
    assert (worst([]), worst(SEVERAL[:1]), worst(SEVERAL[:2]), worst(SEVERAL)) == ("ok", "ok", "warning", "problem")
    assert counts(SEVERAL) == {"ok": 1, "warning": 1, "problem": 1}


def test_people_see_the_remedy_below_the_sentence() -> None:
    assert lines(SEVERAL) == [
        "OK       clock       it is right",
        "WARNING  disk.fsync  it is slow",
        "                     -> a faster one",
        "PROBLEM  dns         no",
        "                     -> mend it",
        "3 findings: 1 ok, 1 warning, 1 problem",
    ]
    assert lines([*SEVERAL, SEVERAL[2]])[-1] == "4 findings: 1 ok, 1 warning, 2 problems"
    assert lines(SEVERAL[:1])[-1] == "1 finding: 1 ok, 0 warnings, 0 problems"


def test_programs_see_all_of_it() -> None:
    shown = document("edge", SEVERAL)
    assert (shown["side"], shown["worst"], len(shown["items"])) == ("edge", "problem", 3)
    assert shown["items"][2] == {"check": "dns", "level": "problem", "message": "no", "remedy": "mend it"}
