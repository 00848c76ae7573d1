"""Answers about messages: published, taken, acknowledged, given back."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_edge.io.local_api.bodies.answer import Answer
from fairlead_edge.outbox.publishing import DeliveryView, HeldForRoute, RefusalReason


class Result(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """Of one message: its id and where it went, or why it was refused.  Without deliveries no route took it: it is
    ``held`` until the refused route that would is mended, or no route is meant for it and it is not kept."""

    id: str = ""
    deliveries: list[DeliveryView] | None = None
    held: HeldForRoute | None = None
    error: RefusalReason | None = None


class Published(Answer, frozen=True, kw_only=True):
    """One result for each message, in order; 200 when at least one was accepted, and it is on disk then."""

    results: list[Result]


class NothingPublished(Answer, frozen=True, kw_only=True):
    """Not one message was accepted; without ``results`` the request as a whole was refused."""

    error: RefusalReason
    results: list[Result] = msgspec.field(default_factory=list)


class TakenMessage(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """A message for a module, leased to it."""

    id: str
    source: str
    enqueued_at: str
    properties: dict[str, str | None]
    system_properties: dict[str, str | None]
    body: Any = None
    body_base64: str | None = None
    priority: int
    attempt: int


class TakenMessages(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """Leased messages; the most urgent first."""

    messages: list[TakenMessage] = msgspec.field(default_factory=list)


class Acked(Answer, frozen=True, kw_only=True):
    """How many are done with, and ids that are not known (any more)."""

    acked: int
    unknown: list[str]


class Abandoned(Answer, frozen=True, kw_only=True):
    """How many go again, and ids that are not known (any more)."""

    abandoned: int
    unknown: list[str]
