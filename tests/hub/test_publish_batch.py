"""What an edge says on its way into topics."""

import msgspec
import pytest
from tests.support.hubs.hub_core import Core, routes

from fairlead_hub import publish_batch
from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_messaging.api.responses import Placed
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec

HEADER = message.Upstream(id=1, stream="iothub_Pri0")
GRANTED = frozenset({"default/telemetry", "shop/alarms"})


def item(**fields):
    base = {
        "id": "m1", "topic": "default/telemetry", "epoch": 7, "sequence": 3, "source": "/messages", "priority": 0,
        "enqueued_at": "2026-11-20T00:00:00Z", "body": msgspec.Raw(b'{"x": 1.10}'),
    }  # fmt: skip
    return message.UpstreamMessage(**{**base, **fields})


def plan(*items, header=HEADER, content=None):
    return publish_batch.plan("edge-1", header, content or msgspec.json.encode(list(items)), GRANTED)


def test_the_hub_stamps_the_node():
    """Whatever the message claims; the body is passed through as it was written."""
    [topic_batch] = plan(item(properties={"node": "edge-9"})).topic_batches
    [payload] = topic_batch.payloads
    assert b'"body":{"x": 1.10}' in payload
    decoded = msgspec.json.decode(payload)
    assert decoded["node"] == "edge-1"
    assert list(decoded) == [
        "id", "node", "epoch", "stream", "sequence", "source", "priority", "enqueued_at", "properties",
        "systemProperties", "body",
    ]  # fmt: skip


def test_a_claimed_node_field_is_ignored():
    """A hostile edge cannot speak for another."""
    raw = b'[{"node":"edge-9",' + msgspec.json.encode(item())[1:] + b"]"
    [topic_batch] = plan(content=raw).topic_batches
    assert msgspec.json.decode(topic_batch.payloads[0])["node"] == "edge-1"


def test_a_body_that_is_no_json_travels_in_base64():
    """``body`` is null and ``bodyBase64`` carries the bytes."""
    [topic_batch] = plan(item(body_base64="AAE=")).topic_batches
    decoded = msgspec.json.decode(topic_batch.payloads[0])
    assert (decoded["body"], decoded["bodyBase64"]) == (None, "AAE=")


def test_topic_batches_are_by_topic_and_epoch():
    """One publish each; the producer is the node and its stream."""
    found = plan(item(), item(sequence=4), item(topic="shop/alarms", sequence=5), item(epoch=8, sequence=0))
    assert [(p.topic, p.epoch, p.sequences) for p in found.topic_batches] == [
        ("default/telemetry", 7, [3, 4]), ("shop/alarms", 7, [5]), ("default/telemetry", 8, [0]),
    ]  # fmt: skip
    assert {p.producer for p in found.topic_batches} == {"edge-1/iothub_Pri0"}


def test_a_topic_never_granted_is_refused_alone():
    """With the reason; the rest of the batch goes on."""
    found = plan(item(), item(topic="other/secret", sequence=4))
    assert [(r.index, r.code) for r in found.refused] == [(1, "topic_not_granted")]
    assert "other/secret" in found.refused[0].reason
    assert found.topic_batches[0].indexes == [0]


@pytest.mark.parametrize(
    "content",
    [b"{", b"{}", b'[{"id": 1}]', b"\xff\xff", b"[" * 50_000, b'[{"id":"\xff"}]', b'[{"x":' + b"[" * 100_000],
    ids=["cut off", "no list", "wrong type", "not JSON", "nested", "not UTF-8", "nested inside"],
)
def test_a_batch_that_is_none_is_malformed(content):
    """Never another exception, whatever the bytes."""
    with pytest.raises(Malformed):
        plan(content=content)


def test_a_batch_over_the_limit_is_malformed():
    """The number of messages is bounded too."""
    with pytest.raises(Malformed, match="over the limit"):
        plan(*[item()] * (publish_batch.MESSAGES_MAX + 1))


@pytest.mark.parametrize("topic", ["shop/other", "x" * 16_000, "\x01" * 1000])
def test_an_ack_holds_every_refusal_of_a_batch(topic):
    """However many and however long: an ack that cannot be sent would take the session with it, for nothing."""
    found = plan(*[item(topic=topic)] * publish_batch.MESSAGES_MAX)
    answer = publish_batch.Publishing(HEADER, found, publish_batch.Order()).answer()
    assert isinstance(answer, message.Ack)
    assert [each.index for each in answer.refused] == list(range(publish_batch.MESSAGES_MAX))
    assert answer.refused[0].reason or len(topic) > 4000
    codec.encode(msgspec.structs.replace(answer, parent_id=2**53, cumulative=True))


