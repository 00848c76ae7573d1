"""The picture is a PNG with a panel for each node and priority."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from e2e.demo.count import Accepted, Row
from e2e.demo.picture import Mark, cumulative, draw, figure_of, legend
from matplotlib import pyplot as plt
from matplotlib.text import Text


def test_curves_count_up_from_the_beginning() -> None:
    """Times in any order become seconds since the run began."""
    assert cumulative([12.0, 11.0], 10.0) == ([1.0, 2.0], [1, 2])


@pytest.mark.slow
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


@pytest.mark.slow
def test_no_label_lies_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything happening within a second, as it does: each pair of texts has a place of its own."""
    nodes = ("edge-1", "edge-2", "edge-3")
    accepted = [Accepted(id=f"{n}{i}", node=n, priority=i % 2, at=100.0 + i) for n in nodes for i in range(40)]
    marks = [
        Mark(text="cut", node="edge-2", start=109.9, end=125.0),
        Mark(text="hub killed", node="", start=110.0, end=110.0),
        Mark(text="agent killed", node="edge-2", start=110.2, end=110.2),
    ]
    drawn: dict[Text, None] = {}
    draw_text = Text.draw
    # What is drawn: axes keep labels that they do not show, at places of before.
    monkeypatch.setattr(Text, "draw", lambda text, *rest: (drawn.setdefault(text), draw_text(text, *rest)))
    with plt.style.context("default"):
        figure = figure_of(accepted, [], marks, 100.0)
        drawn.clear()
        figure.canvas.draw()
    texts = [text for text in drawn if text.get_text().strip() and text.get_visible()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    assert any("agent killed" in text for text, _ in boxes)
    for (one, first), (two, second) in itertools.combinations(boxes, 2):
        assert not first.overlaps(second), (one, two)
    plt.close(figure)


def test_marks_are_told_in_order() -> None:
    """A stretch with both its ends."""
    marks = [Mark(text="b", node="", start=5.0, end=5.0), Mark(text="a", node="", start=1.0, end=3.0)]
    assert legend(marks, 0.0) == ["1 to 3 s: a", "5 s: b"]
