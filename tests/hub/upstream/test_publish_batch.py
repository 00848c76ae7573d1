"""What an edge says on its way into topics."""

import msgspec
import pytest

from fairlead_hub.upstream import publish_batch
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
    [parcel] = plan(item(properties={"node": "edge-9"})).parcels
    [payload] = parcel.payloads
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
    [parcel] = plan(content=raw).parcels
    assert msgspec.json.decode(parcel.payloads[0])["node"] == "edge-1"


def test_a_body_that_is_no_json_travels_in_base64():
    """``body`` is null and ``bodyBase64`` carries the bytes."""
    [parcel] = plan(item(body_base64="AAE=")).parcels
    decoded = msgspec.json.decode(parcel.payloads[0])
    assert (decoded["body"], decoded["bodyBase64"]) == (None, "AAE=")


def test_parcels_are_by_topic_and_epoch():
    """One publish each; the producer is the node and its stream."""
    found = plan(item(), item(sequence=4), item(topic="shop/alarms", sequence=5), item(epoch=8, sequence=0))
    assert [(p.topic, p.epoch, p.sequences) for p in found.parcels] == [
        ("default/telemetry", 7, [3, 4]), ("shop/alarms", 7, [5]), ("default/telemetry", 8, [0]),
    ]  # fmt: skip
    assert {p.producer for p in found.parcels} == {"edge-1/iothub_Pri0"}


def test_a_topic_never_granted_is_refused_alone():
    """With the reason; the rest of the batch goes on."""
    found = plan(item(), item(topic="other/secret", sequence=4))
    assert [(r.index, r.code) for r in found.refused] == [(1, "topic_not_granted")]
    assert "other/secret" in found.refused[0].reason
    assert found.parcels[0].indexes == [0]


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
    refused = plan(*[item(topic=topic)] * publish_batch.MESSAGES_MAX).refused
    said = publish_batch.bounded(reversed(refused))
    assert [each.index for each in said] == list(range(publish_batch.MESSAGES_MAX))
    assert said[0].reason or len(topic) > 4000
    codec.encode(message.Ack(parent_id=2**53, cumulative=True, refused=said))


def test_a_body_that_no_reader_downstream_takes_is_refused_alone():
    """Too deep for readers with a stack; the others of its batch go on."""
    deep = msgspec.Raw(b"[" * 300 + b"]" * 300)
    found = plan(item(), item(body=deep))
    assert [(each.index, each.code) for each in found.refused] == [(1, "bad_body")]
    assert len(found.parcels[0].payloads) == 1


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
    """A parcel too large for messaging is halved."""
    [parcel] = plan(*[item(id=f"m{n}", sequence=n) for n in range(5)]).parcels
    first, second = parcel.halves()
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
