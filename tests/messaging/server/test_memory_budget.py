"""Bytes in use for callers are bounded."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.errors import Unavailable
from fairlead_messaging.server.admission import MemoryBudget


def test_what_does_not_fit_is_refused_and_leaves_nothing() -> None:
    """With the limit's name and a pause; what is given back can be taken again."""
    budget = MemoryBudget(10, "too_many_bodies")
    budget.take(6)
    with pytest.raises(Unavailable) as refused:
        budget.take(5)
    assert (refused.value.code, budget.in_use) == ("too_many_bodies", 6)
    assert refused.value.retry_after_seconds > 0
    budget.take(4)
    budget.release(10)
    assert budget.in_use == 0


def test_what_is_there_already_is_counted_and_keeps_others_out() -> None:
    """``check`` lets through while there is any room."""
    budget = MemoryBudget(10, "too_many_pages")
    budget.check()
    budget.add(25)
    with pytest.raises(Unavailable):
        budget.check()
    budget.release(20)
    budget.check()
