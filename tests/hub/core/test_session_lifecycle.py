"""Sessions: which hello opens one, and what ends it."""

import pytest
from tests.support.hubs.hub_core import FENCE, Core, short
from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.delivery import admission
from fairlead_hub.settings import LinkServerSettings
from fairlead_wire import message

KIND = CONFIG_MAP.group_kind


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        ({"protocol": 99}, "protocol"),
        ({"fence": FENCE + 1}, "stale_hub"),
    ],
)
def test_a_hello_we_must_not_serve_is_refused(core, hello, code):
    """With a code for programs, a reason for people, and when to come back."""
    refusal = core.refused("edge-1", **hello)
    assert refusal.code == code and refusal.reason and refusal.retry_after
    assert core.hub.counts.refused == {code: 1}
    assert core.hub.open_sessions.by_node == {}


def test_an_edge_may_only_say_its_own_name(core):
    """The certificate says who it is."""
    outcome = core.hub.sessions.open("edge-1", core.hello("edge-2"), 0.0)
    assert isinstance(outcome, message.Refuse) and outcome.code == "identity"
    assert "edge-1" in outcome.reason and "edge-2" in outcome.reason


def test_a_node_that_was_not_created_is_refused(core):
    """Once Nodes are listed; before, it is not known."""
    assert core.refused("stranger").code == "node_unknown"
    young = Core(listed=False)
    edge = young.connect("stranger")
    young.list_all()
    assert [header.code for header in edge.sent()] == ["node_unknown"]


def test_a_full_hub_is_busy(core):
    """A known node may replace its own session all the same."""
    full = Core("edge-1", "edge-2", link=LinkServerSettings(nodes_max=1))
    full.connect("edge-1")
    refusal = full.refused("edge-2")
    assert (refusal.code, refusal.retry_after) == ("busy", admission.BUSY_RETRY_SECONDS)
    full.connect("edge-1")


def test_the_newest_session_wins(core):
    """The older one hears why, and its end does not touch the newer."""
    first = core.connect()
    core.now = 4.0
    second = core.connect()
    [refusal] = first.sent()
    assert refusal.code == "replaced" and "a second machine has its identity" in refusal.reason
    [event] = [each for each in core.take_kube_events() if each.reason == "Replaced"]
    assert event.message == "a newer connection took over, 4.0 s after the last frame of the older one"
    first.leave()
    assert core.hub.open_sessions.by_node == {"edge-1": second.session}
    assert second.session.number > first.session.number


async def test_what_a_replaced_session_says_is_not_heard(core):
    """Its acks may be of a store that the newer session does not have: a record of them would be ahead of the edge."""
    one = core.put("a")
    older = core.connect("edge-1")
    sent = older.sent()
    newer = core.connect("edge-1")  # an empty store
    older.ack(*sent)
    older.say(message.Status(), b'{"held": 7}')
    await core.flush()
    assert core.status(one) is None
    assert core.hub.view.facts("edge-1").edge is None
    upstream = message.Upstream(id=1, stream="iothub.0")
    assert older.receive(upstream) is None
    newer.ack(*newer.sent())
    assert newer.receive(upstream) is upstream
    await core.flush()
    assert core.status(one)["state"] == "Synced"


def test_a_session_waits_until_the_cluster_is_listed():
    """A hub that just started compares nothing and deletes nothing."""
    young = Core("edge-1", listed=False)
    edge = young.connect("edge-1", live(CONFIG_MAP, "a"))
    assert edge.sent() == [] and not edge.session.keys.live
    young.list_all()
    assert short(edge.sent()) == [("Delete", "a")], "only now it is certain that it is not wanted"


def stale(core, fence):
    refusal = core.refused("edge-1", fence=fence)
    assert refusal.code == "stale_hub" and refusal.fence == FENCE
    return refusal


async def test_a_node_that_obeyed_a_higher_number_is_named_in_its_edge_node(core):
    """With that number, until it has a session again."""
    stale(core, 901)
    core.hub.report(core.now)
    await core.flush()
    status = core.api.documents[("edgenodes", "", "edge-1")].status
    assert status["obeyedFence"] == 901
    assert (status["conditions"][0]["reason"], status["connected"]) == ("StaleHub", False)
    core.connect()
    assert core.hub.view.facts("edge-1").obeyed_fence is None


def test_a_node_that_names_another_number_each_time_is_written_no_more_often_than_it_may_come(core):
    """Else one hostile node keeps the hub writing."""
    said = set()
    for step in range(100):
        core.now = step * 0.5
        stale(core, 900 + step)
        said.add(core.hub.view.facts("edge-1").obeyed_fence)
    assert said == {900, 920, 940, 960, 980}


def test_another_with_the_name_of_a_connected_node_changes_nothing_of_it(core):
    """Where security is off anyone may have that name; with certificates, a copy of the disk."""
    core.connect()
    stale(core, 901)
    core.hub.sessions.closed(core.hub.sessions.of_node("edge-1"), core.now)
    assert core.hub.view.facts("edge-1").obeyed_fence is None


def test_a_person_approves_that_a_number_is_given_up(core):
    """That one alone; taken away again, nothing is approved."""
    core.annotate("edge-1", approve_fence="901")
    assert [stale(core, fence).approved for fence in (901, 902)] == [True, False]
    core.annotate("edge-1")
    assert not stale(core, 901).approved
