"""What the hub's core wants done next: the one way out of it (as etcd's raft hands out its ``Ready``)."""

from __future__ import annotations

import msgspec

from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.events.kube_events import KubeEvent
from fairlead_hub.status.status_cache import StatusWrite
from fairlead_wire.event import Event


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """One ``Hub.take_ready``.  Nothing in it waits for anything else in it, so the parts may be done side by side.

    That is so because of what is *not* in it yet.  An edge acknowledges what is on its disk; only then does the status
    of the object say so, in a later ``Ready``.  And EdgeRoutes are among a session's frames only after an EdgeNode that
    names their topics was written.
    """

    sessions: list[NodeSession]
    """Each has frames to send (``Hub.frames``).  They speak of nothing that ``documents`` say: status of what is sent
    now follows the edge's acknowledgement.  Ack before record, always."""
    documents: list[StatusWrite]
    """To be written into the API, each once until ``Hub.document_answered``; newer ones wait in the core and replace
    each other.  They say what edges acknowledged: written late they lag, and never lead."""
    kube_events: list[KubeEvent]
    """To be written as Events, each with its newest count.  A hint: one that cannot be written is counted and left."""
    cloud_events: list[Event]
    """To be published, in this order.  Behind them the hub may have moved on; they say what happened, not what is."""
