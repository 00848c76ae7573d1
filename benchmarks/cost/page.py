"""The page and the picture of what reliability costs, made from the figures of ``benchmarks.cost``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import msgspec
from matplotlib import pyplot

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "explanation"
PAGE = FOLDER / "cost.md"
PICTURE = FOLDER / "cost.svg"


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one level, for one change at one node.  None: not measured there."""

    name: str
    hub_us: float
    """Microseconds of CPU of the hub."""
    api_us: float
    """Of the API server and etcd; the user's own write, shared by all nodes, is in it."""
    node_us: float | None = None
    """Of the agent."""
    link_bytes: float | None = None
    """In both directions, without TLS and TCP."""
    p50_ms: float
    p99_ms: float


Read = Callable[[Level], float | None]


class Hops(msgspec.Struct, frozen=True, kw_only=True):
    """The line up under full load."""

    cpu_us: dict[str, float]
    """Microseconds of CPU for one message, by program, in the order the message meets them."""
    rate: float
    """Messages a second from the producer into the topic."""
    echo: float
    """The same messages a second to another process and back over a WebSocket; nothing is stored."""
    cores: int


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All that was measured in one run, and on what."""

    levels: Sequence[Level]
    hops: Hops
    layers: Sequence[str]
    """The table of the line into tables, as lines of Markdown."""
    machine: str
    nodes: int
    objects: int
    object_bytes: int


MEANING = {
    "sent": "fire-and-forget: written to every socket; no response is read, no state is kept",
    "acked": "work queue, windows, acknowledgements, retries; the node holds it in memory",
    "durable": "real agents: on the disk and flushed before the acknowledgement",
    "recorded": "and an ObjectSync in the API server records what the node holds",
}
COLUMNS: dict[str, Read] = {
    "hub CPU, µs": lambda level: level.hub_us,
    "API server and etcd CPU, µs": lambda level: level.api_us,
    "agent CPU, µs": lambda level: level.node_us,
    "bytes on the link": lambda level: level.link_bytes,
    "latency p50, ms": lambda level: level.p50_ms,
    "latency p99, ms": lambda level: level.p99_ms,
}


HOPS = {
    "producer": "writes prepared requests of 50 messages of 1 KiB",
    "agent": "reads, validates, routes, stores and flushes; reads again, sends, records acknowledgements",
    "hub": "checks, groups by topic, publishes",
    "messaging": "decodes, orders, removes duplicates, stores and flushes",
}


def write(figures: Figures) -> None:
    """Both files anew."""
    PAGE.write_text(page(figures))
    draw(figures.levels, PICTURE)


def sentence(level: Level) -> str:
    """One level in one line."""
    figures = ", ".join(f"{name} {_text(read(level))}" for name, read in COLUMNS.items())
    return f"{level.name}: {figures}"


def page(figures: Figures) -> str:
    """The whole page as Markdown."""
    levels, objects = figures.levels, figures.objects
    head = f"| level | what it does | {' | '.join(COLUMNS)} |"
    rows = [
        f"| {level.name} | {MEANING[level.name]} | {' | '.join(_text(read(level)) for read in COLUMNS.values())} |"
        for level in levels
    ]
    return "\n".join(
        (
            "# What reliability costs",
            "",
            "Reliable delivery costs a queue, acknowledgements, a flush on the node, and a write to the API server.",
            "This page measures each part. The same changes are made at four levels; each level does what the previous",
            "one does, plus one thing. `make cost` measures again and writes this page and its chart.",
            "",
            "![CPU and latency of each level](cost.svg)",
            "",
            head,
            "| --- | --- |" + " ---: |" * len(COLUMNS),
            *rows,
            "",
            *_conclusions({level.name: level for level in levels}),
            "",
            f"Measured with {figures.nodes} nodes and {objects} ConfigMaps of {figures.object_bytes:,} bytes, all",
            f"programs on one machine with {figures.machine}. CPU and bytes: for one change at one node, in bursts of",
            f"{objects} changes; the "
            "user's own write, which all nodes share, is the API server's. Latency: 5 single changes a second,",
            "from before the write to the API server until the frame is at the node (sent), the acknowledgement leaves",
            "the node (acked), the agent shows it to a watching program (durable), or the ObjectSync shows its version",
            "(recorded).",
            "All programs share the processors, and every agent has a watcher: latencies are those of a busy machine.",
            "",
            *_line_up(figures.hops),
            "",
            "## Messages from topic to table",
            "",
            *figures.layers,
            "",
            "CPU for one row of 1 KiB for each layer: a run with it minus a run without it. The minimum is",
            "Spark's: it reads pages from a Python source over a socket and passes them to a Python sink the same way,",
            "so each row is copied twice between the JVM and Python. Fairlead's share is fetching, decoding and the",
            "part of the sink that writes Parquet; a plain loop has the same costs. To get closer to it, source and",
            "sink would have to run in the JVM, or Spark would have to share memory with its Python workers.",
            "",
            "## How to reduce the cost",
            "",
            "- `flush_seconds` of the hub's `[record]` sets how long changes of one object are collected before its",
            "  ObjectSync is written; all of them cost one write ([settings](../reference/hub.md)).",
            "- A flush is shared: objects that arrive at a node together are flushed and acknowledged together",
            "  ([delivery](delivery.md)).",
            "",
        )
    )


def _conclusions(of: dict[str, Level]) -> list[str]:
    if of.keys() != MEANING.keys():
        return []
    sent, acked, durable, recorded = (of[name] for name in MEANING)
    return [
        f"- Acknowledgements, queue and retries cost the hub {acked.hub_us - sent.hub_us:.0f} µs a delivery, "
        f"{acked.hub_us / sent.hub_us:.1f} times the cost of sending alone.",
        f"- Durability costs the node {_text(durable.node_us)} µs of CPU a delivery, and the hub almost nothing.",
        f"- The ObjectSync is the most expensive part: {recorded.hub_us - durable.hub_us:.0f} µs more at the hub and "
        f"{recorded.api_us - durable.api_us:.0f} µs at the API server and etcd, for one write each.",
    ]


def _line_up(hops: Hops) -> list[str]:
    total = sum(hops.cpu_us.values())
    bound = hops.cores * 1e6 / total
    return [
        "## Messages from producer to topic",
        "",
        "| program | what it does | CPU for one message, µs |",
        "| --- | --- | ---: |",
        *(f"| {name} | {HOPS[name]} | {_text(value)} |" for name, value in hops.cpu_us.items()),
        f"| total | | {_text(total)} |",
        "",
        f"{hops.cores} cores that do nothing else could handle {bound:,.0f} messages a second; {hops.rate:,.0f}",
        f"arrived in the topic ({hops.rate / bound:.0%} of that). A raw WebSocket echo of the same messages, which",
        f"stores nothing, reaches {hops.echo:,.0f}: the full path reaches {hops.rate / hops.echo:.0%} of it.",
    ]


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


PANELS: dict[str, dict[str, Read]] = {
    "CPU of one change at one node, µs": {
        "hub": lambda level: level.hub_us,
        "agent": lambda level: level.node_us,
        "API server and etcd": lambda level: level.api_us,
    },
    "Latency, ms (logarithmic)": {
        "p50": lambda level: level.p50_ms,
        "p99": lambda level: level.p99_ms,
    },
}
COLOURS = ("#2b6cb0", "#dd6b20", "#718096")


def draw(levels: Sequence[Level], path: Path) -> None:
    """Two panels of bars: CPU stacked, latency side by side."""
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "fairlead"
    figure, (cpu, latency) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    names = [level.name for level in levels]
    places = list(range(len(levels)))
    (cpu_title, parts), (latency_title, shares) = PANELS.items()
    below: list[float] = [0.0] * len(levels)
    for (part, read), colour in zip(parts.items(), COLOURS, strict=True):
        values = [read(level) or 0.0 for level in levels]
        cpu.bar(names, values, bottom=below, label=part, color=colour)
        below = [low + value for low, value in zip(below, values, strict=True)]
    for place, total in zip(places, below, strict=True):
        cpu.annotate(f"{total:,.0f}", (place, total), ha="center", va="bottom")
    cpu.set_title(cpu_title)
    for index, ((share, read), colour) in enumerate(zip(shares.items(), COLOURS, strict=False)):
        at = [place + (index - 0.5) * 0.4 for place in places]
        values = [read(level) or 0.0 for level in levels]
        latency.bar(at, values, width=0.38, label=share, color=colour)
        for left, value in zip(at, values, strict=True):
            latency.annotate(f"{value:,.0f}", (left, value), ha="center", va="bottom")
    latency.set_xticks(places, names)
    latency.set_yscale("log")
    latency.set_title(latency_title)
    for panel in (cpu, latency):
        panel.legend(frameon=False)
        panel.spines[["top", "right"]].set_visible(False)
        panel.margins(y=0.12)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)
