"""What does not end by itself stands under "Needs attention", each with a link; nothing else does."""

import msgspec
from tests.support.hubs.console import TOPICS, surveyed
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import ROUTES

from fairlead_hub.cluster import sync_rule
from fairlead_hub.console import sections
from fairlead_hub.console.lines import READER_LAG_SECONDS, ReaderLag, TopicLine, TopicsSeen
from fairlead_wire import message

NOTHING = "Nothing needs attention."


def shown(core: Core, topics: TopicsSeen = TOPICS) -> str:
    return sections.attention(surveyed(core)[0], topics)


def test_nothing_needs_attention_where_all_is_well():
    """Rates, and readers that are a little behind, are no reason to act."""
    core = Core("edge-1").rule(CONFIG_MAPS)
    core.connect()
    assert NOTHING in shown(core)


def test_dead_letters_of_a_node():
    """Of a connected node as it reports, with the node's page and the command that lists them."""
    core = Core("edge-1")
    edge = core.served()
    edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=0, dead_letters=72)))
    html = shown(core)
    assert NOTHING not in html and "72" in html and 'href="/console/nodes/edge-1"' in html
    assert "fairlead edge deadletters list" in html


def test_a_consumer_that_lags():
    """By the same limit as the alert, with when its oldest unread message was stored."""
    core = Core("edge-1")
    lags = [ReaderLag("sales-table", 7, READER_LAG_SECONDS + extra, since=1_700_000_000, updated=1) for extra in (0, 1)]
    in_time, late = (TopicsSeen(True, (TopicLine("default/sales", 9, 0.0, (lag,)),)) for lag in lags)
    assert NOTHING in shown(core, in_time)
    html = shown(core, late)
    assert NOTHING not in html and "sales-table" in html and "default/sales" in html
    assert 'href="/console/topics"' in html and 'data-at="1700000000"' in html


def test_a_consumer_that_read_everything_does_not_lag():
    """However long ago it last reported a position."""
    idle = TopicsSeen(True, (TopicLine("default/sales", 9, 0.0, (ReaderLag("sales-table", 0, 9e9),)),))
    assert NOTHING in shown(Core("edge-1"), idle)


def test_routes_that_a_node_refuses():
    """As the node reported it: the object, how many nodes, and the first error, with a link to explain."""
    core = Core("edge-1")
    core.put("shops", ROUTES, namespace="", spec={"routes": {"till": {"route": "FROM"}}})
    edge = core.served()
    error = message.RouteError(route="till", message="expected a source", line=1, column=5, end_column=6)
    report = message.RoutesStatus(uid="uid-shops", resource_version="1", accepted=[], errors=[error])
    edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=1, routes={"shops": report})))
    core.hub.rule_statuses.report(core.now)
    html = shown(core)
    assert NOTHING not in html and "till: expected a source" in html
    assert "node=edge-1&amp;kind=edgeroutes&amp;namespace=&amp;name=shops" in html


def test_a_rule_that_cannot_be_read():
    """With what it means meanwhile, and the nodes that it concerns."""
    core = Core("edge-1")
    broken = sync_rule.unreadable({"metadata": {"name": "shops"}}, "spec.resources: no list")
    core.hub.cluster.break_rule(broken, core.now)
    html = shown(core)
    assert NOTHING not in html and "SyncRule shops" in html and "spec.resources: no list" in html
    assert 'href="/console/nodes?q=shops"' in html
