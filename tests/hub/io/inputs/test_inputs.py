"""Messages to modules, from the caller's answer to the node: laws over kills, lost answers and nodes that are away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from tests.support.hubs.input_line import InputLine, TwinMessaging

from fairlead_hub.inputs import node_queue
from fairlead_hub.inputs.submission import InputRefused
from fairlead_hub.io.inputs import delivery, inputs
from fairlead_hub.io.inputs.inputs import NotNow
from fairlead_messaging.client.errors import Failed
from fairlead_wire import message


@pytest.fixture
async def line(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InputLine]:
    monkeypatch.setattr(delivery, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(inputs, "SCAN_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(inputs, "LOOK_AGAIN_SECONDS", 0.001)
    opened = InputLine()
    yield opened
    opened.close()


@pytest.fixture
async def direct() -> AsyncIterator[InputLine]:
    """Without messaging."""
    opened = InputLine(has_messaging=False)
    yield opened
    opened.close()


async def test_a_message_is_kept_then_delivered_then_followed(line: InputLine) -> None:
    """The caller is answered before the node is asked anything."""
    line.connect()
    found = await line.send("a")
    assert found.state == "accepted" and line.node.put == []
    await line.settle(lambda: bool(line.node.put))
    assert (await line.answered(line.state(found.id))).state == "delivered"
    line.node.states[found.id] = "consumed"
    assert (await line.answered(line.state(found.id))).state == "consumed"
    assert line.counts.inputs == {"accepted": 1, "delivered": 1}
    await line.settle()
    assert line.inputs.waiting == 0 and not line.inputs._deliveries, (
        "nothing is kept for a node for which nothing waits"
    )


async def test_a_node_that_is_away_gets_it_when_it_is_back(line: InputLine) -> None:
    """In order, from a hub that knows of it by messaging alone."""
    sent = [await line.send(body) for body in "abc"]
    waits = await line.state(sent[0].id)
    assert waits is not None and (waits.state, waits.reason) == ("accepted", "the node is away")
    assert waits.expires_in_seconds == 600.0
    line.new_hub()
    line.connect()
    await line.settle(lambda: len(line.node.put) == 3)
    assert line.node.put == ["a", "b", "c"]


async def test_one_that_expires_is_never_delivered(line: InputLine) -> None:
    """Nor does it hold up others; what is left of the time goes with the message."""
    short, long = await line.send("short", ttl=5.0), await line.send("long", ttl=60.0)
    line.wall += 5.0
    line.connect()
    await line.settle(lambda: bool(line.node.put))
    assert line.node.put == ["long"] and line.node.seconds_left == [55.0]
    gone = await line.state(short.id)
    assert gone is not None and gone.state == "expired"
    assert (await line.answered(line.state(long.id))).state == "delivered"
    assert line.counts.inputs["expired"] == 1


async def test_the_same_key_is_the_same_message(line: InputLine) -> None:
    """While it waits it is kept once; later the node knows it."""
    first = await line.send("a", key="k")
    assert (await line.send("a", key="k")).id == first.id
    [log] = line.messaging.logs.values()
    assert len(log) == 1
    line.connect()
    await line.settle(lambda: bool(line.node.put))
    await line.send("a", key="k")
    await line.settle()
    assert len(log) == 2 and line.node.put == ["a"]


async def test_too_many_for_a_node_are_refused(line: InputLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number, also of those that are on their way into messaging."""
    monkeypatch.setattr(node_queue, "MESSAGES_MAX", 3)
    answers = await asyncio.gather(*(line.send(str(number)) for number in range(5)), return_exceptions=True)
    refused = [each for each in answers if isinstance(each, NotNow)]
    assert [(each.code, each.status) for each in refused] == [("too_many_waiting", 429)] * 2
    line.connect()
    await line.settle(lambda: len(line.node.put) == 3)
    await line.settle()
    assert (await line.send("again")).state == "accepted"


