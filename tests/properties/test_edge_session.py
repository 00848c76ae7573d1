"""Laws of the edge's session under any order of messages, parts, refusals and questions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_edge.objects import session, session_events
from fairlead_edge.objects.metastore import Outcome, Put, Remove, StoreSummary, Unchanged, WriteRefused
from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

PATH = "api/v1/namespaces/shop/configmaps/n-{}"
PARTS = 3
NAMES = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), NAMES),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("parts"), NAMES),
        st.tuples(st.just("part"), st.integers(0, 10)),
        st.tuples(st.just("compare"), st.integers(0, 12)),
        st.tuples(st.just("list"), st.integers(0, 3)),
        st.tuples(st.just("store"), st.integers(0, 255)),
        st.tuples(st.just("tick"), st.just(0)),
    ),
    max_size=60,
)


class World:
    """Feeds a session, plays the store, and records what the laws need.

    An update carries its message's id as resource version, a deletion as UID, so that every write names its message.
    """

    def __init__(self) -> None:
        self.core = session.EdgeSession(node="edge-1", agent="1", store_epoch=1, fence=0, now=0.0)
        self.next_id = 1
        self.waiting: session_events.Effect | None = None
        self.asked: set[int] = set()
        self.unfinished: dict[int, int] = {}
        """Parts already sent, by id."""
        self.durable: dict[str, list[int]] = {}
        """Message ids by object, in the order they became durable."""
        self.refused: set[int] = set()
        self.acked: set[int] = set()
        self.nacked: set[int] = set()
        self.questions = 0
        self.answers = 0
        self.do(session_events.Connected())
        self.store(0)
        self.hear(
            message.Welcome(
                hub="h", fence=1, session=1, keepalive_seconds=1e9, frame_bytes_max=1 << 22, upstream_window=1
            )
        )
        self.store(0)

    # ---- the session's side

    def do(self, event: session_events.Event) -> None:
        for effect in self.core.handle(event, 0.0):
            match effect:
                case session_events.SendFrame():
                    self.said(codec.decode_from_edge(effect.frame)[0])
                case session_events.SessionOpened() | session_events.Answered():
                    pass
                case session_events.Close():
                    raise AssertionError(f"closed: {effect.reason}")
                case _:
                    assert self.waiting is None, "a second piece of work was asked for before the first was done"
                    self.waiting = effect

    def said(self, header: message.FromEdge) -> None:
        match header:
            case message.Ack():
                covered = {header.parent_id}
                if header.cumulative:
                    covered = {id for id in self.asked if id <= header.parent_id} - self.nacked
                durable = {id for ids in self.durable.values() for id in ids}
                assert covered <= durable, f"acked {covered - durable}, not durable"
                assert header.parent_id not in self.acked
                self.acked |= covered
            case message.Nack():
                assert header.parent_id not in self.acked | self.nacked
                self.nacked.add(header.parent_id)
            case message.BucketSums():
                self.answers += 1
            case message.Entries():
                self.answers += header.last
            case _:
                pass

    def store(self, refuse: int) -> None:
        """Finish the requested writes; bit n of ``refuse`` refuses every eighth write from the n-th."""
        work, self.waiting = self.waiting, None
        match work:
            case session_events.Apply():
                outcomes = [
                    self.write(write, refuse=bool(refuse >> (number % 8) & 1))
                    for number, write in enumerate(work.writes)
                ]
                self.do(session_events.Applied(outcomes))
            case session_events.PersistFence():
                self.do(session_events.FencePersisted())
            case session_events.Summarise():
                self.do(session_events.Summarised(StoreSummary(held=0, buckets=digest.Buckets(work.bits or 0))))
            case session_events.ListEntries():
                self.do(session_events.EntriesListed([]))
            case _:
                assert work is None

    def write(self, write: Put | Remove, *, refuse: bool) -> Outcome:
        id = int(write.resource_version if isinstance(write, Put) else write.uid)
        if refuse:
            self.refused.add(id)
            return WriteRefused(code="store_full", reason="full", permanent=False)
        ids = self.durable.setdefault(write.resource.path, [])
        assert not ids or ids[-1] < id, "an older message came to the store after a newer one"
        ids.append(id)
        return Unchanged()

    # ---- the hub's side

    def hear(self, header: message.FromHub, content: bytes = b"") -> None:
        self.do(session_events.FrameReceived(codec.encode(header, content)))

    def take_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def update(self, name: int, *, chunks: int = 0) -> None:
        id = self.take_id()
        self.asked.add(id)
        if chunks:
            self.unfinished[id] = 0
        self.hear(
            message.Update(
                id=id,
                resource=PATH.format(name),
                uid="u",
                resource_version=str(id),
                digest="d",
                chunks=chunks,
            ),
            b"" if chunks else b"{}",
        )

    def part(self, which: int) -> None:
        """The next part of one of the unfinished updates."""
        if not self.unfinished:
            return
        id = sorted(self.unfinished)[which % len(self.unfinished)]
        index = self.unfinished[id]
        self.unfinished[id] += 1
        if self.unfinished[id] == PARTS:
            del self.unfinished[id]
        self.hear(message.Chunk(id=id, index=index), b"x")

    def step(self, kind: str, number: int) -> None:
        match kind:
            case "update":
                self.update(number)
            case "parts":
                self.update(number, chunks=PARTS)
            case "part":
                self.part(number)
            case "delete":
                id = self.take_id()
                self.asked.add(id)
                self.hear(message.Delete(id=id, resource=PATH.format(number), uid=str(id)))
            case "compare":
                self.questions += 1
                self.hear(message.Compare(id=self.take_id(), bits=number))
            case "list":
                self.questions += 1
                self.hear(message.ListBuckets(id=self.take_id(), bits=2, buckets=[number]))
            case "store":
                self.store(number)
            case _:
                self.do(session_events.Ticked())


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(steps=STEPS)
def test_every_message_is_answered_once_and_truly(steps: list[tuple[str, int]]) -> None:
    """Acked means durable, refused means nacked, nothing is answered twice, nothing older follows something newer."""
    world = World()
    for kind, number in steps:
        world.step(kind, number)
    while world.unfinished:
        world.part(0)
    while world.waiting is not None:
        world.store(0)
    assert world.acked | world.nacked == world.asked and not world.acked & world.nacked
    assert world.refused <= world.nacked
    assert world.acked == {id for ids in world.durable.values() for id in ids}
    assert world.answers == world.questions


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(frames=st.lists(st.binary(max_size=200), max_size=5), welcomed=st.booleans())
def test_no_bytes_raise(frames: list[bytes], welcomed: bool) -> None:
    """Whatever arrives, the session continues or ends with a reason, never with an exception."""
    core = World().core if welcomed else session.EdgeSession(node="edge-1", agent="1", store_epoch=1, fence=0, now=0.0)
    closed = False
    for frame in frames:
        wanted = core.handle(session_events.FrameReceived(frame), 0.0)
        assert not closed or wanted == []
        closed = closed or any(isinstance(effect, session_events.Close) and effect.reason for effect in wanted)
    assert closed or not frames
