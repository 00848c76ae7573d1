"""What a session wants done, in this order: the effects that ``session.EdgeSession.handle`` returns."""

from __future__ import annotations

import msgspec

from fairlead_edge.objects.metastore import Put, Remove
from fairlead_wire import message


class SendFrame(msgspec.Struct, frozen=True):
    """Write this frame to the connection."""

    frame: bytes


class Apply(msgspec.Struct, frozen=True):
    """Write these in one batch; answer ``Applied``."""

    writes: list[Put | Remove]
    traceparents: tuple[str, ...] = ()
    """Of those whose change is traced."""


class PersistFence(msgspec.Struct, frozen=True):
    """Remember this fence; answer ``FencePersisted``."""

    fence: int


class Summarise(msgspec.Struct, frozen=True):
    """Sum what is held (bits None: what suits its number); answer ``Summarised``."""

    bits: int | None


class ListEntries(msgspec.Struct, frozen=True):
    """Read the entries of these buckets; answer ``EntriesListed``."""

    bits: int
    buckets: frozenset[int]


class SessionOpened(msgspec.Struct, frozen=True):
    """The session is open and the hub's fence is durable: upstream batches may be sent."""

    welcome: message.Welcome


class UpstreamAnswered(msgspec.Struct, frozen=True):
    """The hub answered the upstream batch ``answer.parent_id``."""

    answer: message.Ack | message.Nack


class TablesTold(msgspec.Struct, frozen=True):
    """The hub answered the question ``answer.parent_id`` (content: JSON array of ``message.TopicTables``)."""

    answer: message.Tables
    content: bytes


class Certified(msgspec.Struct, frozen=True):
    """The hub answered the request for a certificate ``issued.parent_id``."""

    issued: message.Issued
    content: bytes


class AuthoritiesReceived(msgspec.Struct, frozen=True):
    """The hub said which authorities to believe (content: PEM), or to renew sooner."""

    authorities: message.Authorities
    content: bytes


class InputCame(msgspec.Struct, frozen=True):
    """Store this message for a module (content: as ``message.Input`` says); ``EdgeSession.answer_input`` when done."""

    header: message.Input
    content: bytes


class InputsAsked(msgspec.Struct, frozen=True):
    """Report the state of these; call ``EdgeSession.report_inputs`` when it is known."""

    header: message.AskInputs


class RulesTold(msgspec.Struct, frozen=True):
    """The hub said of which objects it takes status from here (content: JSON array of ``message.StatusRule``)."""

    rules: message.StatusRules
    content: bytes


class Close(msgspec.Struct, frozen=True):
    """End the connection, for this reason.  Come back after ``retry_after`` seconds (0: by your own pace).

    None: do not come back, the hub said so.
    """

    code: str
    reason: str
    retry_after: float | None = 0.0
    fence: int | None = None
    """Of a hub that holds the Lease and is refused for its lower fencing number."""
    approved: bool = False
    """A person wants the higher one to be given up."""


Effect = (
    SendFrame
    | Apply
    | PersistFence
    | Summarise
    | ListEntries
    | SessionOpened
    | UpstreamAnswered
    | TablesTold
    | Certified
    | AuthoritiesReceived
    | InputCame
    | InputsAsked
    | RulesTold
    | Close
)
