"""A node with a valid certificate that sends whatever it likes: it harms only itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.hubs.hub_core import CONFIG_MAPS, Core, Edge

from fairlead_wire import message
from fairlead_wire.errors import RemoteError
from fairlead_wire.link import codec

NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7] * 3 + [-1, 2**31, 2**53, 2**53 + 1, 2**64, 10**30, 1e300])
LAST = -2
"""Stands for the id of what the hub sent last."""
IDS = st.sampled_from([LAST] * 4 + [1, 2, 3, -1, 2**64])
WORDS = st.sampled_from(
    ["", "a", "uid-a", "edge-2", "../x", "x/../../pods/y", "1.2", "n" * 300, "\x00", "zstd", "\u2028"]
)
GOOD = "api/v1/namespaces/shop/configmaps/"
PATHS = st.sampled_from(
    [GOOD + "a", GOOD + "b", GOOD + "c"] * 3
    + ["api/v1/namespaces/../configmaps/a", "apis/fairlead.dev/v1alpha1/edgenodes/edge-2", "a" * 2000, ""]
)
ENTRY = st.tuples(PATHS, WORDS, WORDS, WORDS)
QUEUE = st.fixed_dictionaries(
    {"endpoint": WORDS, "priority": NUMBERS, "length": NUMBERS, "bytes": NUMBERS, "oldestAgeSeconds": NUMBERS}
)
ROUTES = st.fixed_dictionaries(
    {"uid": WORDS, "resourceVersion": WORDS, "accepted": st.lists(WORDS, max_size=3), "errors": st.just([])}
)
STATUS = st.fixed_dictionaries(
    {"held": NUMBERS, "queues": st.lists(QUEUE, max_size=3), "routes": st.dictionaries(WORDS, ROUTES, max_size=3)},
    optional={"deadLetters": NUMBERS, "storeBytes": NUMBERS},
)
HEADERS = st.one_of(
    st.fixed_dictionaries({"operation": st.just("ack"), "parentID": IDS, "cumulative": st.booleans()}),
    st.fixed_dictionaries(
        {"operation": st.just("nack"), "parentID": IDS, "code": WORDS, "reason": WORDS, "permanent": st.booleans()},
        optional={"retryAfter": NUMBERS},
    ),
    st.fixed_dictionaries({"operation": st.just("progress"), "parentID": IDS, "chunks": NUMBERS}),
    st.fixed_dictionaries({"operation": st.just("buckets"), "parentID": IDS, "bits": NUMBERS}),
    st.just({"operation": "keepalive"}),
    st.fixed_dictionaries({"operation": st.sampled_from(["hello", "delete", "welcome"]), "node": WORDS}),
)
FRAMES = st.one_of(
    st.tuples(HEADERS, st.binary(max_size=40)),
    st.tuples(
        st.fixed_dictionaries({"operation": st.just("entries"), "parentID": IDS, "last": st.booleans()}),
        st.lists(ENTRY, max_size=2).map(msgspec.json.encode),
    ),
    st.tuples(st.just({"operation": "status"}), STATUS.map(msgspec.json.encode)),
    st.tuples(st.just({"operation": "entries", "encoding": "zstd"}), st.binary(max_size=40)),
)
STORIES = st.lists(st.tuples(FRAMES, st.floats(0, 12)), max_size=15)


def said(edge: Liar, header: dict[str, Any], content: bytes) -> bool:
    """Whether the session accepted this frame; it may refuse it only as a mistake of the peer."""
    if header.get("parentID") == LAST:
        header = {**header, "parentID": edge.last}
    head = msgspec.json.encode(header)
    try:
        decoded, body = codec.decode_from_edge(b"\x01" + len(head).to_bytes(4, "big") + head + content)
        edge.say(decoded, body)
    except RemoteError:
        return False
    return True


class Liar(Edge):
    """Reads what it is sent, and answers the first question truthfully, or else it would not get any further."""

    last = 0

    def listen(self) -> None:
        for header, content in self.core.frames(self.ref):
            codec.encode(header, content)
            self.last = getattr(header, "id", self.last)
            if isinstance(header, message.Compare):
                self.say(message.BucketSums(parent_id=header.id, bits=header.bits), b"\x01" * (16 << header.bits))
                self.listen()


def connect(core: Core) -> Liar:
    liar = Liar(core, core.connect("edge-1").ref, {})
    liar.listen()
    return liar


@pytest.mark.verify
@settings(max_examples=150, deadline=None)
@given(STORIES)
def test_whatever_an_edge_sends_the_hub_continues_and_others_keep_their_objects(
    story: list[tuple[tuple[dict[str, Any], bytes], float]],
) -> None:
    """Only ``RemoteError`` ends its session, other nodes' records do not change, and everything can be explained."""
    core = Core("edge-1", "edge-2")
    core.may_be_silent = True
    core.rule(CONFIG_MAPS)
    one = core.put("a")
    other = core.connect("edge-2")
    other.ack(*other.sent())
    asyncio.run(core.flush())
    before = core.status(one, "edge-2")
    edge = connect(core)
    for (header, content), seconds in story:
        alive = said(edge, header, content)
        edge.listen()
        core.now += seconds
        core.settle()
        if not alive or edge.session.is_over:
            edge.leave()
            edge = connect(core)
        core.hub.sweep(core.now)
        core.hub.report(core.now)
        for wanted in [name[2] for name in core.hub.status_cache._dirty]:
            node, _, uid = wanted.partition(".")
            assert (node == "edge-1" and (not uid or message.is_uid(uid))) or wanted in ("edge-2", "edge-2.uid-a")
    asyncio.run(core.flush())
    assert core.status(one, "edge-2") == before
    for document in core.api.documents.values():
        written = msgspec.json.decode(msgspec.json.encode(document.status))
        assert all(0 <= number < 2**63 for number in numbers(written)), written
    msgspec.json.encode([core.hub.view.nodes(core.now), core.hub.view.node("edge-1", core.now)])


def numbers(value: Any) -> Iterator[float]:
    """Every number in a document: the API server accepts none beyond 64 bits."""
    match value:
        case dict():
            for each in value.values():
                yield from numbers(each)
        case list():
            for each in value:
                yield from numbers(each)
        case int() | float():
            yield value
