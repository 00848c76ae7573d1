"""Checking the values of one column, with dates, times and zones as text."""

from __future__ import annotations

import calendar
import re

import pytest

from fairlead_ingest.rows import column_check, ddl
from fairlead_ingest.rows.column_check import ColumnCheck, Misfit
from fairlead_ingest.rows.rules import ColumnRule


def look(data_type: str, rule: ColumnRule) -> ColumnCheck:
    return ColumnCheck.of("c", ddl.type_of(data_type), rounds=False, rule=rule)


def test_a_close_look_gives_the_text_to_read():
    """What is no string becomes one in a string's column, whatever is asked of it."""
    assert look("string", ColumnRule(allowed=("5",))).close(b"5") == b'"5"'
    assert look("string", ColumnRule()).close(None) is None and look("string", ColumnRule()).close(b"null") == b"null"


@pytest.mark.parametrize("raw", [None, b"null"])
def test_what_is_required_is_missed(raw):
    with pytest.raises(Misfit, match="required"):
        look("int", ColumnRule(required=True)).close(raw)


def test_a_number_of_a_thousand_digits_is_no_decimal():
    with pytest.raises(Misfit):
        look("decimal(10,2)", ColumnRule()).close(b"1." + b"0" * column_check.DIGITS_MAX)
    assert look("double", ColumnRule()).close(b"1." + b"0" * 5000) is not None


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [("double", False), ("array<double>", True), ("struct<a:map<string,float>>", True), ("array<int>", False)],
)
def test_floats_inside_of_a_column_are_known(data_type, expected):
    assert column_check.has_floats(ddl.type_of(data_type)) is expected


def is_timestamp(text: str) -> bool:
    return re.search(column_check.TIMESTAMP, text) is not None and column_check.is_timestamp(text)


@pytest.mark.parametrize("year", ["1900", "2000", "2023", "2024", "2100", "0400"])
def test_each_day_of_a_year_is_one(year):
    """With and without a leading zero; the day after the last is none."""
    for month in range(1, 14):
        last = calendar.monthrange(int(year), month)[1] if month < 13 else 0
        for day in range(40):
            for text in (f"{year}-{month:02}-{day:02}", f"{year}-{month}-{day}"):
                is_one = 1 <= day <= last
                assert (re.search(column_check.DATE, text) is not None) == is_one, text
                assert is_timestamp(f"{text}T10:00:00Z") == is_one, text
                assert (re.search(column_check.TIMESTAMP_NTZ, f"{text} 1:2") is not None) == is_one, text


@pytest.mark.parametrize("zone", ["Z", "UTC", "UT", "Turkey", "NZ", "Europe/Paris", "Etc/GMT+5", "PST", "SystemV/EST5",
                                  "+1", "+01", "-1:30", "+0130", "+013000", "+01:02:03", "+18:00", "+18", "-18:00:00",
                                  "+180000", "UTC+1", "GMT-1:5", "UT+18"])  # fmt: skip
def test_zones_that_are_some(zone):
    assert is_timestamp(f"2026-11-22T10:00:00 {zone}") and is_timestamp(f"2026-11-22 1:2:3.5{zone}")
    assert not is_timestamp(f"2026-11-22T10:00{zone}")


@pytest.mark.parametrize("zone", ["utc", "+", "+:", "+01:", "+18:01", "+18:00:01", "+1801", "+19", "+1:60", "+130",
                                  "+1:2:3", "+1:60:00", "UTC+19", "Europe/Nowhere", "Europe/Paris+12", "Etc/GMT+5Z",
                                  "ROC", "z", "ZZ", "Z+01:00", "europe/paris"])  # fmt: skip
def test_zones_that_are_none(zone):
    assert not is_timestamp(f"2026-11-22T10:00:00 {zone}")


def test_where_no_zones_are_listed_spark_alone_decides(monkeypatch):
    """An image without the list of zones is no reason to refuse a message."""
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    column_check._zones.cache_clear()
    try:
        assert column_check.is_zone("Europe/Nowhere")
    finally:
        column_check._zones.cache_clear()
