"""The edge's end of a session: nothing acknowledged before it is durable, everything answered in order."""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
import pytest

from fairlead_edge.objects import session, session_events
from fairlead_edge.objects.metastore import Absent, Outcome, Put, Remove, StoreSummary, Unchanged, WriteRefused
from fairlead_edge.objects.session import EdgeSession
from fairlead_edge.objects.session_events import (
    Answered,
    Applied,
    Apply,
    AuthoritiesReceived,
    Close,
    Effect,
    FrameReceived,
    ListEntries,
    PersistFence,
    SendFrame,
    SessionOpened,
    Summarise,
)
from fairlead_wire import message
from fairlead_wire.errors import LocalError
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

PATH = "api/v1/namespaces/shop/configmaps/"
ALIVE = message.EdgeStatus(held=1)
BATCH = message.Upstream(id=0, stream="iothub", follows=True, positions=True)


def decoded(effects: list[Effect]) -> list[Any]:
    """Sent frames as headers, other effects as they are."""
    return [codec.decode_from_edge(each.frame)[0] if isinstance(each, SendFrame) else each for each in effects]


class Edge:
    """A ``EdgeSession`` with the clock standing still, spoken to in headers."""

    def __init__(self, *, fence: int = 0) -> None:
        self.core = EdgeSession(node="edge-1", agent="1", store_epoch=77, fence=fence, now=0.0)
        self.now = 0.0

    def do(self, event: session_events.Event) -> list[Any]:
        return decoded(self.core.handle(event, self.now))

    def hears(self, header: message.FromHub, content: bytes = b"") -> list[Any]:
        return self.do(FrameReceived(codec.encode(header, content)))

    def greeted(self, *entries: tuple[str, str]) -> list[Any]:
        assert self.do(session_events.Connected()) == [Summarise(None)]
        buckets = digest.Buckets.of(entries, 0)
        return self.do(session_events.Summarised(StoreSummary(held=len(entries), buckets=buckets)))

    def opened(self, *, fence: int = 5) -> Edge:
        self.greeted()
        assert self.hears(welcome(fence=fence)) == [PersistFence(fence)]
        assert [type(effect) for effect in self.do(session_events.FencePersisted())] == [SessionOpened]
        return self


def welcome(*, fence: int = 5, protocol: int = message.PROTOCOL) -> message.Welcome:
    return message.Welcome(
        protocol=protocol,
        hub="hub-a",
        fence=fence,
        session=1,
        keepalive_seconds=10.0,
        frame_bytes_max=codec.FRAME_BYTES_MAX,
        upstream_window=4,
    )


def update(id: int, name: str = "a", *, chunks: int = 0, encoding: message.Encoding = "") -> message.Update:
    return message.Update(
        id=id,
        resource=PATH + name,
        uid=f"uid-{name}",
        resource_version=str(id),
        digest="d" * 64,
        encoding=encoding,
        chunks=chunks,
    )


def delete(id: int, name: str = "a") -> message.Delete:
    return message.Delete(id=id, resource=PATH + name, uid=f"uid-{name}")


def chunk(id: int, index: int) -> message.Chunk:
    return message.Chunk(id=id, index=index)


def writes_of(effects: list[Any]) -> list[tuple[str, str]]:
    [apply] = [effect for effect in effects if isinstance(effect, Apply)]
    return [(type(write).__name__, write.resource.name) for write in apply.writes]


def done(count: int = 1, outcome: Outcome | None = None) -> Applied:
    return Applied([outcome or Unchanged()] * count)


def refused(code: str = "store_full") -> WriteRefused:
    return WriteRefused(code=code, reason="because", permanent=False, retry_after_seconds=5.0)


def test_the_hello_says_what_is_held() -> None:
    edge = Edge(fence=3)
    [hello] = edge.greeted(("u1", "d1"), ("u2", "d2"))
    assert isinstance(hello, message.Hello)
    assert (hello.node, hello.store_epoch, hello.fence, hello.held, hello.bits) == ("edge-1", 77, 3, 2, 0)
    assert hello.root == digest.Buckets.of([("u1", "d1"), ("u2", "d2")], 0).root


def test_an_update_is_acked_only_after_it_is_durable() -> None:
    edge = Edge().opened()
    effects = edge.hears(update(1), b"{}")
    assert writes_of(effects) == [("Put", "a")] and len(effects) == 1
    assert edge.do(done()) == [message.Ack(parent_id=1, cumulative=True)]


