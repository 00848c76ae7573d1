"""What became of the latest messages."""

from __future__ import annotations

import pytest

from fairlead_hub.inputs import outcomes
from fairlead_hub.inputs.outcomes import InputOutcomes


def test_the_newest_counts_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that was noted again is young again."""
    monkeypatch.setattr(outcomes, "KEPT_MAX", 2)
    kept = InputOutcomes()
    kept.note("n", "a", "delivered")
    kept.note("n", "b", "refused", "why")
    kept.note("n", "a", "consumed")
    kept.note("n", "c", "expired")
    assert kept.of("n", "a") == ("consumed", "") and kept.of("n", "b") is None
    assert kept.of("m", "a") is None
