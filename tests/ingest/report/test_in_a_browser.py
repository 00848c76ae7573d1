"""The report in a real browser: accessible, in both schemes, wide and narrow, with nothing asked of the network."""

from __future__ import annotations

import datetime

import pytest
from tests.support.browser import chromium, violations, watched

from fairlead_ingest.report import page
from fairlead_ingest.report.facts import (
    MIB,
    CommitPoint,
    FileSize,
    PriorityDelay,
    ReportGap,
    TableFacts,
    TopicLag,
    file_layout,
)
from fairlead_ingest.report.over_time import OverTime

pytestmark = [pytest.mark.verify, pytest.mark.process]
NOW = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
HOSTILE = "<img src=x onerror=alert(1)>"


def facts() -> TableFacts:
    """An outage of an hour, and names that try to be more than names."""
    counted, noon = OverTime(), int(NOW.timestamp())
    for minute in range(180):
        at, late = noon + 60 * minute, 3600 if 60 <= minute < 120 else 1
        counted.add_arrived([(at, 300)])
        counted.add_taken([(at + late, 300)])
        counted.add_delayed([(at, 60 if late > 1 else 5, 290), (at, 71, 10)])
    return TableFacts(
        name=HOSTILE,
        table="/var/lib/fairlead/" + "a-long-name/" * 20,
        rows=54_000,
        counted=54_000,
        days=7,
        fresh=(0.5, "more than 86400"),
        lags=[TopicLag(topic=HOSTILE, state="ok", messages=5, seconds=0.3)],
        points=counted.points(),
        commits=[CommitPoint(seconds=noon + each, p50=0.5, p95=1.0 + each % 7) for each in range(120)],
        layout=file_layout(
            [FileSize(topic="a/t", date="2026-11-20", bytes=MIB // 3)] * 400, open_seconds=0.01, opened=9
        ),
        by_node=[("n" * 253, 9), (HOSTILE, 2)],
        by_hour=[(f"2026-11-20 {hour:02}:00", 18_000) for hour in (12, 13, 14)],
        by_priority=[("0", 54_000)],
        delays=[PriorityDelay(priority=0, rows=3, to_messaging=(0.1, 0.2, 0.3), to_table=(1.0, 2.0, 3600.0))],
        gaps=[ReportGap(reason="expired", topic=HOSTILE, begins="1:0a", ends="1:0f", rows=7, seconds=noon + 3600)],
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_is_accessible_and_stays_within_the_screen(tmp_path, scheme):
    """No finding of axe-core, no error, no request, no script that a name brought, no scrolling sideways."""
    file = tmp_path / "report.html"
    file.write_text(page.page([facts()], NOW))
    async with chromium() as browser:
        for width in (390, 1200):
            async with watched(browser, file.as_uri(), width=width, scheme=scheme) as shown:
                assert await violations(shown) == [], width
                assert await shown.evaluate("document.documentElement.scrollWidth") <= width
                assert await shown.locator("svg[role=img]").count() == 4
                assert await shown.locator("img").count() == 0
