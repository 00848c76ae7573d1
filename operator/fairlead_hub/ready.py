"""What the hub's core wants done next: the one way out of it (as etcd's raft hands out its ``Ready``)."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_hub.events.kube_events import KubeEvent
from fairlead_hub.session_ref import Frame, SessionRef
from fairlead_hub.status.status_cache import StatusWrite
from fairlead_wire import message
from fairlead_wire.event import Event

SILENT: Final = "silent"
"""Why a connection is cut whose node says nothing any more; other reasons are faults of ours."""


class SessionOutput(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What goes out in one session now."""

    session: SessionRef
    frames: list[Frame]
    """To be sent in this order.  They speak of nothing that ``Ready.documents`` say: status of what is sent now follows
    the edge's acknowledgement.  Ack before record, always."""
    closing: message.Refuse | None = None
    """The last of ``frames``, where it is a refusal: the connection is closed after it."""
    cut: str = ""
    """Why the connection is ended at once, without another frame; empty: it is not."""


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """One ``Hub.take_ready``, complete: nobody calls the core while carrying it out.

    Nothing in it waits for anything else in it, so the parts may be done side by side.  That is so because of what is
    *not* in it yet.  An edge acknowledges what is on its disk; only then does the status of the object say so, in a
    later ``Ready``.  And EdgeRoutes are among a session's frames only after an EdgeNode that names their topics was
    written.
    """

    sessions: list[SessionOutput]
    """One for each session that has something to send and whose connection has room."""
    documents: list[StatusWrite]
    """To be written into the API, each once until ``hub.documents.answered``; newer ones wait in the core and replace
    each other.  They say what edges acknowledged: written late they lag, and never lead."""
    kube_events: list[KubeEvent]
    """To be written as Events, each with its newest count.  A hint: one that cannot be written is counted and left."""
    cloud_events: list[Event]
    """To be published, in this order.  Behind them the hub may have moved on; they say what happened, not what is."""
    next_turn: float | None
    """When there is something to take although nothing changes: now, where a session has more frames than one turn
    allows; later, where a session is due or waits for the overall rate limit."""