async def test_an_agent_that_knows_no_such_frame_is_never_sent_one(line: InputLine) -> None:
    """Its caller is told; what waited goes on waiting, and the session too."""
    waits = await line.send("a")
    line.connect(inputs=False)
    with pytest.raises(NotNow) as refused:
        await line.send("b")
    assert (refused.value.code, refused.value.status) == ("agent_too_old", 409)
    await line.settle()
    found = await line.state(waits.id)
    assert found is not None and found.state == "accepted" and "upgrade" in found.reason and line.node.put == []
    line.connect()
    await line.settle(lambda: bool(line.node.put))


async def test_another_node_under_the_name_does_not_get_it(line: InputLine) -> None:
    """It was sent to a device that is gone."""
    sent = await line.send("a")
    line.core.node("edge-1", uid="uid-of-another")
    line.connect()
    await line.settle()
    found = await line.state(sent.id)
    assert found is not None and found.state == "refused" and line.node.put == []


async def test_not_now_waits_and_never_is_refused(line: InputLine) -> None:
    """A full store, and a message no store takes."""
    line.node.nack = message.Nack(parent_id=1, code="store_full", reason="full", retry_after=30.0)
    sent = await line.send("a")
    line.connect()
    await line.settle()
    line.node.nack = None
    assert line.node.put == [] and line.inputs.waiting == 1
    line.wall += 31.0
    await line.send("b")
    await line.settle(lambda: len(line.node.put) == 2)
    assert line.node.put == ["a", "b"]
    line.node.nack = message.Nack(parent_id=1, code="bad_message", reason="no", permanent=True)
    refused = await line.send("c")
    await line.settle(lambda: line.counts.inputs["refused"] == 1)
    found = await line.state(refused.id)
    assert found is not None and (found.state, found.reason) == ("refused", "bad_message: no")
    assert (await line.answered(line.state(sent.id))).state == "delivered"


async def test_a_hub_that_may_have_been_replaced_says_accepted_of_nothing(line: InputLine) -> None:
    """The new one may have read the topic before."""
    line.is_hub = False
    with pytest.raises(NotNow) as refused:
        await line.send("a", key="k")
    assert refused.value.code == "not_the_hub"
    line.connect()
    await line.settle()
    assert line.node.put == [], "and it sends nothing to a node"


async def test_what_became_of_a_message_is_known_at_its_node(line: InputLine) -> None:
    """A hub that was just started asks; while the node is away it cannot, and says so."""
    line.connect()
    sent = await line.send("a")
    await line.settle(lambda: bool(line.messaging.noted))
    line.new_hub()
    with pytest.raises(NotNow) as away:
        await line.state(sent.id)
    assert away.value.code == "node_away"
    line.connect()
    assert (await line.answered(line.state(sent.id))).state == "delivered"
    assert await line.answered(line.state("f" * 32)) is None
    line.leave()
    seen = await line.state(sent.id)
    assert seen is not None and seen.state == "delivered" and "away" in seen.reason


