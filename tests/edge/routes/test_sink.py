"""Sinks and endpoint ids."""

from __future__ import annotations

import pytest

from fairlead_edge.routes.endpoints import Sink, brokered


@pytest.mark.parametrize("address", ["/modules/m/inputs/i", "modules/m/inputs/i", "/modules/m/inputs/i/", "/a/m/b/i"])
def test_brokered(address: str) -> None:
    """One slash at either end; the first and third word are not looked at."""
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
    """Exactly four words."""
    with pytest.raises(ValueError, match="expected /modules/"):
        brokered(address)


def test_endpoint_ids() -> None:
    """iothub for upstream, node/module/input for a module."""
    assert (Sink().endpoint("n"), Sink(module="m", input="i").endpoint("n")) == ("iothub", "n/m/i")
