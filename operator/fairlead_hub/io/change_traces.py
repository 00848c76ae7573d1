"""Traces a change in the cluster on its way down: each part is a span below "observe".

    observe (reported by the watch) ─┬─ deliver (to one node: sent … acknowledged) ── apply (the node's own span)
                                     └─ record (acknowledged … written)

Only if spans are recorded and ``[traces] ratio`` selects the change.  All tables are bounded, and dropped entries cost
only spans: delivery never depends on this module.
"""

from __future__ import annotations

import time
from collections import OrderedDict

import msgspec

from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.session_ref import Frame, SessionRef
from fairlead_hub.status.status_cache import Name
from fairlead_wire import message
from fairlead_wire.io.spans import Hop, Spans
from fairlead_wire.traces import span_names
from fairlead_wire.traces.trace import Trace

CHANGES_MAX = 1024
DELIVERIES_MAX = 4096
RECORDS_MAX = 4096


class _Delivery(msgspec.Struct, frozen=True):
    uid: str
    hop: Hop


class ChangeTraces:
    """See the module."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._changes: OrderedDict[str, tuple[str, Trace]] = OrderedDict()
        """The traced version by UID."""
        self._deliveries: dict[SessionRef, dict[int, _Delivery]] = {}
        self._under_way = 0
        self._unrecorded: OrderedDict[tuple[str, str], tuple[Trace, int]] = OrderedDict()
        """By node and UID: when a change that is not written yet was acknowledged, by the clock of spans."""

    def observed(self, live: LiveObject, before: LiveObject | None) -> None:
        """The watch reported an object; the same content again is not a change."""
        if before is not None and before.uid == live.uid and before.digest == live.digest:
            return
        named = {span_names.RESOURCE: live.path}
        hop = self._spans.begin(span_names.OBSERVE, None, kind="internal", attributes=named)
        if hop is None:
            self._changes.pop(live.uid, None)
            return
        hop.end()
        self._changes[live.uid] = (live.version, hop.trace)
        self._changes.move_to_end(live.uid)
        if len(self._changes) > CHANGES_MAX:
            self._changes.popitem(last=False)

    def leaving(self, session: SessionRef, frame: Frame) -> Frame:
        """The frame as it is sent: an update of a traced change names its span."""
        header, content = frame
        if not isinstance(header, message.Update) or self._under_way >= DELIVERIES_MAX:
            return frame
        version, origin = self._changes.get(header.uid, ("", None))
        if origin is None or version != header.resource_version:
            return frame
        named = {span_names.NODE: session.node, span_names.RESOURCE: header.resource}
        hop = self._spans.hop(span_names.DELIVER, [origin], kind="client", attributes=named)
        if hop is None:
            return frame
        self._deliveries.setdefault(session, {})[header.id] = _Delivery(header.uid, hop)
        self._under_way += 1
        return msgspec.structs.replace(header, traceparent=str(hop.trace)), content

    def answered(self, session: SessionRef, header: message.FromEdge) -> None:
        """A node's answer to a frame."""
        waiting = self._deliveries.get(session)
        if not waiting or not isinstance(header, message.Ack | message.Nack):
            return
        if isinstance(header, message.Nack):
            if header.parent_id in waiting:
                self._end(session, header.parent_id, header.code)
            return
        upto = header.parent_id
        for id in [id for id in waiting if id == upto or (header.cumulative and id < upto)]:
            delivery = self._end(session, id, "")
            self._unrecorded[session.node, delivery.uid] = (delivery.hop.trace, time.time_ns())
            if len(self._unrecorded) > RECORDS_MAX:
                self._unrecorded.popitem(last=False)

    def closed(self, session: SessionRef) -> None:
        for id in list(self._deliveries.get(session, ())):
            self._end(session, id, "session_ended")

    def recorded(self, name: Name) -> None:
        """A document was written; those of objects are named ``<node>.<uid>``."""
        node, _, uid = name[2].rpartition(".")
        found = self._unrecorded.pop((node, uid), None)
        if found is None:
            return
        origin, since_ns = found
        named = {span_names.NODE: node}
        hop = self._spans.hop(span_names.RECORD, [origin], kind="client", start_ns=since_ns, attributes=named)
        if hop is not None:
            hop.end()

    def _end(self, session: SessionRef, id: int, failure: str) -> _Delivery:
        waiting = self._deliveries[session]
        delivery = waiting.pop(id)
        self._under_way -= 1
        if not waiting:
            del self._deliveries[session]
        delivery.hop.end(failure)
        return delivery
