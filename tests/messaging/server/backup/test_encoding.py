"""How rows become blocks; what comes of them again is tried in test_decoding."""

from __future__ import annotations

import pytest

from fairlead_messaging.server import backup


def pieces(sizes: list[int]) -> list[int]:
    rows = [(b"%04d" % number, bytes(size)) for number, size in enumerate(sizes)]
    return [held for _, held in backup.encode(rows, program="", service="", taken_ms=0)]


@pytest.mark.parametrize(
    ("sizes", "held"),
    [
        ([], [0, 0]),
        ([10], [0, 1, 0]),
        ([40, 40, 40, 40, 40], [0, 3, 2, 0]),
        ([1000, 10, 1000], [0, 1, 2, 0]),
    ],
)
def test_a_block_ends_with_the_row_that_fills_it(
    sizes: list[int], held: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is never larger than its limit and one row."""
    monkeypatch.setattr(backup, "BLOCK_BYTES", 120)
    assert pieces(sizes) == held


def test_rows_are_taken_as_they_are_needed() -> None:
    """A store of any size needs the memory of a block."""
    taken = 0

    def rows() -> object:
        nonlocal taken
        for number in range(10**9):
            taken += 1
            yield b"%012d" % number, bytes(100_000)

    found = backup.encode(rows(), program="", service="", taken_ms=0)  # type: ignore[arg-type]
    next(found)
    next(found)
    assert 10 <= taken <= 12
    found.close()
