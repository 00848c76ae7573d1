"""Parts of pages: the same values give the same HTML, and times are moments."""

import pytest
from tests.support.hubs.console import TOPICS, fleet, surveyed
from tests.support.hubs.hub_core import Core

from fairlead_hub.console import sections, snapshot
from fairlead_hub.console.lines import TopicsSeen


def test_nothing_differs_because_time_goes_by():
    """A section is sent again when something happened."""
    core = fleet(120)
    first = {name: render(surveyed(core)[0], TOPICS, "") for name, render in sections.LIVE.items()}
    core.now += 3000.0
    assert {name: render(surveyed(core)[0], TOPICS, "") for name, render in sections.LIVE.items()} == first


def test_every_section_has_its_id():
    """By which an open page finds what to replace."""
    empty = snapshot.empty(Core().hub.view, 0.0)
    for name, render in sections.LIVE.items():
        for shown, seen in ((surveyed(fleet(60))[0], TOPICS), (empty, TopicsSeen(False))):
            assert f'id="{name}"' in render(shown, seen, "").split(">", 1)[0]


def test_topics_say_rate_lag_and_why_messaging_is_not_asked():
    """What was known before stays."""
    html = sections.topics(TOPICS._replace(error="connection refused", more=3))
    for part in ("312.4", "telemetry-table: ", "9,120 messages behind", "connection refused", "3 more"):
        assert part in html
    assert "messaging_url" in sections.topics(TopicsSeen(False))


@pytest.mark.parametrize(("count", "said"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (424e6, "424 MB")])
def test_sizes(count, said):
    """For people."""
    assert sections.size(count) == said


def test_links_survive_odd_names():
    """A key is asked for as it is."""
    assert 'href="/console/nodes/a%2Fb%3Fc"' in sections.node_link("a/b?c")
    assert ">nodes/edge-1</a>" in str(sections.explain_link("n", "nodes//edge-1"))
    link = sections.explain_link("n", "deployments.apps/shop/a&b")
    assert "kind=deployments.apps&amp;namespace=shop&amp;name=a%26b" in link
