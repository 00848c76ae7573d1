"""What goes out in sessions, when, and what comes back to the shell."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core, short

from fairlead_hub.core.sessions import TURN_FRAMES
from fairlead_hub.delivery.key_state import IN_SYNC, ImpossibleTransition
from fairlead_hub.delivery.node_keys import NodeKeys
from fairlead_hub.session_ref import Frame
from fairlead_wire import message
from fairlead_wire.errors import Malformed


@pytest.fixture
def core() -> Core:
    return Core("edge-1", "edge-2").rule(CONFIG_MAPS)


def outputs(core: Core) -> dict[str, Any]:
    return {output.session.node: output for output in core.take_ready().sessions}


# ---- turns and room ------------------------------------------------------------------------------


def test_a_turn_is_bounded_and_the_rest_follows_now(core: Core) -> None:
    """Others are served in between; afterwards the next turn is a time to come."""
    for node in ("edge-1", "edge-2"):
        core.connect(node).sent()
    for number in range(TURN_FRAMES + 5):
        core.put(f"a{number}")
    for left in (TURN_FRAMES, 5):
        ready = core.take_ready()
        assert [len(output.frames) for output in ready.sessions] == [left, left]
        assert (ready.next_turn == core.now) is (left == TURN_FRAMES)
    assert not core.take_ready().sessions


def test_a_connection_without_room_is_given_nothing_until_it_has(core: Core) -> None:
    """However much changes; and the shell is told at once when it has."""
    one, other = core.connect("edge-1"), core.connect("edge-2")
    assert one.sent() == other.sent() == []
    core.hub.sessions.room(one.ref, False)
    core.put("a")
    one.receive(message.Keepalive())
    assert set(outputs(core)) == {"edge-2"} and not outputs(core)
    heard: list[str] = []
    core.hub.subscribe(lambda: heard.append("paced"), lambda: heard.append("at once"))
    core.hub.sessions.room(one.ref, True)
    assert heard == ["at once"]
    kinds = [type(header) for header, _ in outputs(core)["edge-1"].frames]
    assert kinds == [message.Keepalive, message.Update], "answers go before objects"


def test_a_long_message_is_answered_by_a_sign_of_life_where_there_is_room(core: Core) -> None:
    """Without room none is kept for later: they would pile up."""
    edge = core.opened()
    for _ in range(3):
        core.hub.sessions.room(edge.ref, False)
        core.hub.sessions.receive_part(edge.ref, core.now)
        core.hub.sessions.room(edge.ref, True)
    assert not outputs(core)
    core.hub.sessions.receive_part(edge.ref, core.now)
    assert [type(header) for header, _ in outputs(core)["edge-1"].frames] == [message.Keepalive]


# ---- ends ----------------------------------------------------------------------------------------


def test_a_refusal_is_the_last_frame(core: Core) -> None:
    """With it the shell hears that the connection ends; nothing follows."""
    edge = core.opened()
    core.put("a")
    edge.receive(message.Keepalive())
    core.hub.sessions.refuse(edge.ref, message.Refuse(code="draining", reason="the hub is stopping"))
    output = outputs(core)["edge-1"]
    assert [type(header) for header, _ in output.frames] == [message.Keepalive, message.Refuse]
    assert output.closing is not None and output.closing.code == "draining" and not output.cut
    core.put("b")
    assert not outputs(core) and not core.hub.sessions.is_open(edge.ref)


def test_a_silent_node_is_cut_off(core: Core) -> None:
    """The shell comes back when that is due, without a timer of its own."""
    core.may_be_silent = True
    edge = core.opened()
    while not (found := outputs(core)):
        turn = core.take_ready().next_turn
        assert turn is not None and core.now < turn <= 30.0
        core.now = turn
    assert found["edge-1"].cut == "silent" and core.now == 30.0
    core.hub.sessions.closed(edge.ref, core.now)
    assert core.take_ready().next_turn is None


def test_a_mistake_about_one_key_costs_its_own_node_only(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """That session ends; the others of the same turn are served."""
    edge = core.connect("edge-1")
    assert edge.sent() == core.connect("edge-2").sent() == []

    frames = NodeKeys.frames

    def broken(self: NodeKeys, now: float, limit: int) -> list[Frame]:
        if self is edge.session.keys:
            raise ImpossibleTransition("configmaps/shop/a", IN_SYNC, "sent", IN_SYNC)
        return frames(self, now, limit)

    monkeypatch.setattr(NodeKeys, "frames", broken)
    core.put("a")
    found = outputs(core)
    assert found["edge-1"].cut.startswith("unsendable: configmaps/shop/a") and not found["edge-1"].frames
    assert short(header for header, _ in found["edge-2"].frames) == [("Update", "a")]


# ---- what is for the shell -----------------------------------------------------------------------

FOR_SHELL = [
    message.Upstream(id=1, stream="s"),
    message.AskTables(id=2, topics=[]),
    message.Renew(id=3),
    message.InputStates(parent_id=4),
]


@pytest.mark.parametrize("header", FOR_SHELL, ids=lambda header: type(header).__name__)
def test_what_a_service_has_to_answer_is_returned_at_once(core: Core, header: Any) -> None:
    """Until the session ends."""
    edge = core.opened()
    assert edge.receive(header) is header
    core.hub.sessions.refuse(edge.ref, message.Refuse(code="draining", reason="the hub is stopping"))
    assert edge.receive(header) is None
    edge.leave()
    assert edge.receive(header) is None


def test_an_answer_belongs_to_who_asked(core: Core) -> None:
    """Acks of objects are the core's, those of messages for modules the shell's, each once, also after a refusal."""
    edge = core.opened(inputs=True)
    core.put("a")
    [update] = edge.sent()
    asked = [core.hub.sessions.ask(edge.ref, lambda id: message.AskInputs(id=id, messages=["m"])) for _ in range(2)]
    assert edge.receive(edge.acknowledgement(update)) is None and len(edge.session.keys.held) == 1
    answer = message.Ack(parent_id=asked[0])
    assert edge.receive(answer) is answer and edge.receive(answer) is None
    core.hub.sessions.refuse(edge.ref, message.Refuse(code="draining", reason="the hub is stopping"))
    late = message.Nack(parent_id=asked[1], code="busy", reason="later")
    assert edge.receive(late) is late and edge.receive(late) is None


def test_a_frame_for_no_one_is_malformed(core: Core) -> None:
    """A second hello is the clearest one."""
    edge = core.opened()
    with pytest.raises(Malformed):
        edge.receive(core.hello("edge-1"))
