"""A hub with a valid certificate that sends whatever it likes: the agent continues, and its store stays readable."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_edge.objects import kinds, session, session_events
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.presentation import listing, table
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

NUMBERS = st.sampled_from([0, 1, 2, 3] * 4 + [-1, 2**31, 2**53 + 1, 2**64, 10**30, 1e300])
WORDS = st.sampled_from(["a", "uid-a", "", "../x", "n" * 300, "\x00", "\u2028"])
PATHS = st.sampled_from(
    ["api/v1/namespaces/shop/configmaps/a", "api/v1/namespaces/shop/pods/a"] * 4
    + ["api/v1/../configmaps/a", "apis/fairlead.dev/v1alpha1/edgeroutes/a", "a" * 2000, ""]
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("a"), "namespace": st.just("shop")},
    optional={"annotations": JSON, "labels": JSON, "creationTimestamp": JSON, "managedFields": JSON},
)
OBJECTS = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.sampled_from(["ConfigMap", "Pod"]), "metadata": METADATA},
    optional={"spec": JSON, "status": JSON, "data": JSON},
)
TEXTS = OBJECTS.map(msgspec.json.encode) | st.binary(max_size=30) | st.sampled_from([b"[" * 3000, b'{"kind":"\xff"}'])
IDS = st.integers(1, 6) | NUMBERS
HEADERS = st.one_of(
    st.fixed_dictionaries({"operation": st.just("delete"), "id": IDS, "resource": PATHS, "uid": WORDS}),
    st.fixed_dictionaries({"operation": st.just("chunk"), "id": IDS, "index": NUMBERS}),
    st.fixed_dictionaries({"operation": st.just("compare"), "id": IDS, "bits": NUMBERS}),
    st.fixed_dictionaries(
        {"operation": st.just("list"), "id": IDS, "bits": NUMBERS, "buckets": st.lists(NUMBERS, max_size=3)}
    ),
    st.fixed_dictionaries(
        {"operation": st.sampled_from(["ack", "nack"]), "parentID": IDS, "code": WORDS, "reason": WORDS}
    ),
    st.just({"operation": "keepalive"}),
    st.fixed_dictionaries({"operation": st.just("refuse"), "code": WORDS, "reason": WORDS}),
)
GOOD_PATHS = st.sampled_from(["api/v1/namespaces/shop/configmaps/a", "api/v1/namespaces/shop/pods/a"])
UPDATES = st.fixed_dictionaries(
    {
        "operation": st.just("update"),
        "id": IDS,
        "resource": PATHS,
        "uid": WORDS,
        "resourceVersion": WORDS,
    },
    optional={"encoding": st.sampled_from(["", "zstd", "gzip"]), "chunks": NUMBERS},
)
BELIEVABLE = st.fixed_dictionaries(
    {
        "operation": st.just("update"),
        "id": st.integers(1, 6),
        "resource": GOOD_PATHS,
        "uid": st.sampled_from(["uid-a", "uid-b"]),
        "resourceVersion": st.just("1"),
    }
)
FRAMES = st.lists(
    st.tuples(HEADERS | UPDATES, TEXTS) | st.tuples(BELIEVABLE, OBJECTS.map(msgspec.json.encode)), max_size=12
)
WELCOME = {
    "operation": "welcome", "hub": "h", "fence": 1, "session": 1, "keepaliveSeconds": 1e9,
    "frameBytesMax": 1 << 22, "upstreamWindow": 1,
}  # fmt: skip


class Agent:
    """A session over a store, whose effects are performed at once; a new session after it was closed."""

    def __init__(self) -> None:
        self.store = MemoryMetastore()
        self.core: session.EdgeSession
        self.fences = 0

    async def connect(self) -> None:
        fence = await self.store.fence()
        self.core = session.EdgeSession(node="edge-1", agent="1", store_epoch=1, fence=fence, now=0.0)
        await self.do(session_events.Connected())
        await self.hear({**WELCOME, "fence": fence + 1}, b"")
        assert self.core.is_open

    async def hear(self, header: dict[str, Any], content: bytes) -> None:
        head = msgspec.json.encode(header)
        await self.do(session_events.FrameReceived(b"\x01" + len(head).to_bytes(4, "big") + head + content))

    async def do(self, event: session_events.Event) -> None:
        """Frames are received, effects follow; nothing but effects may come of an event."""
        for effect in self.core.handle(event, 1.0):
            match effect:
                case session_events.SendFrame():
                    codec.decode_from_edge(effect.frame)
                case session_events.Apply():
                    await self.do(session_events.Applied(await self.store.apply(effect.writes, 1.0)))
                case session_events.PersistFence():
                    await self.store.persist_fence(effect.fence)
                    await self.do(session_events.FencePersisted())
                case session_events.Summarise():
                    await self.do(session_events.Summarised(await self.store.summary(effect.bits)))
                case session_events.ListEntries():
                    await self.do(session_events.EntriesListed(await self.store.entries(effect.bits, effect.buckets)))


async def play(frames: list[tuple[dict[str, Any], bytes]]) -> None:
    agent = Agent()
    await agent.connect()
    for header, content in frames:
        if header["operation"] == "update":
            header = {**header, "digest": digest.content_digest(content)}
        await agent.hear(header, content)
        if not agent.core.is_open:
            await agent.connect()
    for kind in kinds.served(await agent.store.kinds()):
        held, _ = await agent.store.select(kind.group, kind.plural)
        documents = [listing.present(each, age_seconds=1) for each in held]
        for columns in ("configmaps", "pods"):
            msgspec.json.encode(table.table("", columns, documents, metadata={}, now=1.0, include_object="Object"))
        selected = listing.read_selection({"labelSelector": "a=b,c!=d,e in (f),!g"}, kind.group, kind.plural)
        assert all(isinstance(selected.matches(each), bool) for each in held)


@pytest.mark.verify
@settings(max_examples=150, deadline=None)
@given(FRAMES)
def test_whatever_a_hub_sends_the_agent_continues_and_its_objects_can_be_read(
    frames: list[tuple[dict[str, Any], bytes]],
) -> None:
    """It refuses with a named error, or ends the session; nothing it stored breaks a list, a table or a selection."""
    asyncio.run(play(frames))