async def test_a_node_that_does_not_answer_is_not_one_that_knows_nothing(
    line: InputLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent, or gone while it was asked: a caller that waits for a receipt comes again."""
    monkeypatch.setattr("fairlead_hub.io.inputs.input_log.SECONDS_MAX", 0.02)
    line.connect()
    sent = await line.send("a")
    await line.settle(lambda: bool(line.messaging.noted))
    seen = await line.state(sent.id)
    assert seen is not None and seen.state == "delivered" and "last state seen by this hub" in seen.reason
    line.new_hub()
    line.connect()
    with pytest.raises(NotNow) as silent:
        await line.state(sent.id)
    assert silent.value.code == "node_away"
    monkeypatch.setattr("fairlead_hub.io.inputs.input_log.SECONDS_MAX", 60.0)
    line.connect()
    asking = asyncio.ensure_future(line.state(sent.id))
    for _ in range(20):
        await asyncio.sleep(0)
    line.leave()
    with pytest.raises(NotNow) as gone:
        await asking
    assert gone.value.code == "node_away"


@pytest.mark.parametrize("is_killed", [False, True])
async def test_one_whose_answer_is_lost_is_not_called_expired(line: InputLine, is_killed: bool) -> None:
    """Its module may have acknowledged it in time: the node is asked, by this hub and by one that comes after it."""
    line.connect()
    line.node.answers = False
    sent = await line.send("a", ttl=5.0)
    await line.settle(lambda: bool(line.node.put))
    line.leave()
    line.node.states[sent.id] = "consumed"
    line.wall += 6.0
    if is_killed:
        line.new_hub()
    await line.settle(lambda: line.counts.inputs["expired"] == 1)
    with pytest.raises(NotNow) as away:
        await line.state(sent.id)
    assert away.value.code == "node_away"
    line.node.answers = True
    line.connect()
    assert (await line.answered(line.state(sent.id))).state == "consumed"
    del line.node.states[sent.id]


async def test_sent_again_after_its_time_it_is_accepted_again(line: InputLine) -> None:
    """Under its key: what became of it before says nothing, from the answer on."""
    first = await line.send("a", key="k", ttl=5.0)
    line.wall += 6.0
    await line.settle(lambda: line.counts.inputs["expired"] == 1)
    assert (await line.send("a", key="k")).id == first.id
    found = await line.state(first.id)
    assert found is not None and found.state == "accepted"


async def test_callers_at_once_leave_nothing_unread(line: InputLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One's message is read and waits; the other's, published after that, is found too."""
    await line.send("first of the topic")
    line.connect()
    await line.settle(lambda: len(line.node.put) == 1)
    await line.settle()
    line.leave()
    publish, gates = line.messaging.publish, [asyncio.Event(), asyncio.Event()]
    opened = iter(gates)

    async def slow(namespace: str, name: str, payloads: list[bytes]) -> object:
        await next(opened).wait()
        return await publish(namespace, name, payloads)

    monkeypatch.setattr(line.messaging, "publish", slow)
    one = asyncio.ensure_future(line.send("one"))
    await line.settle()
    other = asyncio.ensure_future(line.send("other"))
    await line.settle()
    gates[0].set()
    await one
    await line.settle()
    gates[1].set()
    await other
    await line.settle()
    assert line.inputs.waiting == 2
    line.connect()
    await line.settle(lambda: len(line.node.put) == 3)
    assert line.node.put == ["first of the topic", "one", "other"]
    await line.settle()
    assert not line.inputs._deliveries


async def test_a_node_that_wants_it_at_once_again_is_not_asked_in_a_circle(line: InputLine) -> None:
    """Nor is one left for a year that names one."""
    line.node.nack = message.Nack(parent_id=1, code="store_full", reason="full", retry_after=1e-9)
    await line.send("a")
    line.connect()
    await line.settle()
    assert line.counts.inputs["put_off"] == 1
    line.node.nack = message.Nack(parent_id=1, code="store_full", reason="full", retry_after=1e9)
    line.wall += delivery.PUT_OFF_SECONDS_MIN
    await line.send("b")
    await line.settle()
    assert line.counts.inputs["put_off"] == 2
    line.node.nack = None
    line.wall += delivery.PUT_OFF_SECONDS_MAX
    await line.send("c")
    await line.settle(lambda: len(line.node.put) == 3)
    assert line.node.put == ["a", "b", "c"]


async def test_a_caller_waits_for_a_state_as_long_as_it_asked(line: InputLine) -> None:
    """And no longer; a final state ends it."""
    line.connect()
    sent = await line.send("a")
    assert (await line.answered(line.state(sent.id, wait=0.05))).state == "delivered"
    asking = asyncio.ensure_future(line.state(sent.id, wait=60.0))
    for _ in range(20):
        line.work()
        await asyncio.sleep(0)
    assert not asking.done()
    line.node.states[sent.id] = "dead_lettered"
    assert (await line.answered(asking)).state == "dead_lettered"


async def test_a_node_that_is_named_too_long_has_no_topic(line: InputLine) -> None:
    """Said, not guessed."""
    from fairlead_hub.inputs import submission

    to = submission.Address(node="n" * 191, uid="", module="m", input="i")
    with pytest.raises(InputRefused):
        await line.inputs.send(to, submission.parse(b'{"body":1}'), ttl=5.0, key=None)


# ---- without messaging ----------------------------------------------------------------------------


async def test_without_messaging_the_node_keeps_it_or_nothing_does(direct: InputLine) -> None:
    """Answered when it is durable there."""
    with pytest.raises(NotNow) as away:
        await direct.send("a")
    assert away.value.code == "node_away" and "messaging_url" in str(away.value)
    direct.connect()
    found = await direct.answered(direct.send("a"))
    assert found.state == "delivered" and direct.node.put == ["a"]
    direct.node.states[found.id] = "consumed"
    assert (await direct.answered(direct.state(found.id))).state == "consumed"


async def test_without_messaging_a_lost_answer_is_said_and_repeated(direct: InputLine) -> None:
    """Under its key it is put once."""
    direct.connect()
    direct.node.answers = False
    asked = asyncio.ensure_future(direct.send("a", key="k"))
    while not direct.node.put:
        direct.work()
        await asyncio.sleep(0)
    direct.leave()
    with pytest.raises(NotNow) as lost:
        await asked
    assert lost.value.code == "unanswered"
    direct.node.answers = True
    direct.connect()
    assert (await direct.answered(direct.send("a", key="k"))).state == "delivered" and direct.node.put == ["a"]


async def test_without_messaging_what_the_node_says_is_passed_on(direct: InputLine) -> None:
    """Now, or for good; and a node that does not answer is waited for only so long."""
    direct.connect()
    direct.node.nack = message.Nack(parent_id=1, code="store_full", reason="full", retry_after=30.0)
    with pytest.raises(NotNow) as full:
        await direct.answered(direct.send("a"))
    assert (full.value.code, full.value.retry_after_seconds) == ("store_full", 30.0)
    direct.node.nack = message.Nack(parent_id=1, code="bad_message", reason="no", permanent=True)
    with pytest.raises(InputRefused):
        await direct.answered(direct.send("a"))
    direct.node.nack, direct.node.answers = None, False
    with pytest.raises(NotNow) as silent:
        await direct.answered(direct.send("a", ttl=0.05))
    assert silent.value.code == "unanswered"


# ---- the law --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
async def test_accepted_is_put_once_in_order_whatever_fails(line: InputLine, seed: int) -> None:
    """Hubs are killed, answers of messaging are lost, acks of the node are lost, between any two steps."""
    draw = random.Random(seed)
    messaging = line.messaging
    assert isinstance(messaging, TwinMessaging)
    messaging.fails = lambda call: draw.choice(("before", "after", *[""] * 10))
    accepted: list[str] = []
    line.connect()
    for number in range(40):
        line.node.answers = draw.random() < 0.7
        for _ in range(draw.randrange(12)):
            line.work()
            await asyncio.sleep(0)
        match draw.randrange(5):
            case 0:
                line.new_hub()
                line.connect()
            case 1:
                line.connect()
            case 2:
                line.leave()
            case _:
                pass
        while True:  # as a caller does: the same again until it is accepted
            try:
                await line.answered(line.send(str(number), key=str(number)))
            except (NotNow, Failed):
                await asyncio.sleep(0)
                continue
            break
        accepted.append(str(number))
    messaging.fails = lambda call: ""
    line.node.answers = True
    line.connect()

    def is_empty() -> bool:
        return set(line.node.put) >= set(accepted)

    async with asyncio.timeout(60):
        while not is_empty():
            line.work()
            await asyncio.sleep(0.001)
    assert line.node.put == accepted
