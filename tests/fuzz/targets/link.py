"""What travels on the link, read by the side it goes to."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import msgspec
from tests.fuzz.mutate import split_story
from tests.fuzz.target import Target, promise
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_edge.objects import metastore as edge_content
from fairlead_edge.objects import session_events
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.metastore import Put
from fairlead_edge.objects.session import EdgeSession
from fairlead_hub import publish_batch
from fairlead_wire import message
from fairlead_wire.errors import Permanent, RemoteError
from fairlead_wire.link import codec, peer_json
from fairlead_wire.objects import digest, resource

FRAMES_MAX = 20
"""Of one story."""
GRANTED = frozenset(["default/telemetry", "shop/sales"])
_entries = msgspec.json.Decoder(list[message.HeldEntry])
_status = msgspec.json.Decoder(message.EdgeStatus)
_JSON = msgspec.json.Decoder()


def from_edge(frame: bytes) -> None:
    header, content = codec.decode_from_edge(frame)
    promise(codec.decode_from_edge(codec.encode(header, content)) == (header, content), "it is written as it was read")
    match header:
        case message.Entries():
            for each in peer_json.decode(_entries, codec.unpack(header.encoding, content)):
                resource.parse(each.resource)
        case message.Upstream():
            _planned(header, content)
        case message.Status():
            _reported(content)
        case message.BucketSums():
            _differing(content)


def _differing(content: bytes) -> None:
    try:
        digest.Buckets(4).differing(content)
    except ValueError:
        return


def _planned(header: message.Upstream, content: bytes) -> None:
    plan = publish_batch.plan("edge-1", header, content, GRANTED)
    promise(
        len(plan.refused) + sum(len(each.payloads) for each in plan.topic_batches) == plan.count,
        "each message has a fate",
    )
    for topic_batch in plan.topic_batches:
        promise(topic_batch.topic in GRANTED, "only topics that were granted get anything")
        for payload in topic_batch.payloads:
            promise(_JSON.decode(payload)["node"] == "edge-1", "the node is the one of the link")
    publishing = publish_batch.Publishing(header, plan, publish_batch.Order())
    while (refused := publishing.next()) is not None:
        publishing.defer(refused.topic, "over_quota", "full", 1.0)
    codec.encode(publishing.answer())


def upstream(content: bytes) -> None:
    _planned(message.Upstream(id=1, stream="queue/5"), content)


def _reported(content: bytes) -> None:
    status = peer_json.decode(_status, content)
    promise(
        msgspec.json.decode(msgspec.json.encode(status), type=message.EdgeStatus) == status, "it is written as read"
    )


def from_hub(frame: bytes) -> None:
    header, content = codec.decode_from_hub(frame)
    promise(codec.decode_from_hub(codec.encode(header, content)) == (header, content), "it is written as it was read")
    if isinstance(header, message.Update):
        at = resource.parse(header.resource)
        plain = codec.unpack(header.encoding, content)
        edge_content.verify(
            Put(
                resource=at,
                uid=header.uid,
                digest=digest.content_digest(plain),
                resource_version=header.resource_version,
                content=plain,
            )
        )


def packed(content: bytes) -> None:
    promise(len(codec.unpack("zstd", content, 1 << 20)) <= 1 << 20, "no more than the limit is unpacked")


def nested(content: bytes) -> None:
    """What the measure lets pass, every decoder reads; what it cuts off is deep indeed."""
    deep = codec.nesting(content)
    promise(deep >= 0, "a depth is never negative")
    if deep <= codec.NESTING_MAX:
        peer_json.decode(_JSON, content)


def hub_hears(content: bytes) -> None:
    """A story: frames one after the other, each with its length in front; the session may end at any of them."""
    core = Core("edge-1")
    core.rule(CONFIG_MAPS)
    core.put("a")
    core.may_be_silent = True
    edge = core.connect("edge-1")
    edge.sent()
    for frame in split_story(content)[:FRAMES_MAX]:
        header, body = codec.decode_from_edge(frame)
        edge.say(header, body)
        for sent, carried in core.frames(edge.ref):
            codec.encode(sent, carried)
        core.now += 1.0
        core.settle()
        if edge.session.is_over:
            return
        core.hub.report(core.now)


def edge_hears(content: bytes) -> None:
    """A story the other way: nothing but effects may come of it, whatever the hub says."""
    asyncio.run(_edge_hears(content))


_WELCOME = message.Welcome(
    hub="h", fence=1, session=1, keepalive_seconds=1e9, frame_bytes_max=1 << 22, upstream_window=1
)


async def _edge_hears(content: bytes) -> None:
    store = MemoryMetastore()
    session = EdgeSession(node="edge-1", agent="1", store_epoch=1, fence=0, now=0.0)

    async def do(event: session_events.Event) -> None:
        for effect in session.handle(event, 1.0):
            match effect:
                case session_events.SendFrame():
                    codec.decode_from_edge(effect.frame)
                case session_events.Apply():
                    await do(session_events.Applied(await store.apply(effect.writes, 1.0)))
                case session_events.PersistFence():
                    await store.persist_fence(effect.fence)
                    await do(session_events.FencePersisted())
                case session_events.Summarise():
                    await do(session_events.Summarised(await store.summary(effect.bits)))
                case session_events.ListEntries():
                    await do(session_events.EntriesListed(await store.entries(effect.bits, effect.buckets)))

    await do(session_events.Connected())
    await do(session_events.FrameReceived(codec.encode(_WELCOME)))
    for frame in split_story(content)[:FRAMES_MAX]:
        await do(session_events.FrameReceived(frame))
    if session.is_open:
        await do(session_events.FrameReceived(codec.encode(message.Compare(id=9, bits=0))))


@functools.cache
def _words() -> tuple[bytes, ...]:
    """Verbs and names of the protocol, out of its own types."""
    found: set[str] = set()
    for kind in (*message.FromEdge.__args__, *message.FromHub.__args__):
        fields: Any = msgspec.structs.fields(kind)
        found |= {kind.__struct_config__.tag, *(each.encode_name for each in fields)}
    return tuple(f'"{each}"'.encode() for each in sorted(found))


REFUSALS = (RemoteError,)
TARGETS = (
    Target(
        name="link-from-edge",
        says="A frame as the hub reads it, with its content: refused as the peer's mistake, or written as it was read.",
        read=from_edge,
        refusals=REFUSALS,
        shape="frame",
        words=_words(),
    ),
    Target(
        name="link-from-hub",
        says="A frame as the agent reads it, with an object: refused, or an object that can be listed.",
        read=from_hub,
        refusals=(RemoteError, Permanent),
        shape="frame",
        words=_words(),
    ),
    Target(
        name="link-upstream",
        says="A batch of messages on its way into topics: each stored under the link's own node, or refused.",
        read=upstream,
        refusals=REFUSALS,
        shape="json",
    ),
    Target(
        name="link-packed",
        says="Compressed content: never more than the limit is unpacked.",
        read=packed,
        refusals=REFUSALS,
        shape="bytes",
    ),
    Target(
        name="link-nesting",
        says="The measure of nesting: what it lets pass, a decoder reads or refuses.",
        read=nested,
        refusals=REFUSALS,
        shape="json",
    ),
    Target(
        name="link-hub-hears",
        says="Frames of an edge, one after the other: only its own session ends.",
        read=hub_hears,
        refusals=REFUSALS,
        shape="story",
        words=_words(),
        tries=60,
    ),
    Target(
        name="link-edge-hears",
        says="Frames of a hub, one after the other: nothing but effects come of them.",
        read=edge_hears,
        refusals=(),
        shape="story",
        words=_words(),
        tries=150,
    ),
)
