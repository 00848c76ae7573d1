"""What happened to a session: the events that ``session.EdgeSession.handle`` takes."""

from __future__ import annotations

import msgspec

from fairlead_edge.objects.metastore import Outcome, StoreSummary
from fairlead_wire import message


class Connected(msgspec.Struct, frozen=True):
    """The connection stands; nothing was said yet."""


class FrameReceived(msgspec.Struct, frozen=True):
    """One binary message came."""

    frame: bytes


class Applied(msgspec.Struct, frozen=True):
    """The batch of the last ``Apply`` is durable, except what was refused; one outcome for each write."""

    outcomes: list[Outcome]


class FencePersisted(msgspec.Struct, frozen=True):
    """The fence of the last ``PersistFence`` is durable."""


class Summarised(msgspec.Struct, frozen=True):
    """The sums asked for by the last ``Summarise``."""

    summary: StoreSummary


class EntriesListed(msgspec.Struct, frozen=True):
    """The entries asked for by the last ``ListEntries``."""

    entries: list[message.HeldEntry]


class Ticked(msgspec.Struct, frozen=True):
    """Time passed; due at ``EdgeSession.next_tick``."""


class StatusReported(msgspec.Struct, frozen=True):
    """This is the agent's status now."""

    status: message.EdgeStatus


Event = Connected | FrameReceived | Applied | FencePersisted | Summarised | EntriesListed | Ticked | StatusReported
