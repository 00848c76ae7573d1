"""Makes one HTML page from the facts about tables; it has no scripts and needs no network."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from html import escape

from fairlead_ingest.report import plot
from fairlead_ingest.report.facts import (
    FileLayout,
    LetterCount,
    PriorityDelay,
    ReportGap,
    TableFacts,
    read_cost,
    size_text,
)
from fairlead_ingest.report.plot import BARS_MAX, STYLE, Line, PlotMark, bars, grid, section

EXAMPLE_CHARS_MAX = 200


def page(tables: Sequence[TableFacts], now: datetime.datetime) -> str:
    """The whole page; all external texts are escaped."""
    body = "\n".join(_table(facts) for facts in tables)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Fairlead ingest</title>\n'
        # A second defence against markup in names of nodes and topics.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<style>{STYLE}</style></head>\n"
        f"<body><main><h1>Fairlead ingest</h1><p>As of {escape(now.isoformat(timespec='seconds'))}."
        " Times are UTC; point at a picture for its values.</p>\n"
        f"{body}\n</main></body></html>\n"
    )


def _table(facts: TableFacts) -> str:
    about = f"{facts.rows:,} rows in {escape(facts.table)}; {_fresh(facts.fresh)}"
    if facts.days is not None:
        about += f". Pictures and counts below: {facts.counted:,} rows of the last {facts.days} days"
    marks = [PlotMark(seconds=gap.seconds, text=f"gap: {' '.join(_gap(gap)[1:])}") for gap in facts.gaps]
    return "\n".join(
        [
            f"<h2>{escape(facts.name)}</h2><p>{about}.</p>",
            *_over_time(facts, marks),
            *_now(facts),
            section("Files", _files(facts.layout)),
            section("Rows by node", bars(facts.by_node)),
            section("Rows by hour of publishing (UTC)", bars(facts.by_hour, is_over_time=True)),
            section("Rows by priority", bars(facts.by_priority)),
            section(
                "Delay since the edge accepted a message, to messaging and to the start of the batch",
                _delays(facts.delays),
            ),
            section(
                "Gaps",
                grid(["noticed", "reason", "topic", "from", "to", "rows"], [_gap(gap) for gap in facts.gaps]),
            ),
            section(
                "Dead letters by code and field",
                grid(["code", "field", "rows", "example"], by_field(facts.dead_letters, facts.repaired)),
            ),
        ]
    )


def _over_time(facts: TableFacts, marks: Sequence[PlotMark]) -> list[str]:
    seconds = [point.seconds for point in facts.points]
    gaps = " A red line marks a gap." if marks else ""
    rates = [
        Line(name="published", values=[point.arrived for point in facts.points]),
        Line(name="taken into the table", values=[point.taken for point in facts.points]),
    ]
    waiting = [Line(name="published, not yet in the table", values=[float(point.waiting) for point in facts.points])]
    took = [
        Line(name=name, values=[getattr(point, key) for point in facts.points])
        for name, key in (("half within", "p50"), ("95 % within", "p95"), ("99 % within", "p99"))
    ]
    fresh = [
        Line(name=name, values=[getattr(commit, key) for commit in facts.commits])
        for name, key in (("half within", "p50"), ("95 % within", "p95"))
    ]
    return [
        section(
            "Rate",
            plot.draw("Messages a second over time", seconds, rates, shown=_rate, marks=marks),
            "Messages a second." + gaps,
        ),
        section(
            "Lag",
            plot.draw("Messages not yet in the table over time", seconds, waiting, shown=_count),
            "Rows that were in the topic and not yet in the table; dead letters and expired messages are not counted.",
        ),
        section(
            "Freshness, by when messages were published",
            plot.draw(
                "Delay from the device to the batch", seconds, took, shown=_duration, marks=marks, is_logarithmic=True
            ),
            "From acceptance at the edge (from publishing, where that is unknown) to the start of the batch; the clock"
            " of a device may be wrong.",
        ),
        section(
            "Freshness of the last commits",
            plot.draw(
                "Age of rows at their commit",
                [int(commit.seconds) for commit in facts.commits],
                fresh,
                shown=_duration,
                is_logarithmic=True,
            ),
            "Age of the rows when they became visible, as the table's log has it.",
        ),
    ]


def _now(facts: TableFacts) -> list[str]:
    if facts.lags is None:
        return []
    lines = [
        [lag.topic, lag.state, _number(lag.messages), "unknown" if lag.seconds is None else _duration(lag.seconds)]
        for lag in facts.lags
    ]
    return [section("Behind the topics now", grid(["topic", "state", "messages", "oldest of them"], lines))]


def _files(found: FileLayout | None) -> str:
    if found is None or not found.files:
        return ""
    classes = []
    for each in found.classes:
        bound = "larger" if each.up_to is None else f"up to {size_text(each.up_to)}"
        classes.append((f"{bound} ({size_text(each.bytes)} in all)", each.files))
    return (
        f"<p>{found.files:,} files, {size_text(found.bytes)}. {escape(read_cost(found))}</p>"
        f"{bars(classes)}<h4>Files by day</h4>{bars(found.by_day, is_over_time=True)}"
    )


def _delays(delays: Sequence[PriorityDelay]) -> str:
    heads = ["priority", "rows", *(f"{to} {part} s" for to in ("messaging", "batch") for part in ("p50", "p95", "p99"))]
    lines = [
        [
            "none" if delay.priority is None else str(delay.priority),
            f"{delay.rows:,}",
            *(f"{seconds:,.2f}" for seconds in (*delay.to_messaging, *delay.to_table)),
        ]
        for delay in delays
    ]
    return grid(heads, lines)


def _fresh(seconds: tuple[float | str | None, float | str | None]) -> str:
    half, most = ("unknown" if each is None else f"{each} s" for each in seconds)
    return escape(f"fresh within {half} (half), {most} (95 %) over the last commits")


def _gap(gap: ReportGap) -> list[str]:
    noticed = datetime.datetime.fromtimestamp(gap.seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
    return [noticed, gap.reason, gap.topic, gap.begins, gap.ends, _number(gap.rows)]


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.2f}"


def _duration(seconds: float) -> str:
    """A readable duration: 40 ms, 2.5 s, 3 min, 5 h, 2 d."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def by_field(dead_letters: Sequence[LetterCount], repaired: int = 0) -> list[list[str]]:
    """Lines by code and field, the most frequent first, then the rest and the total.

    A dead letter counts for each field it names.
    """
    found: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    for each in dead_letters:
        for name in each.fields or ("",):
            found[each.code, name] += each.rows
            examples.setdefault((each.code, name), each.example[:EXAMPLE_CHARS_MAX])
    kinds = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    lines = [[code, name, f"{rows:,}", examples[code, name]] for (code, name), rows in kinds[:BARS_MAX]]
    if len(kinds) > BARS_MAX:
        lines.append([f"{len(kinds) - BARS_MAX} more kinds", "", f"{sum(rows for _, rows in kinds[BARS_MAX:]):,}", ""])
    if lines:
        lines.append(["dead letters in all", "", f"{sum(each.rows for each in dead_letters):,}", ""])
        lines += [["repaired of them", "", f"{repaired:,}", ""]] if repaired else []
    return lines
