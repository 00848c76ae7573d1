"""Places for requests that wait: shared, bounded, given back."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from fairlead_edge.waiting_places import NoPlace, WaitingPlaces


def fill(places: WaitingPlaces, module: str, stack: ExitStack) -> int:
    """As many as it gets."""
    before = len(places)
    while True:
        try:
            stack.enter_context(places.held_by(module))
        except NoPlace:
            return len(places) - before


def test_one_module_leaves_half_and_each_that_comes_gets_its_share() -> None:
    places = WaitingPlaces(64, has_names=True)
    with ExitStack() as stack:
        assert [fill(places, module, stack) for module in "abcdef"] == [32, 16, 8, 4, 2, 1]
        with pytest.raises(NoPlace, match="holds 32 of 64"):
            places.held_by("a").__enter__()
        assert fill(places, "g", stack) == 1
        with pytest.raises(NoPlace, match="all 64"):
            places.held_by("h").__enter__()
    assert len(places) == 0


def test_modules_without_names_have_all_places_together() -> None:
    places = WaitingPlaces(8, has_names=False)
    with ExitStack() as stack:
        assert fill(places, "", stack) == 8


def test_a_place_is_given_back_when_the_request_fails() -> None:
    places = WaitingPlaces(1, has_names=True)
    for _ in range(3):
        with pytest.raises(OSError), places.held_by("a"):
            raise OSError
    assert len(places) == 0
