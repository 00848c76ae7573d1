"""A small dose for each change and the full one for `make verify`, of cases that differ by chance alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def dose(cases: Iterable[Any], first: int) -> list[Any]:
    """Parameters of a test: the ``first`` cases as they are, the others for `make verify`."""
    found = list(cases)
    return [*found[:first], *(pytest.param(case, marks=pytest.mark.verify) for case in found[first:])]
