"""Which frame is legal when, and what silence means."""

import pytest

from fairlead_wire import message
from fairlead_wire.errors import LocalError, Malformed
from fairlead_wire.link.session import OPENING_SECONDS_MAX, Role, Session, SessionState, Timer

HELLO = message.Hello(node="n", agent="1", store_epoch=1, fence=0, bits=0, held=0, root="")
WELCOME = message.Welcome(hub="h", fence=1, session=1, keepalive_seconds=10, frame_bytes_max=1, upstream_window=1)
UPDATE = message.Update(id=1, resource="api/v1/nodes/x", uid="u", resource_version="1", digest="d")


@pytest.fixture
def edge():
    return Session(Role.EDGE, now=0.0)


@pytest.fixture
def hub():
    return Session(Role.HUB, now=0.0)


def open_both(edge, hub):
    edge.sent(HELLO, 0.0)
    hub.received(HELLO, 0.0)
    hub.sent(WELCOME, 0.0)
    edge.received(WELCOME, 0.0)
    assert edge.state is hub.state is SessionState.OPEN


def test_hello_then_welcome_opens(edge, hub):
    open_both(edge, hub)
    hub.sent(UPDATE, 1.0)
    edge.received(UPDATE, 1.0)


@pytest.mark.parametrize("header", [UPDATE, message.Keepalive(), message.Ack(parent_id=1), WELCOME])
def test_nothing_comes_before_hello(hub, header):
    """A peer that starts in the middle is refused, and nothing changes."""
    with pytest.raises(Malformed):
        hub.received(header, 0.0)
    assert hub.state is SessionState.OPENING


def test_hello_comes_once(edge, hub):
    open_both(edge, hub)
    with pytest.raises(Malformed):
        hub.received(HELLO, 1.0)


def test_we_do_not_send_what_is_not_ours(edge, hub):
    with pytest.raises(LocalError):
        edge.sent(UPDATE, 0.0)
    with pytest.raises(LocalError):
        hub.sent(UPDATE, 0.0)


def test_a_refusal_closes_whenever_it_comes(edge, hub):
    refuse = message.Refuse(code="replaced", reason="a newer session of this node")
    open_both(edge, hub)
    hub.sent(refuse, 1.0)
    edge.received(refuse, 1.0)
    assert edge.state is hub.state is SessionState.CLOSED
    assert edge.tick(1e9) is None


def test_the_edge_speaks_first(edge, hub):
    """Keepalives are the edge's to send; a hub with quiet nodes has no timers to fire."""
    open_both(edge, hub)
    assert edge.next_tick() == 10.0
    assert edge.tick(10.0) is Timer.SEND_KEEPALIVE
    assert hub.tick(10.0) is None
    edge.sent(message.Keepalive(), 10.0)
    assert edge.tick(15.0) is None


def test_three_silent_intervals_end_a_session(edge, hub):
    open_both(edge, hub)
    assert hub.tick(29.9) is None
    assert hub.tick(30.0) is Timer.PEER_SILENT
    assert edge.tick(30.0) is Timer.PEER_SILENT


def test_an_opening_that_never_comes_is_given_up(hub):
    assert hub.tick(OPENING_SECONDS_MAX) is Timer.PEER_SILENT


def test_ids_rise(edge):
    assert [edge.take_id(), edge.take_id()] == [1, 2]