def test_what_comes_during_a_write_shares_the_next_one() -> None:
    edge = Edge().opened()
    edge.hears(update(1, "a"), b"{}")
    assert [edge.hears(update(id, f"n{id}"), b"{}") for id in (2, 3)] == [[], []]
    assert edge.hears(delete(4, "x")) == []
    [ack, apply] = edge.do(done())
    assert ack == message.Ack(parent_id=1, cumulative=True)
    assert writes_of([apply]) == [("Put", "n2"), ("Put", "n3"), ("Remove", "x")]
    assert edge.do(Applied([Unchanged(), Unchanged(), Absent()])) == [message.Ack(parent_id=4, cumulative=True)]


def test_a_refused_write_is_nacked_by_name_and_before_the_cumulative_ack() -> None:
    edge = Edge().opened()
    edge.hears(update(1), b"{}")
    for id in (2, 3, 4):
        edge.hears(update(id, f"n{id}"), b"{}")
    edge.do(done())
    nack, ack = edge.do(Applied([Unchanged(), refused(), Unchanged()]))
    assert nack == message.Nack(parent_id=3, code="store_full", reason="because", retry_after=5.0)
    assert ack == message.Ack(parent_id=4, cumulative=True)


def test_the_last_one_refused_is_not_covered() -> None:
    edge = Edge().opened()
    edge.hears(update(1), b"{}")
    edge.hears(update(2, "b"), b"{}")
    edge.hears(update(3, "c"), b"{}")
    edge.do(done())
    assert edge.do(Applied([Unchanged(), refused()])) == [
        message.Nack(parent_id=3, code="store_full", reason="because", retry_after=5.0),
        message.Ack(parent_id=2, cumulative=True),
    ]


def test_content_travels_packed_and_arrives_plain() -> None:
    plain = b'{"k":"' + b"v" * 1000 + b'"}'
    encoding, packed = codec.pack(plain)
    assert encoding == "zstd"
    edge = Edge().opened()
    [apply] = edge.hears(update(1, encoding=encoding), packed)
    [put] = apply.writes
    assert isinstance(put, Put) and put.content == plain and put.uid == "uid-a"


def test_content_that_cannot_be_unpacked_is_refused_for_good_and_the_session_lives() -> None:
    edge = Edge().opened()
    [nack] = edge.hears(update(1, encoding="zstd"), b"this is not zstd")
    assert (nack.parent_id, nack.code, nack.permanent) == (1, "malformed_content", True)
    assert writes_of(edge.hears(update(2), b"{}")) == [("Put", "a")]


def test_content_that_unpacks_to_too_much_is_refused_unexpanded() -> None:
    _, packed = codec.pack(b"0" * (codec.CONTENT_BYTES_MAX + 1))
    [nack] = Edge().opened().hears(update(1, encoding="zstd"), packed)
    assert (nack.code, nack.permanent) == ("too_large", True)


def test_parts_are_answered_with_progress_and_stored_whole() -> None:
    edge = Edge().opened()
    assert edge.hears(update(1, chunks=3)) == []
    assert edge.hears(chunk(1, 0), b'{"a"') == [message.Progress(parent_id=1, chunks=1)]
    assert edge.hears(chunk(1, 1), b":1") == [message.Progress(parent_id=1, chunks=2)]
    [apply] = edge.hears(chunk(1, 2), b"}")
    assert apply.writes[0].content == b'{"a":1}'
    assert edge.do(done()) == [message.Ack(parent_id=1, cumulative=True)]


def test_an_unfinished_object_is_never_covered_by_a_cumulative_ack() -> None:
    edge = Edge().opened()
    edge.hears(update(1, "big", chunks=2))
    edge.hears(update(2, "b"), b"{}")
    assert edge.do(done()) == [message.Ack(parent_id=2)]
    edge.hears(chunk(1, 0), b"{")
    edge.hears(chunk(1, 1), b"}")
    edge.hears(update(3, "c"), b"{}")
    [ack, _] = edge.do(done())
    assert ack == message.Ack(parent_id=1, cumulative=True)
    assert edge.do(done()) == [message.Ack(parent_id=3, cumulative=True)]


@pytest.mark.parametrize("newer", [update(2, "big"), delete(2, "big"), update(2, "big", chunks=2)])
def test_a_newer_word_ends_an_unfinished_object(newer: message.FromHub) -> None:
    """It is refused by name, so that no later ack says it was stored; its last parts are passed over."""
    edge = Edge().opened()
    edge.hears(update(1, "big", chunks=2))
    first = edge.hears(newer, b"" if isinstance(newer, message.Delete) else b"{}")[0]
    assert isinstance(first, message.Nack) and (first.parent_id, first.code) == (1, "superseded")
    assert edge.hears(chunk(1, 0), b"{") == []


