"""The picture is a PNG with a panel for each node and priority."""

from __future__ import annotations

from pathlib import Path

from e2e.demo.count import Accepted, Row
from e2e.demo.picture import Mark, cumulative, draw


def test_curves_count_up_from_the_beginning() -> None:
    """Times in any order become seconds since the run began."""
    assert cumulative([12.0, 11.0], 10.0) == ([1.0, 2.0], [1, 2])


def test_it_is_drawn(tmp_path: Path) -> None:
    """With nothing in the table yet as well."""
    accepted = [Accepted(id=str(n), node="edge-1", priority=n % 2, at=100.0 + n) for n in range(10)]
    rows = [Row(id="0", node="edge-1", priority=0, enqueued=100.0, published=101.0, ingested=102.0)]
    marks = [
        Mark(text="cut", node="edge-1", start=103.0, end=105.0),
        Mark(text="kill", node="", start=104.0, end=104.0),
    ]
    path = tmp_path / "deep" / "run.png"
    draw(path, accepted, rows, marks, 100.0)
    assert path.read_bytes().startswith(b"\x89PNG")
