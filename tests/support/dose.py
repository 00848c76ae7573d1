"""Random cases: a few for each change, all of them in `make verify`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def dose(cases: Iterable[Any], first: int) -> list[Any]:
    """Parameters of a test: the ``first`` cases as they are, the others for `make verify`."""
    found = list(cases)
    return [*found[:first], *(pytest.param(case, marks=pytest.mark.verify) for case in found[first:])]
