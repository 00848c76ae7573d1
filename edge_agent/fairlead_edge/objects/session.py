"""One session with the hub, as a state machine: events and the time in, effects out.

    Connected ──▶ Summarise ──Summarised──▶ SendFrame(hello) … welcome ──▶ PersistFence, SessionOpened
    FrameReceived(update, delete) ──▶ Apply ──Applied──▶ SendFrame(ack | nack)      one batch at a time, in order
    FrameReceived(compare, list)  ──▶ Summarise | ListEntries ──▶ SendFrame(buckets | entries)

Nothing is acknowledged before ``Applied`` reports that it is durable.  Work is done strictly in order, so the answer to
``compare`` includes every change sent before it.  While one batch is being written, the next one is collected: a slow
disk leads to larger commits, not to a longer queue.

The caller carries out effects in order, and reports ``Applied``, ``FencePersisted``, ``Summarised`` or
``EntriesListed`` for each effect that asks for it; at most one of these is outstanding.  An ``EdgeSession`` lives as
long as its connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

import msgspec

from fairlead_edge.objects.apply_queue import AckTracker, ApplyQueue, Chunks, Query, QueuedChange
from fairlead_edge.objects.metastore import Outcome, Put, Remove, StoreSummary, WriteRefused
from fairlead_edge.objects.session_events import (
    Answered,
    Applied,
    Apply,
    AuthoritiesReceived,
    Close,
    Connected,
    Effect,
    EntriesListed,
    Event,
    FencePersisted,
    FrameReceived,
    InputReceived,
    InputStatesRequested,
    ListEntries,
    PersistFence,
    SendFrame,
    SessionOpened,
    StatusReported,
    StatusRulesReceived,
    Summarise,
    Summarised,
    Ticked,
)
from fairlead_wire import message
from fairlead_wire.errors import FrameTooLarge, LocalError, Malformed, RemoteError
from fairlead_wire.link import codec
from fairlead_wire.link.session import Role, Session, SessionState, Timer
from fairlead_wire.objects import resource
from fairlead_wire.objects.digest import BITS_MAX

ENTRIES_PER_FRAME: Final = 2000
STATUS_BYTES_MAX: Final = 2 * 1024 * 1024
"""A longer status is sent without its routes, because thousands of refused routes must not end the session."""
STALE_HUB_RETRY_SECONDS: Final = 1.0

Request = message.Upstream | message.Report | message.AskTables | message.Renew


class EdgeSession:
    """The edge's end of one connection, without I/O.

    ``fence``: the highest fencing number obeyed; ``status_rules``: digest of the stored rules for statuses.
    """

    def __init__(
        self, *, node: str, agent: str, store_epoch: int, fence: int, now: float, status_rules: str = ""
    ) -> None:
        self._node = node
        self._agent = agent
        self._store_epoch = store_epoch
        self._fence = fence
        self._status_rules = status_rules
        self.session = Session(Role.EDGE, now=now)
        self._queue = ApplyQueue()
        self._busy: list[QueuedChange] | Query | None = None
        self._acks = AckTracker()
        self._chunks = Chunks()
        self._status: message.EdgeStatus | None = None
        self._sent_status: message.EdgeStatus | None = None
        self._inputs: list[Effect] | None = []
        """Effects of inputs that arrived before the hub's fence was durable; None afterwards."""

    @property
    def is_open(self) -> bool:
        return self.session.state is SessionState.OPEN

    @property
    def has_room(self) -> bool:
        """False: nothing more should be read from the connection until some work is done."""
        return self._queue.has_room

    @property
    def last_received(self) -> float:
        """When the last frame of the hub arrived, by the clock of ``now``."""
        return self.session.last_received

    def close(self) -> None:
        """The connection is gone; further events have no effects."""
        self.session.close()

    def next_tick(self) -> float:
        """When ``Ticked`` is due, by the clock of ``now``."""
        return self.session.next_tick()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle one event; returns its effects.  After a ``Close``, further events have none."""
        if self.session.state is SessionState.CLOSED:
            return []
        try:
            return self._handle(event, now)
        except RemoteError as error:
            self.session.close()
            return [Close(code="protocol", reason=str(error))]

    def ask(self, request: Request, now: float, content: bytes = b"") -> tuple[int, SendFrame]:
        """Send a request with the next id; ``Answered`` with that id follows, unless the session ends.

        Some requests may be sent only to a hub whose welcome announces them.  Raises ``LocalError`` unless the session
        is open.
        """
        if not self.is_open:
            raise LocalError("no session is open")
        id = self.session.take_id()
        return id, self._send(msgspec.structs.replace(request, id=id), now, content)

    def answer_input(self, answer: message.Ack | message.Nack, now: float) -> list[Effect]:
        """A message for a module is durable or was refused; no effects if the session has ended."""
        return [self._send(answer, now)] if self.is_open else []

    def report_inputs(self, parent_id: int, states: bytes, now: float) -> list[Effect]:
        """Send the states that the hub requested (JSON array of ``message.InputReached``)."""
        return [self._send(message.InputStates(parent_id=parent_id), now, states)] if self.is_open else []

    def _handle(self, event: Event, now: float) -> list[Effect]:
        match event:
            case Connected():
                return self._enqueue(Query(None))
            case FrameReceived():
                header, content = codec.decode_from_hub(event.frame)
                self.session.received(header, now)
                return self._receive(header, content, now)
            case Applied():
                return [*self._answer_writes(event.outcomes, now), *self._next()]
            case FencePersisted():
                return [*self._open(now), *self._next()]
            case Summarised():
                return [self._answer_summary(event.summary, now), *self._next()]
            case EntriesListed():
                return [*self._answer_entries(event.entries, now), *self._next()]
            case Ticked():
                return self._tick(now)
            case StatusReported():
                self._status = event.status
                return self._report(now)
            case _:
                assert_never(event)

    # ---- frames of the hub -----------------------------------------------------------------------

    def _receive(self, header: message.FromHub, content: bytes, now: float) -> list[Effect]:
        match header:
            case message.Welcome():
                return self._welcome(header)
            case message.Refuse():
                return [Close(header.code, header.reason, header.retry_after, header.fence, header.approved)]
            case message.Update():
                return self._update(header, content, now)
            case message.Chunk():
                return self._chunk(header, content, now)
            case message.Delete():
                write = Remove(resource=resource.parse(header.resource), uid=header.uid)
                self._acks.opened(header.id)
                return [*self._supersede(header.resource, now), *self._enqueue(QueuedChange(header.id, write))]
            case message.Compare():
                _require_bits(header.bits)
                return self._enqueue(Query(header))
            case message.ListBuckets():
                _require_bits(header.bits)
                if any(not 0 <= bucket < 1 << header.bits for bucket in header.buckets):
                    raise Malformed(f"a bucket is outside of 0 to {(1 << header.bits) - 1}")
                return self._enqueue(Query(header))
            case message.Ack() | message.Nack():
                return [Answered(header)]
            case message.Tables() | message.Issued():
                return [Answered(header, content)]
            case message.StatusRules():
                return [StatusRulesReceived(header, content)]
            case message.Authorities():
                return [AuthoritiesReceived(header, content)]
            case message.Input():
                return self._input(InputReceived(header, content))
            case message.AskInputs():
                return self._input(InputStatesRequested(header))
            case message.Keepalive():
                return []
            case _:
                assert_never(header)

    def _input(self, effect: InputReceived | InputStatesRequested) -> list[Effect]:
        if self._inputs is None:
            return [effect]
        if len(self._inputs) > 2 * message.INPUT_WINDOW:
            raise Malformed(f"more than {2 * message.INPUT_WINDOW} messages for modules before the session is open")
        self._inputs.append(effect)
        return []

    def _welcome(self, welcome: message.Welcome) -> list[Effect]:
        if welcome.protocol != message.PROTOCOL:
            raise Malformed(f"the hub speaks protocol {welcome.protocol}, this edge {message.PROTOCOL}")
        if welcome.fence < self._fence:
            # This hub has lost its Lease without knowing it: its objects may be older than the stored ones.
            self.session.close()
            reason = f"hub {welcome.hub} has fence {welcome.fence}, {self._fence} was obeyed before"
            return [Close(code="stale_hub", reason=reason, retry_after=STALE_HUB_RETRY_SECONDS)]
        return self._enqueue(Query(welcome))

    def _update(self, header: message.Update, content: bytes, now: float) -> list[Effect]:
        at = resource.parse(header.resource)
        self._acks.opened(header.id)
        effects = self._supersede(header.resource, now)
        if not header.chunks:
            return [*effects, *self._take(header, at, content, now)]
        if refused := self._chunks.begin(header):
            effects.append(self._nack(header.id, refused, now))
        return effects

    def _chunk(self, header: message.Chunk, content: bytes, now: float) -> list[Effect]:
        arrived = self._chunks.add(header, content)
        if arrived is None:
            return []  # the update was refused or superseded while its last parts were on their way
        if isinstance(arrived, WriteRefused):
            return [self._nack(header.id, arrived, now)]
        if arrived.content is None:
            return [self._send(message.Progress(parent_id=header.id, chunks=arrived.chunks), now)]
        update = arrived.update
        return self._take(update, resource.parse(update.resource), arrived.content, now)

    def _take(self, header: message.Update, at: resource.Resource, content: bytes, now: float) -> list[Effect]:
        try:
            plain = codec.unpack(header.encoding, content)
        except RemoteError as error:
            # The hub parks an object that cannot be unpacked; session and other objects are not affected.
            code = "too_large" if isinstance(error, FrameTooLarge) else "malformed_content"
            refused = WriteRefused(code=code, reason=str(error), permanent=True)
            return [self._nack(header.id, refused, now)]
        put = Put(
            resource=at,
            uid=header.uid,
            digest=header.digest,
            resource_version=header.resource_version,
            content=plain,
        )
        return self._enqueue(QueuedChange(header.id, put, header.traceparent))

    def _supersede(self, path: str, now: float) -> list[Effect]:
        """Drop the parts of an older update, because a newer message for the object has arrived.

        The older one is refused explicitly, because a cumulative ack of later ones would declare it durable.
        """
        refused = WriteRefused(code="superseded", reason="a newer message for this object came first", permanent=False)
        return [self._nack(id, refused, now) for id in self._chunks.drop(path)]

    # ---- work, one piece at a time ---------------------------------------------------------------

    def _enqueue(self, work: QueuedChange | Query) -> list[Effect]:
        self._queue.add(work)
        return self._next()

    def _next(self) -> list[Effect]:
        if self._busy is not None or (work := self._queue.take()) is None:
            return []
        self._busy = work
        match work:
            case Query():
                return [self._effect_of(work)]
            case _:
                traceparents = tuple(item.traceparent for item in work if item.traceparent is not None)
                return [Apply([item.write for item in work], traceparents)]

    def _effect_of(self, query: Query) -> Effect:
        match query.header:
            case None:
                return Summarise(None)
            case message.Welcome():
                return PersistFence(query.header.fence)
            case message.Compare():
                return Summarise(query.header.bits)
            case message.ListBuckets():
                return ListEntries(query.header.bits, frozenset(query.header.buckets))
            case _:
                assert_never(query.header)

    def _done(self) -> Query:
        query, self._busy = self._busy, None
        assert isinstance(query, Query)
        return query

    # ---- answers ---------------------------------------------------------------------------------

    def _answer_writes(self, outcomes: list[Outcome], now: float) -> list[Effect]:
        batch, self._busy = self._busy, None
        assert isinstance(batch, list) and len(batch) == len(outcomes)
        answers = self._acks.settled((item.id, outcome) for item, outcome in zip(batch, outcomes, strict=True))
        return [self._send(answer, now) for answer in answers]

    def _nack(self, id: int, refused: WriteRefused, now: float) -> SendFrame:
        return self._send(self._acks.refused(id, refused), now)

    def _answer_summary(self, summary: StoreSummary, now: float) -> SendFrame:
        query = self._done()
        buckets = summary.buckets
        if query.header is None:
            hello = message.Hello(
                node=self._node,
                agent=self._agent,
                store_epoch=self._store_epoch,
                fence=self._fence,
                bits=buckets.bits,
                held=summary.held,
                root=buckets.root,
                inputs=True,
                status_rules=self._status_rules,
            )
            return self._send(hello, now)
        assert isinstance(query.header, message.Compare)
        answer = message.BucketSums(parent_id=query.header.id, bits=buckets.bits)
        return self._send(answer, now, buckets.encode())

    def _answer_entries(self, held: list[message.HeldEntry], now: float) -> list[Effect]:
        query = self._done()
        assert isinstance(query.header, message.ListBuckets)
        return [self._send(header, now, content) for header, content in _entry_frames(query.header.id, held)]

    def _open(self, now: float) -> list[Effect]:
        query = self._done()
        assert isinstance(query.header, message.Welcome)
        self._fence = query.header.fence
        inputs, self._inputs = self._inputs or [], None
        return [SessionOpened(query.header), *self._report(now), *inputs]

    def _report(self, now: float) -> list[Effect]:
        if not self.is_open or self._status is None or self._status == self._sent_status:
            return []
        self._sent_status = self._status
        return [self._send(message.Status(), now, _encode_status(self._sent_status))]

    def _tick(self, now: float) -> list[Effect]:
        match self.session.tick(now):
            case Timer.SEND_KEEPALIVE:
                return [self._send(message.Keepalive(), now)]
            case Timer.PEER_SILENT:
                silence = now - self.session.last_received
                self.session.close()
                return [Close(code="silent", reason=f"the hub was silent for {silence:.1f} s")]
            case None:
                return []

    def _send(self, header: message.FromEdge, now: float, content: bytes = b"") -> SendFrame:
        self.session.sent(header, now)
        return SendFrame(codec.encode(header, content))


def _require_bits(bits: int) -> None:
    if not 0 <= bits <= BITS_MAX:
        raise Malformed(f"bits must be 0 to {BITS_MAX}, not {bits}")


def _entry_frames(parent_id: int, entries: list[message.HeldEntry]) -> Iterator[tuple[message.Entries, bytes]]:
    """The answer to a list of buckets; a single empty frame if there are no entries."""
    for start in range(0, max(1, len(entries)), ENTRIES_PER_FRAME):
        last = start + ENTRIES_PER_FRAME >= len(entries)
        encoding, content = codec.pack(msgspec.json.encode(entries[start : start + ENTRIES_PER_FRAME]))
        yield message.Entries(parent_id=parent_id, last=last, encoding=encoding), content


def _encode_status(status: message.EdgeStatus) -> bytes:
    content = msgspec.json.encode(status)
    if len(content) > STATUS_BYTES_MAX:
        content = msgspec.json.encode(msgspec.structs.replace(status, routes={}))
    return content
