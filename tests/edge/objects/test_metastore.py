"""What follows from a write, whichever store it is; the promises of both are in the conformance suite."""

from __future__ import annotations

import pytest

from fairlead_edge.objects import metastore


@pytest.mark.parametrize(
    ("stored", "wall", "opened"), [(0, 1_700_000_000_000, 1_700_000_000_000), (900, 7, 901), (900, 900, 901)]
)
def test_an_opening_takes_a_version_above_all_before(stored: int, wall: int, opened: int) -> None:
    """By the clock when it can be trusted, by what was stored when it went back."""
    assert metastore.opening_version(stored, wall) == opened
