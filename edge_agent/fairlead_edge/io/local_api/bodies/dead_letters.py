"""Dead letters, as they are answered."""

from __future__ import annotations

from typing import Any

from fairlead_edge.io.local_api.bodies.answer import Answer


class SetAside(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """A message as it was published."""

    id: str
    source: str
    enqueued_at: str
    properties: dict[str, str | None]
    system_properties: dict[str, str | None]
    body: Any = None
    body_base64: str | None = None


class DeadLetter(Answer, frozen=True, kw_only=True):
    """A message that was set aside: where it was, when and why."""

    number: int
    endpoint: str
    priority: int
    stream: str
    epoch: int
    sequence: int
    topic: str
    at: Any
    code: str
    reason: str
    message: SetAside


class DeadLetters(Answer, frozen=True, kw_only=True):
    """A page; ``next`` is ``after`` of the next one, null at the end."""

    dead_letters: list[DeadLetter]
    next: int | None


class Replayed(Answer, frozen=True, kw_only=True):
    """How many went back into their queues."""

    replayed: int


class Discarded(Answer, frozen=True, kw_only=True):
    """How many were there and are gone."""

    discarded: int