def test_a_body_that_no_reader_downstream_takes_is_refused_alone():
    """Too deep for readers with a stack; the others of its batch go on."""
    deep = msgspec.Raw(b"[" * 300 + b"]" * 300)
    found = plan(item(), item(body=deep))
    assert [(each.index, each.code) for each in found.refused] == [(1, "bad_body")]
    assert len(found.topic_batches[0].payloads) == 1


def test_a_body_that_is_no_text_is_malformed():
    """The decoder passes over it unread; the topic would hold what is no JSON."""
    with pytest.raises(Malformed):
        plan(content=msgspec.json.encode([item()]).replace(b"1.10", b'"\xff"'))


def test_a_compressed_batch_is_unpacked():
    """As the header says."""
    encoding, packed = codec.pack(msgspec.json.encode([item(id=f"m{n}") for n in range(100)]))
    assert encoding == "zstd"
    assert plan(header=msgspec.structs.replace(HEADER, encoding=encoding), content=packed).count == 100


def test_halves_keep_messages_and_sequences_together():
    """A batch too large for messaging is halved."""
    [topic_batch] = plan(*[item(id=f"m{n}", sequence=n) for n in range(5)]).topic_batches
    first, second = topic_batch.halves()
    assert (first.sequences, second.sequences) == ([0, 1], [2, 3, 4])
    assert second.indexes == [2, 3, 4]
    assert len(second.payloads) == 3


def header(id, *, follows=False):
    return message.Upstream(id=id, stream="iothub_Pri0", follows=follows)


NOT_NOW = message.Nack(parent_id=1, code="messaging_unavailable", reason="it restarts", retry_after=3.0)


def test_what_follows_a_batch_that_was_put_off_waits_with_it():
    """As long as it was sent before the edge knew; the time to come back is the first one's."""
    order = publish_batch.Order()
    assert order.judge(header(1)) is None
    order.answered(NOT_NOW)
    for id in (2, 3):
        behind = order.judge(header(id, follows=True))
        assert behind is not None
        assert (behind.parent_id, behind.code, behind.permanent, behind.retry_after) == (
            id,
            "behind_put_off",
            False,
            3.0,
        )
        assert "it restarts" in behind.reason


def test_a_stream_that_begins_again_is_taken():
    """And may be put off again, by its own failure only."""
    order = publish_batch.Order()
    order.answered(NOT_NOW)
    assert order.judge(header(4)) is None
    order.answered(message.Ack(parent_id=4))
    assert order.judge(header(5, follows=True)) is None


def test_an_edge_that_says_nothing_of_order_is_served():
    """Without the mark every batch is a beginning: never a stream that waits for ever."""
    order = publish_batch.Order()
    order.answered(NOT_NOW)
    assert order.judge(header(2)) is None


def publishing(*items, order=None, header=HEADER):
    granted = frozenset(each.topic for each in items)
    found = publish_batch.plan("edge-1", header, msgspec.json.encode(list(items)), granted)
    return publish_batch.Publishing(header, found, order or publish_batch.Order())


def test_a_topic_that_takes_nothing_is_deferred_alone():
    """The others are stored; what follows in the stream for that topic waits with it, until the stream begins again."""
    order = publish_batch.Order()
    batch = [item(), item(topic="shop/alarms", sequence=4), item(sequence=5), item(topic="shop/alarms", sequence=6)]
    first = publishing(*batch, order=order)
    first.defer(first.next().topic, "over_quota", "namespace default is full", 9.0)
    alarms = first.next()
    first.stored(alarms, None)
    assert (alarms.topic, first.next(), first.stored_count) == ("shop/alarms", None, 2)
    answer = first.answer()
    order.answered(answer)
    [deferred] = answer.deferred
    assert (deferred.index, deferred.code, deferred.retry_after) == (0, "over_quota", 9.0)
    assert sorted(answer.deferred_by_index([each.topic for each in batch])) == [0, 2]

    assert order.judge(header(2, follows=True)) is None
    second = publishing(*batch, order=order)
    second.stored(second.next(), None)
    assert second.next() is None, "its own topic alone"
    [behind] = second.answer().deferred
    assert (behind.index, behind.code, behind.retry_after) == (0, publish_batch.BEHIND, 9.0)
    assert "namespace default is full" in behind.reason

    assert order.judge(header(3)) is None
    third = publishing(*batch, order=order)
    assert {third.next().topic, third.next().topic} == {"default/telemetry", "shop/alarms"}