def test_an_answer_to_compare_covers_every_change_before_it() -> None:
    """Sums are taken after what came first is durable, and before what came later."""
    edge = Edge().opened()
    edge.hears(update(1), b"{}")
    assert edge.hears(message.Compare(id=2, bits=1)) == []
    assert edge.hears(update(3, "b"), b"{}") == []
    assert edge.do(done()) == [message.Ack(parent_id=1, cumulative=True), Summarise(1)]
    summary = StoreSummary(held=1, buckets=digest.Buckets.of([("u", "d")], 1))
    [frame, apply] = edge.core.handle(session_events.Summarised(summary), 0.0)
    assert isinstance(frame, SendFrame)
    header, content = codec.decode_from_edge(frame.frame)
    assert header == message.BucketSums(parent_id=2, bits=1) and content == summary.buckets.encode()
    assert writes_of([apply]) == [("Put", "b")]


def test_a_hub_with_a_lower_fence_is_left() -> None:
    edge = Edge(fence=9)
    edge.greeted()
    [close] = edge.hears(welcome(fence=8))
    assert isinstance(close, Close) and close.code == "stale_hub" and close.retry_after
    assert edge.hears(update(1), b"{}") == []


def test_the_fence_is_durable_before_anything_is_obeyed() -> None:
    """Updates that came with the welcome wait until the fence is on disk."""
    edge = Edge(fence=2)
    edge.greeted()
    assert edge.hears(welcome(fence=3)) == [PersistFence(3)]
    assert edge.hears(update(1), b"{}") == []
    opened, apply = edge.do(session_events.FencePersisted())
    assert isinstance(opened, SessionOpened) and writes_of([apply]) == [("Put", "a")]


@pytest.mark.parametrize("retry_after", [None, 0.0, 12.5])
def test_a_refusal_says_when_to_come_back(retry_after: float | None) -> None:
    edge = Edge()
    edge.greeted()
    refuse = message.Refuse(code="busy", reason="too many", retry_after=retry_after)
    assert edge.hears(refuse) == [Close(code="busy", reason="too many", retry_after=retry_after)]


@pytest.mark.parametrize(
    ("header", "content"),
    [
        (update(1), b"{}"),
        (message.Keepalive(), b""),
        (message.Compare(id=1, bits=0), b""),
        (message.Authorities(certificates="PEM hub", renew_after_seconds=5.0), b"PEM"),
        (welcome(protocol=message.PROTOCOL + 1), b""),
    ],
)
def test_only_a_welcome_of_this_protocol_opens_a_session(header: message.FromHub, content: bytes) -> None:
    edge = Edge()
    edge.greeted()
    [close] = edge.hears(header, content)
    assert isinstance(close, Close) and close.code == "protocol"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"GET / HTTP/1.1",
        b"\x01\xff\xff\xff\xff",
        codec.encode(message.Keepalive())[:-3],
        codec.encode(message.Hello(node="n", agent="", store_epoch=1, fence=0, bits=0, held=0, root="")),
        codec.encode(message.Compare(id=1, bits=13)),
        codec.encode(message.ListBuckets(id=1, bits=1, buckets=[2])),
        codec.encode(message.ListBuckets(id=1, bits=-1, buckets=[])),
        codec.encode(message.Delete(id=1, resource="../etc/passwd", uid="u")),
        codec.encode(
            message.Welcome(hub="h", fence=9, session=2, keepalive_seconds=1, frame_bytes_max=1, upstream_window=1)
        ),
    ],
)
def test_frames_that_break_the_protocol_end_the_session_with_a_reason(frame: bytes) -> None:
    [close] = Edge().opened().do(FrameReceived(frame))
    assert isinstance(close, Close) and close.code == "protocol" and close.reason


def test_a_silent_hub_is_left_and_a_quiet_link_kept() -> None:
    """Keepalives when nothing else is said; a half-open link is noticed after three of them."""
    edge = Edge().opened()
    edge.now = edge.core.next_tick()
    assert edge.do(session_events.Ticked()) == [message.Keepalive()]
    edge.now = 30.0
    [close] = edge.do(session_events.Ticked())
    assert isinstance(close, Close) and close.code == "silent" and close.retry_after == 0.0


def test_a_batch_goes_up_and_its_answer_comes_back() -> None:
    edge = Edge()
    with pytest.raises(LocalError):
        edge.core.ask(BATCH, 0.0, b"[]")
    edge.opened()
    id, send = edge.core.ask(BATCH, 0.0, b"[]")
    assert codec.decode_from_edge(send.frame) == (
        msgspec.structs.replace(BATCH, id=id),
        b"[]",
    )
    ack = message.Ack(parent_id=id)
    assert edge.hears(ack) == [Answered(ack)]


