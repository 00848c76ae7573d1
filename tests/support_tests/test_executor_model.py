"""The model of more executors gives back what it was made of, and says where it ends."""

from __future__ import annotations

import pytest
from benchmarks.ingest.executor_model import Measured, Parts, fitted

PARTS = Parts(serial_seconds=0.4, executor_micros=25.0, messaging_micros=4.0)


def run(executors: int) -> Measured:
    rows = 50_000.0
    seconds = PARTS.serial_seconds + rows * PARTS.executor_micros / 1e6 / (executors * 0.25)
    return Measured(executors=executors, core_share=0.25, batch_seconds=seconds, batch_rows=rows)


def test_the_parts_are_found_in_the_runs() -> None:
    """What no executor does, and what each row costs them."""
    found = fitted([run(1), run(2), run(4)], 4.0)
    assert found.serial_seconds == pytest.approx(0.4)
    assert found.executor_micros == pytest.approx(25.0)


def test_one_number_of_executors_is_no_line() -> None:
    """Nothing can be said of more."""
    with pytest.raises(ValueError, match="different numbers"):
        fitted([run(2), run(2)], 4.0)


def test_large_batches_scale_until_messaging_is_the_limit() -> None:
    """Small ones wait for what no executor does."""
    assert PARTS.rate(1, 500_000) == pytest.approx(500_000 / (0.4 + 12.5))
    assert PARTS.rate(4, 500_000) / PARTS.rate(1, 500_000) == pytest.approx(3.66, abs=0.01)
    assert PARTS.rate(4, 5_000) / PARTS.rate(1, 5_000) < 1.3
    assert PARTS.rate(64, 500_000) == PARTS.messaging_rate == 250_000
    assert PARTS.cores_useful(500_000) == pytest.approx(12.5 / 1.6)
