"""The events that ``EdgeSession.handle`` takes, and the effects that it returns, to be carried out in order."""

from __future__ import annotations

import msgspec

from fairlead_edge.objects.metastore import Outcome, Put, Remove, StoreSummary
from fairlead_wire import message

# ---- events: what happened ----------------------------------------------------------------------


class Connected(msgspec.Struct, frozen=True):
    """The connection is established; no frame was sent yet."""


class FrameReceived(msgspec.Struct, frozen=True):
    """A frame was received."""

    frame: bytes


class Applied(msgspec.Struct, frozen=True):
    """The batch of the last ``Apply`` is durable, except refused writes; one outcome for each write."""

    outcomes: list[Outcome]


class FencePersisted(msgspec.Struct, frozen=True):
    """The fence of the last ``PersistFence`` is durable."""


class Summarised(msgspec.Struct, frozen=True):
    """The result of the last ``Summarise``."""

    summary: StoreSummary


class EntriesListed(msgspec.Struct, frozen=True):
    """The result of the last ``ListEntries``."""

    entries: list[message.HeldEntry]


class Ticked(msgspec.Struct, frozen=True):
    """Time has passed; due at ``EdgeSession.next_tick``."""


class StatusReported(msgspec.Struct, frozen=True):
    """The agent's status has changed."""

    status: message.EdgeStatus


Event = Connected | FrameReceived | Applied | FencePersisted | Summarised | EntriesListed | Ticked | StatusReported

# ---- effects: what to do ------------------------------------------------------------------------


class SendFrame(msgspec.Struct, frozen=True):
    """Write this frame to the connection."""

    frame: bytes


class Apply(msgspec.Struct, frozen=True):
    """Write these in one batch; answer ``Applied``."""

    writes: list[Put | Remove]
    traceparents: tuple[str, ...] = ()
    """Trace contexts of the traced changes."""


class PersistFence(msgspec.Struct, frozen=True):
    """Store this fence; answer ``FencePersisted``."""

    fence: int


class Summarise(msgspec.Struct, frozen=True):
    """Summarise the store (bits None: chosen by the number of objects); answer ``Summarised``."""

    bits: int | None


class ListEntries(msgspec.Struct, frozen=True):
    """Read the entries of these buckets; answer ``EntriesListed``."""

    bits: int
    buckets: frozenset[int]


class SessionOpened(msgspec.Struct, frozen=True):
    """The session is open and the hub's fence is durable: upstream batches may be sent."""

    welcome: message.Welcome


class Answered(msgspec.Struct, frozen=True):
    """The hub answered the request ``answer.parent_id`` (``EdgeSession.ask``).

    ``content``: of ``Tables`` a JSON array of ``message.TopicTables``, of ``Issued`` an ``IssuedCertificates``.
    """

    answer: message.Ack | message.Nack | message.Tables | message.Issued
    content: bytes = b""


class AuthoritiesReceived(msgspec.Struct, frozen=True):
    """The hub sent the authorities to trust (content: PEM), or asks to renew sooner."""

    authorities: message.Authorities
    content: bytes


class InputReceived(msgspec.Struct, frozen=True):
    """Store this message for a module (content: see ``message.Input``), then call ``EdgeSession.answer_input``."""

    header: message.Input
    content: bytes


class InputStatesRequested(msgspec.Struct, frozen=True):
    """Read the states of these messages, then call ``EdgeSession.report_inputs``."""

    header: message.AskInputs


class StatusRulesReceived(msgspec.Struct, frozen=True):
    """The hub sent the rules for reported statuses (content: JSON array of ``message.StatusRule``)."""

    rules: message.StatusRules
    content: bytes


class Close(msgspec.Struct, frozen=True):
    """Close the connection, and connect again after ``retry_after`` seconds (0: at the usual pace).

    ``retry_after`` None: do not connect again, because the hub refused permanently.
    """

    code: str
    reason: str
    retry_after: float | None = 0.0
    fence: int | None = None
    """The fencing number of a hub that holds the Lease, but is refused because its number is lower."""
    approved: bool = False
    """A person approved giving up the higher number."""


Effect = (
    SendFrame
    | Apply
    | PersistFence
    | Summarise
    | ListEntries
    | SessionOpened
    | Answered
    | AuthoritiesReceived
    | InputReceived
    | InputStatesRequested
    | StatusRulesReceived
    | Close
)
