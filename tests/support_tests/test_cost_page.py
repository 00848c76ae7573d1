"""The page of what reliability costs says what was measured."""

from __future__ import annotations

import pytest
from benchmarks.cost import page as cost_page
from benchmarks.cost.page import Figures, Hops, Level

LEVELS = [
    Level(name="sent", hub_us=50, api_us=300, link_bytes=448, p50_ms=5.4, p99_ms=7.6),
    Level(name="acked", hub_us=110, api_us=310, link_bytes=484, p50_ms=5.9, p99_ms=9.7),
    Level(name="durable", hub_us=112, api_us=330, node_us=565, p50_ms=16, p99_ms=29),
    Level(name="recorded", hub_us=730, api_us=4150, node_us=605, p50_ms=600, p99_ms=900),
]
HOPS = Hops(cpu_us={"producer": 5, "agent": 50, "hub": 20, "messaging": 25}, rate=15_000, echo=85_000, cores=2)


def page(levels: list[Level]) -> str:
    return cost_page.page(
        Figures(
            levels=levels, hops=HOPS, layers=["| layer |"], machine="2 cores", nodes=8, objects=100, object_bytes=1000
        )
    )


def test_every_figure_is_on_the_page() -> None:
    """One row a level; what was not measured is a dash."""
    text = page(LEVELS)
    rows = [line for line in text.splitlines() if line.startswith(("| sent", "| acked", "| durable", "| recorded"))]
    assert len(rows) == 4
    assert rows[0].endswith("| 50 | 300 | – | 448 | 5.4 | 7.6 |")
    assert rows[3].endswith("| 730 | 4,150 | 605 | – | 600 | 900 |")
    assert "| total | | 100 |" in text and "could handle 20,000 messages a second; 15,000" in text
    assert "\n| layer |\n" in text
    assert "60 µs a delivery, 2.2 times the cost of sending alone" in text
    assert "618 µs more at the hub and 3820 µs at the API server" in text


@pytest.mark.slow
def test_the_same_figures_make_the_same_picture(tmp_path) -> None:
    """So that a difference in the repository is a difference in the figures."""
    first, second = tmp_path / "1.svg", tmp_path / "2.svg"
    cost_page.draw(LEVELS, first)
    cost_page.draw(LEVELS, second)
    assert first.read_bytes() == second.read_bytes()
    assert b"<svg" in first.read_bytes()


def test_a_level_alone_concludes_nothing() -> None:
    """A run that ended early writes no sentence about what it did not measure."""
    text = page(LEVELS[:2])
    assert "times the cost of sending alone" not in text
