"""Draws the picture of the start page, from what is written here: `make docs` writes it, a test compares.

Boxes and arrows on a grid of ten pixels; the card has its own ground, so that it reads the same in light and dark.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "fairlead.svg"
WIDTH, HEIGHT = 960, 420
GROUND, PANEL, EDGE, INK, DIM = "#0f172a", "#1e293b", "#475569", "#f1f5f9", "#a9b8cc"
DOWN, UP, CUT = "#7dd3fc", "#fcd34d", "#fca5a5"
FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
TITLE = "Objects go down from the cluster to the node, messages go up from the node into tables"
MEANING = (
    "In the cluster: the API server, the hub, messaging, ingest and tables. On the edge node: the agent with its store,"
    " and applications. Between them a link that is thin, metered and often down. Down: the newest state of each"
    " object. Up: the most urgent message first."
)


def draw() -> str:
    """The whole picture as SVG."""
    shapes = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="16" fill="{GROUND}"/>',
        _panel(20, 60, 450, 290, "Kubernetes cluster"),
        _panel(640, 60, 300, 290, "Edge node, one of many"),
        _box(35, 95, 165, 80, "API server", "what you want", DOWN),
        _box(290, 95, 165, 80, "hub", "who lacks what", DOWN),
        _box(35, 240, 115, 80, "tables", "exactly once", UP),
        _box(180, 240, 110, 80, "ingest", "Spark", UP),
        _box(320, 240, 135, 80, "messaging", "topics", UP),
        _box(655, 95, 120, 80, "agent", "and its disk", DOWN),
        _box(805, 95, 120, 80, "kubectl", "reads offline", DOWN),
        _box(655, 240, 120, 80, "outbox", "priority, TTL", UP),
        _box(805, 240, 120, 80, "your app", "one POST", UP),
        _arrow(200, 135, 290, 135, DOWN),
        _arrow(455, 135, 655, 135, DOWN),
        _arrow(775, 135, 805, 135, DOWN),
        _arrow(805, 280, 775, 280, UP),
        _arrow(655, 280, 455, 280, UP),
        _arrow(320, 280, 290, 280, UP),
        _arrow(180, 280, 150, 280, UP),
        _text(555, 118, "newest state wins", DOWN, 17, "middle"),
        _text(555, 308, "most urgent first", UP, 17, "middle"),
        f'<path d="M557 154 l-14 30 h22 l-16 34" fill="none" stroke="{CUT}" stroke-width="3" stroke-linecap="round"'
        ' stroke-linejoin="round"/>',
        _text(555, 246, "often down", CUT, 17, "middle"),
        _text(480, 392, "An answer means: it is on disk. Nothing is lost, nothing arrives twice, nothing is dropped"
              " in silence.", INK, 18, "middle"),
    ]  # fmt: skip
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-labelledby="t d" font-family="{FONT}">'
    )
    about = [f'<title id="t">{TITLE}</title>', f'<desc id="d">{MEANING}</desc>']
    marks = [
        f'<marker id="m{colour[1:]}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
        f' orient="auto"><path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>'
        for colour in (DOWN, UP)
    ]
    return "\n".join([head, *about, f"<defs>{''.join(marks)}</defs>", *shapes, "</svg>", ""])


def _text(x: int, y: int, text: str, colour: str, size: int, anchor: str = "start", weight: int = 400) -> str:
    return (
        f'<text x="{x}" y="{y}" fill="{colour}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )


def _panel(x: int, y: int, width: int, height: int, name: str) -> str:
    frame = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="12" fill="none" stroke="{EDGE}"/>'
    return frame + _text(x + 4, y - 14, name, INK, 19, weight=600)


def _box(x: int, y: int, width: int, height: int, name: str, below: str, colour: str) -> str:
    middle = x + width // 2
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{PANEL}" stroke="{colour}"'
        ' stroke-width="1.5"/>'
        + _text(middle, y + 36, name, INK, 20, "middle", 600)
        + _text(middle, y + 61, below, DIM, 15, "middle")
    )


def _arrow(x1: int, y1: int, x2: int, y2: int, colour: str) -> str:
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="2.5"'
        f' marker-end="url(#m{colour[1:]})"/>'
    )
