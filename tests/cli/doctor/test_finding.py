"""Findings: the worst of them, their counts, and how they are shown."""

from __future__ import annotations

from fairlead_cli.doctor.examination import counts, document, lines, ok, problem, warning, worst

SEVERAL = [
    ok("clock", "it is right"),
    warning("disk.fsync", "it is slow", "a faster one"),
    problem("dns", "no", "mend it"),
]


def test_the_worst_decides() -> None:
    """Of none: ok."""
    assert (worst([]), worst(SEVERAL[:1]), worst(SEVERAL[:2]), worst(SEVERAL)) == ("ok", "ok", "warning", "problem")
    assert counts(SEVERAL) == {"ok": 1, "warning": 1, "problem": 1}


def test_people_see_the_remedy_below_the_sentence() -> None:
    """And the counts at the end."""
    assert lines(SEVERAL) == [
        "OK       clock       it is right",
        "WARNING  disk.fsync  it is slow",
        "                     -> a faster one",
        "PROBLEM  dns         no",
        "                     -> mend it",
        "3 findings: 1 ok, 1 warning, 1 problem",
    ]


def test_programs_see_all_of_it() -> None:
    """One document."""
    shown = document("edge", SEVERAL)
    assert (shown["side"], shown["worst"], len(shown["items"])) == ("edge", "problem", 3)
    assert shown["items"][2] == {"check": "dns", "level": "problem", "message": "no", "remedy": "mend it"}
