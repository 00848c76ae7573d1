"""The overall limit: how much, who is next, and where turns go that were not used."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub.delivery.send_rate import TURN_MAX, SendRate
from fairlead_hub.settings import RateLimit


def sent(rate, node, priority, now, wanted=1000):
    """How many it may send now."""
    count = 0
    while count < wanted and rate.may_send(node, priority, now):
        count += 1
    return count


def test_a_burst_then_the_rate_in_turns():
    """Two nodes with much to send get the same, in whichever order they asked."""
    rate = SendRate(10, 5)
    assert sent(rate, "a", 5, 0.0) == 5 and sent(rate, "b", 5, 0.0) == 0
    assert rate.waiting == 2 and rate.next_at(0.0) == pytest.approx(0.1)
    got = {"a": 0, "b": 0}
    for step in range(1, 101):
        now = step / 10
        for node in rate.take_turns(now):
            got[node] += sent(rate, node, 5, now)
    assert got == {"a": 50, "b": 50} and rate.delays == 2 + 100


def test_the_most_urgent_is_next():
    """Also when it came last, and when a waiting node gets something more urgent."""
    rate = SendRate(1, 1)
    assert rate.may_send("first", 5, 0.0)
    for node, priority in (("a", 5), ("b", 5), ("c", 0), ("d", 5)):
        assert not rate.may_send(node, priority, 0.0)
    assert not rate.waits("d", 1) and rate.waits("d", 5)
    assert not rate.may_send("d", 1, 0.0)
    order = [rate.take_turns(float(second)) for second in range(1, 5)]
    assert order == [["c"], ["d"], ["a"], ["b"]]


def test_what_is_not_used_goes_to_others():
    """At once, and not above the burst; nor does a session that ended keep anything."""
    rate = SendRate(10, 4)
    assert sent(rate, "a", 5, 0.0, 4) == 4
    for node in ("b", "c", "d"):
        assert not rate.may_send(node, 5, 0.0)
    rate.forget("c")
    assert rate.take_turns(0.4) == ["b", "d"]
    assert sent(rate, "b", 5, 0.4, 1) == 1
    rate.rest("b")
    rate.forget("d")
    assert rate.waiting == 0 and rate.next_at(0.4) is None
    assert sent(rate, "a", 5, 0.4) == 3
    rate.unused()
    assert rate.take_turns(0.4) == ["a"]


def test_turns_are_bounded():
    """A node with thousands queued leaves room for the others of its priority."""
    rate = SendRate(1000, 1000)
    sent(rate, "a", 5, 0.0)
    for node in ("a", "b"):
        assert not rate.may_send(node, 5, 0.0)
    assert rate.take_turns(1.0) == ["a", "b"]
    assert rate.may_send("a", 5, 1.0)
    rate.rest("a")
    assert sent(rate, "b", 5, 1.0, TURN_MAX) == TURN_MAX


def core_of(nodes, **limit):
    core = Core(*nodes, rate_limit=RateLimit(**limit))
    core.rule({**CONFIG_MAPS, "labelSelector": {"matchLabels": {"tier": "x"}}})
    core.rule({**CONFIG_MAPS, "labelSelector": {"matchLabels": {"tier": "urgent"}}, "priority": 0}, name="urgent")
    return core


def tier(name):
    return {"labels": {"tier": name}}


def play(core, edges, seconds, step=0.004):
    """As the shell does: what is sent in each step; every send is acknowledged at once."""
    found = []
    ends = core.now + seconds
    while core.now < ends - 1e-9:
        core.now += step
        ready = core.take_ready(documents=False, kube_events=False)
        for output in sorted(ready.sessions, key=lambda output: output.session.number):
            edge = edges[output.session.node]
            for header, _ in output.frames:
                if hasattr(header, "uid"):
                    found.append((core.now, output.session.node, header.resource.rsplit("/", 1)[1]))
                    edge.receive(edge.acknowledgement(header))
    return found


@pytest.mark.slow
def test_a_mass_change_is_spread_and_an_urgent_one_passes_it():
    """100 nodes, 40 objects each, 500 a second: 4,000 in 7.8 s, evenly; an urgent object is at all nodes in 0.25 s."""
    nodes = [f"edge-{number}" for number in range(100)]
    core = core_of(nodes, objects_per_second=500, burst=100)
    edges = {node: core.connect(node) for node in nodes}
    play(core, edges, 1)
    for number in range(40):
        core.put(f"a{number}", metadata=tier("x"))
    begun = core.now
    first = play(core, edges, 4)
    assert 2000 <= len(first) <= 2100 + 1, "a burst and 500 a second"
    counts = [sum(node == each for _, each, _ in first) for node in nodes]
    assert min(counts) >= 19 and sum(count <= 21 for count in counts) >= 96, "every node the same, but for the burst"
    core.put("urgent", metadata=tier("urgent"))
    asked = core.now
    second = play(core, edges, 10)
    urgent = [at - asked for at, _, name in second if name == "urgent"]
    assert len(urgent) == 100 and max(urgent) <= 0.25
    took = max(at for at, *_ in second) - begun
    assert len(first) + len(second) == 4100 and 7.9 <= took <= 8.3
    assert core.hub.open_sessions.rate is not None and core.hub.open_sessions.rate.waiting == 0


def test_without_a_limit_everything_goes_at_once():
    """As long as the window has room."""
    core = core_of(["edge-1"], objects_per_second=0)
    edges = {"edge-1": core.connect()}
    for number in range(40):
        core.put(f"a{number}", metadata=tier("x"))
    assert len(play(core, edges, 0.1)) == 40 and core.hub.open_sessions.rate is None
    assert core.hub.open_sessions.rate is None


def test_a_node_that_left_or_was_paused_leaves_its_turn_to_others():
    """And is served when it is back."""
    nodes = ["edge-1", "edge-2"]
    core = core_of(nodes, objects_per_second=10, burst=1)
    edges = {node: core.connect(node) for node in nodes}
    for number in range(20):
        core.put(f"a{number}", metadata=tier("x"))
    play(core, edges, 0.5)
    edges["edge-1"].leave()
    core.annotate("edge-2", paused="x")
    assert play(core, edges, 1) == []
    assert core.hub.open_sessions.rate is not None and core.hub.open_sessions.rate.waiting == 0
    core.annotate("edge-2")
    assert {node for _, node, _ in play(core, edges, 3)} == {"edge-2"}
    assert len(edges["edge-2"].session.keys.held) == 20


def test_retries_and_deletes_count_like_first_sends():
    """A token for each message."""
    core = core_of(["edge-1"], objects_per_second=10, burst=1)
    edges = {"edge-1": core.connect()}
    objects = [core.put(f"a{number}", metadata=tier("x")) for number in range(5)]
    assert len(play(core, edges, 2)) == 5
    for one in objects:
        core.remove(one)
    assert 2 <= len(play(core, edges, 0.2)) <= 3