def test_a_status_is_sent_once_and_again_when_it_changed() -> None:
    """Before the session opened it is kept; the same account costs no second frame."""
    edge = Edge()
    assert edge.do(session_events.StatusReported(ALIVE)) == []
    edge.greeted()
    edge.hears(welcome())
    opened, status = edge.do(session_events.FencePersisted())
    assert isinstance(opened, SessionOpened) and isinstance(status, message.Status)
    assert edge.do(session_events.StatusReported(ALIVE)) == []
    assert edge.do(session_events.StatusReported(message.EdgeStatus(held=2))) == [message.Status()]


def test_the_backlog_is_bounded() -> None:
    """When the disk is slower than the link, the link is read no further, until something was written."""
    edge = Edge().opened()
    id = 0
    while edge.core.has_room:
        id += 1
        edge.hears(update(id, f"n{id}"), b"x" * (codec.FRAME_BYTES_MAX - 1024))
        assert id < 10
    effects = edge.do(done(1))
    assert isinstance(effects[0], message.Ack) and len(writes_of(effects)) == 3 and edge.core.has_room


def test_a_delete_becomes_a_write_with_its_uid() -> None:
    [apply] = Edge().opened().hears(delete(1))
    [write] = apply.writes
    assert isinstance(write, Remove) and write.uid == "uid-a"


def test_authorities_are_passed_on() -> None:
    said = message.Authorities(certificates="PEM hub", renew_after_seconds=5.0)
    assert Edge().opened().hears(said, b"PEM") == [AuthoritiesReceived(said, b"PEM")]


# ---- effects and events are values ------------------------------------------------------------------


def wanted(*, further: int) -> list[Effect]:
    """A session that gets one update, and while it is written ``further`` ones; what was wanted for the first."""
    core = Edge().opened().core
    first, *_ = [core.handle(FrameReceived(codec.encode(update(id), b"{}")), 0.0) for id in range(1, 2 + further)]
    return first


def test_what_comes_later_does_not_change_an_effect() -> None:
    """Further updates collect in the session, not in the batch that was handed out: a driver may keep effects."""
    [batch] = wanted(further=0)
    assert isinstance(batch, Apply) and len(batch.writes) == 1
    assert wanted(further=3) == [batch]


EVENTS = [
    session_events.Connected(),
    session_events.FrameReceived(b"\x01"),
    session_events.Applied([]),
    session_events.FencePersisted(),
    session_events.Summarised(StoreSummary(held=0, buckets=digest.Buckets(0))),
    session_events.EntriesListed([]),
    session_events.Ticked(),
    session_events.StatusReported(message.EdgeStatus(held=1)),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_after_the_end_every_event_is_answered_with_nothing(event: session_events.Event) -> None:
    edge = Edge()
    [end] = edge.do(FrameReceived(b"no frame"))
    assert isinstance(end, Close) and end.code == "protocol"
    assert edge.do(event) == []
    assert {type(each) for each in EVENTS} == set(session_events.Event.__args__)


# ---- what goes up in frames -------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (1, [1]), (2000, [2000]), (2001, [2000, 1])])
def test_all_entries_arrive_once_and_the_last_frame_says_so(count: int, sizes: list[int]) -> None:
    held = [message.HeldEntry(f"{PATH}c{number}", f"u{number}", "d", "1") for number in range(count)]
    edge = Edge().opened()
    assert edge.hears(message.ListBuckets(id=9, bits=1, buckets=[0, 1])) == [ListEntries(1, frozenset([0, 1]))]
    sent = edge.core.handle(session_events.EntriesListed(held), 0.0)
    frames = [codec.decode_from_edge(each.frame) for each in sent if isinstance(each, SendFrame)]
    headers = [header for header, _ in frames if isinstance(header, message.Entries)]
    lists = [
        msgspec.json.decode(codec.unpack(header.encoding, content), type=list[message.HeldEntry])
        for header, (_, content) in zip(headers, frames, strict=True)
    ]
    assert [len(each) for each in lists] == sizes and list(chain.from_iterable(lists)) == held
    assert [header.last for header in headers] == [False] * (len(frames) - 1) + [True]
    assert {header.parent_id for header in headers} == {9}


@pytest.mark.parametrize(("routes", "kept"), [(2, 2), (3000, 0)])
def test_a_status_that_is_too_long_goes_without_its_routes(routes: int, kept: int) -> None:
    bad = message.RoutesStatus(uid="u" * 1000, resource_version="1", accepted=[], errors=[])

    def status(count: int) -> message.EdgeStatus:
        return message.EdgeStatus(held=3, queues=[], routes={f"default/r{number}": bad for number in range(count)})

    [sent] = Edge().opened().core.handle(session_events.StatusReported(status(routes)), 0.0)
    assert isinstance(sent, SendFrame)
    _, content = codec.decode_from_edge(sent.frame)
    assert len(content) < session.STATUS_BYTES_MAX
    assert msgspec.json.decode(content, type=message.EdgeStatus) == status(kept)
