"""Sources and the patterns that take them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead_edge.routes.endpoints import Sink, SourcePattern, brokered

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())["sources"]


@pytest.mark.parametrize(("pattern", "source", "matches"), CASES)
def test_patterns_of_the_original(pattern: str, source: str, matches: bool) -> None:
    assert SourcePattern(pattern).matches(source) is matches


@pytest.mark.parametrize(
    ("pattern", "source", "matches"),
    [
        ("/message", "/messages", False),
        ("/messages/modules/*/outputs/o", "/messages/modules/m/outputs/o", False),
        ("/messages/modules/modA", "/messages/modules/modA1", False),
        ("/messages/modules/temp*", "/messages/modules/temperature", False),
        ("/messages/modules/temp*", "/messages/modules/temp", True),
        ("/MESSAGES/*", "/messages/Modules/x", True),
        ("/*", "/anything", True),
    ],
)
def test_what_surprises(pattern: str, source: str, matches: bool) -> None:
    assert SourcePattern(pattern).matches(source) is matches


@pytest.mark.parametrize(
    ("pattern", "twin"),
    [("/twinChangeNotifications", True), ("/TWINCHANGENOTIFICATIONS/*", True), ("/*", False), ("/messages/*", False)],
)
def test_twin_sources(pattern: str, twin: bool) -> None:
    assert SourcePattern(pattern).twin_changes is twin


@pytest.mark.parametrize("address", ["/modules/m/inputs/i", "modules/m/inputs/i", "/modules/m/inputs/i/", "/a/m/b/i"])
def test_brokered(address: str) -> None:
    assert brokered(address) == Sink(module="m", input="i")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/",
        "/modules/m",
        "/modules/m/inputs/i/x",
        "//modules/m/inputs/i",
        "/modules//inputs/i",
        "/modules/m/inputs//",
    ],
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ValueError, match="expected /modules/"):
        brokered(address)


def test_endpoint_ids() -> None:
    assert (Sink().endpoint("n"), Sink(module="m", input="i").endpoint("n")) == ("iothub", "n/m/i")
