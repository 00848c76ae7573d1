"""What the hub's core wants done next: the only way out of it (like the ``Ready`` of etcd's raft)."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_hub.events.kube_events import KubeEvent
from fairlead_hub.session_ref import Frame, SessionRef
from fairlead_hub.status.status_cache import StatusWrite
from fairlead_wire import message
from fairlead_wire.event import Event

SILENT: Final = "silent"
"""Reason for cutting a connection whose node is silent; other reasons are defects of ours."""


class SessionOutput(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What goes out in one session now."""

    session: SessionRef
    frames: list[Frame]
    """Frames in sending order.  They never mention what ``Ready.documents`` say: the status of what is sent now
    follows the edge's acknowledgement.  Ack before record, always."""
    closing: message.Refuse | None = None
    """The last of ``frames``, if it is a refusal: the connection is closed after it."""
    cut: str = ""
    """Why the connection is aborted immediately, without another frame; empty if it is not."""


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one ``Hub.take_ready``, complete: the core is not called while it is carried out.

    No part waits for another, so the parts may be carried out in parallel.  That holds because of what is *not* in it
    yet.  An edge acknowledges what is on its disk; only then does the status of the object say so, in a later
    ``Ready``.  And EdgeRoutes are among a session's frames only after an EdgeNode that names their topics was written.
    """

    sessions: list[SessionOutput]
    """One entry for each session that has something to send and whose connection has room."""
    documents: list[StatusWrite]
    """Documents to write to the API, each once until ``hub.documents.answered``; newer ones wait in the core and
    replace each other.  They say what edges acknowledged: written late they lag, but never lead."""
    kube_events: list[KubeEvent]
    """Events to write, each with its newest count.  Hints: one that cannot be written is counted and dropped."""
    cloud_events: list[Event]
    """Events to publish, in this order.  The hub may have moved on; they say what happened, not what is."""
    next_turn: float | None
    """When there is something to take although nothing changes: now, if a session has more frames than one turn
    allows; later, if a session is due or waits for the overall rate limit."""
