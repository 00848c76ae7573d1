"""Ages as kubectl prints them."""

from __future__ import annotations

import datetime

import pytest

from fairlead_cli.text import quantities
from fairlead_wire.validation import route_manifest
from fairlead_wire.validation.route_manifest import DEFAULT_PRIORITY

NOW = datetime.datetime(2026, 11, 22, 12, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 120, "5h2m"),
        (9 * 3600 + 120, "9h"),
        (47 * 3600, "47h"),
        (3 * 86_400 + 4 * 3600, "3d4h"),
        (12 * 86_400, "12d"),
        (800 * 86_400, "2y70d"),
        (4000 * 86_400, "10y"),
    ],
)
def test_steps(seconds: float, text: str) -> None:
    assert quantities.short(seconds) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [("2026-11-22T11:59:30Z", "30s"), ("2026-11-22T11:59:30.25", "29s"), ("", ""), (None, ""), ("soon", ""), (5, "")],
)
def test_times_of_the_api(time: object, text: str) -> None:
    assert quantities.since(time, NOW) == text


# ---- one of something is no plural ----


def test_one_and_others() -> None:
    """Zero and many are plural; some nouns have a plural of their own."""
    assert [quantities.of(number, "dead letter") for number in (0, 1, 2)] == [
        "0 dead letters",
        "1 dead letter",
        "2 dead letters",
    ]
    assert (quantities.of(1, "retry", "retries"), quantities.of(5, "retry", "retries")) == ("1 retry", "5 retries")


# ---- how long messages take to a table, for people ----


def test_a_line_names_priority_and_quantiles() -> None:
    measured = {"priority": DEFAULT_PRIORITY, "measured": 7, "p50Seconds": 1.2, "p95Seconds": 75.0}
    assert (
        quantities.line(measured) == "to table  priority default: half within 1.2 s, 95 % within 1 min 15 s; 7 measured"
    )
    assert route_manifest.priority_shown(3) == 3


def test_more_than_the_window_and_the_moment_are_said() -> None:
    measured = {"priority": 3, "measured": 1043, "window": 512, "p50Seconds": 0.4, "p95Seconds": 1, "asOf": "t1"}
    assert quantities.line(measured).endswith("; the latest 512 of 1043 measured, as of t1")


def test_a_cell_is_one_word() -> None:
    measured = {"measured": 7, "p50Seconds": 0.4, "p95Seconds": 200.0}
    found = [{"priority": 0, **measured}, {"priority": DEFAULT_PRIORITY, **measured}]
    assert quantities.cell(found) == "0:0.4s/3min20s,default:0.4s/3min20s"
    assert quantities.cell([]) == "-"


@pytest.mark.parametrize(
    ("count", "size", "traffic"),
    [
        (0, "0 bytes", "0 bytes"),
        (1, "1 byte", "1 byte"),
        (16273, "15.9 KiB", "16.3 kB"),
        (805306368, "768 MiB", "805.3 MB"),
        (50_000_000, "47.7 MiB", "50 MB"),
        (3 * 1024**4, "3 TiB", "3.3 TB"),
    ],
)
def test_bytes_have_a_unit(count: int, size: str, traffic: str) -> None:
    """On a disk by 1024, on a line by 1000, as data plans are sold."""
    assert (quantities.size(count), quantities.traffic(count)) == (size, traffic)