def test_of_a_topic_that_is_deferred_in_the_middle_what_is_in_front_is_stored():
    """One of its messages is refused for good, the halves before it are in, then the topic is full."""
    found = publishing(*[item(sequence=n) for n in range(8)])
    found.never(found.next(), "bad_message", "one of them")
    found.stored(found.next(), None)
    found.never(found.next(), "bad_message", "one of them")
    found.stored(found.next(), None)
    found.never(found.next(), "bad_message", "one of them")
    found.never(found.next(), "bad_message", "this one")
    found.defer(found.next().topic, "over_quota", "full", None)
    assert found.next() is None
    answer = found.answer()
    assert [each.index for each in answer.refused] == [6]
    assert [each.index for each in answer.deferred] == [7]


def test_a_batch_that_is_put_off_says_which_of_its_messages_are_stored():
    """Messaging went away in the middle.  It says where they stand too: they are not sent again."""
    header = msgspec.structs.replace(HEADER, positions=True)
    found = publishing(item(), item(topic="shop/alarms", sequence=4), item(sequence=5), header=header)
    found.stored(found.next(), Placed(stored=(7, 5), service="s", generation=1, first="a" * 40, newest="b" * 40))
    found.next()
    answer = found.put_off(NOT_NOW)
    [position] = answer.positions
    assert answer.stored == [0, 2]
    assert (position.index, position.first, position.newest) == (0, "a" * 40, "b" * 40)


def test_beyond_so_many_deferred_topics_the_batch_is_put_off():
    """An ack has a limit; what is stored is said all the same."""
    items = [item(topic=f"shop/t{n}", sequence=n) for n in range(publish_batch.DEFERRED_MAX + 2)]
    found = publishing(*items)
    found.stored(found.next(), None)
    while (topic_batch := found.next()) is not None:
        found.defer(topic_batch.topic, "over_quota", "x" * 4000, 1.0)
    answer = found.answer()
    assert isinstance(answer, message.Nack) and (answer.code, answer.stored) == ("over_quota", [0])
    codec.encode(answer)


def test_the_longest_reasons_of_deferred_topics_fit_into_an_ack():
    """As many as there is room for."""
    items = [item(topic=f"shop/t{n}", sequence=n) for n in range(publish_batch.DEFERRED_MAX)]
    found = publishing(*items)
    while (topic_batch := found.next()) is not None:
        found.defer(topic_batch.topic, "over_quota", "x" * 40_000, 1.0)
    answer = found.answer()
    assert isinstance(answer, message.Ack) and len(answer.deferred) == publish_batch.DEFERRED_MAX
    assert answer.deferred[0].reason and not answer.deferred[-1].reason
    codec.encode(answer)


def test_a_batch_of_a_deferred_topic_holds_nothing_else():
    """It would have an order that nobody keeps."""
    with pytest.raises(Malformed, match="has a message for"):
        publishing(item(), header=msgspec.structs.replace(HEADER, topic="shop/alarms"))


def test_topics_come_from_edge_routes_that_select_the_node(core):
    """The default topic is everybody's."""
    routes(core, "shop/alarms", nodeSelector={"matchLabels": {"role": "shop"}})
    core.node("edge-1", role="shop")
    core.settle()
    core.connect("edge-1")
    core.connect("edge-2")
    assert core.hub.grants.of("edge-1") == {"default/telemetry", "shop/alarms"}
    assert core.hub.grants.of("edge-2") == {"default/telemetry"}
    assert core.hub.grants.topics() == {"default/telemetry", "shop/alarms"}


async def test_a_topic_once_granted_stays_granted_over_a_restart(core):
    """Messages routed before a change must not be refused after it."""
    routes(core, "shop/alarms")
    edge = core.connect()
    routes(core, "shop/others")
    assert core.hub.grants.of("edge-1") >= {"shop/alarms", "shop/others"}
    core.hub.report(1.0)
    await core.flush()
    edge.leave()
    after = Core("edge-1")
    after.hub.documents.edge_node_observed("edge-1", core.api.documents[(EDGE_NODES, "", "edge-1")], {}, after.now)
    assert after.hub.grants.of("edge-1") >= {"shop/alarms", "shop/others"}


def test_fairleads_own_topics_are_never_granted(core):
    """Whatever EdgeRoutes or an EdgeNode document say: no node can make events up."""
    routes(core, "system/events")
    core.connect()
    core.hub.grants.remember("edge-1", ["system/events", "shop/alarms"])
    assert core.hub.grants.of("edge-1") == {"default/telemetry", "shop/alarms"}
    assert core.hub.grants.topics() == {"default/telemetry"}


def test_topics_are_not_judged_before_everything_is_listed():
    """A message must not be refused because the hub just started."""
    young = Core("edge-1", listed=False)
    assert young.hub.view.topics_unknown() == "nodes are not listed yet"
    young.list_all()
    assert young.hub.view.topics_unknown() == ""
