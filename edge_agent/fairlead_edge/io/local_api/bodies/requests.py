"""What modules and people ask: read by these types."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from fairlead_edge.io.outbox.broker import TAKE_MESSAGES_MAX, WAIT_SECONDS_MAX
from fairlead_edge.outbox import outbox, publishing
from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS, LEASE_SECONDS_MAX, LEASE_SECONDS_MIN
from fairlead_edge.outbox.publishing import Submission

TAKE_MESSAGES_DEFAULT: Final = 10

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""Of a dead letter, as the store counts."""


def _within(low: float, high: float) -> Meta:
    """Shown, and checked by the handler, whose sentence names all limits at once."""
    return Meta(extra_json_schema={"minimum": low, "maximum": high})


class Ids(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages in a module's hands."""

    ids: list[str]


class Replay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead letters; null: all that are there when it begins."""

    numbers: list[Number] | None = None


class Discard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead letters; they are gone for good."""

    numbers: Annotated[list[Number], Meta(min_length=1, max_length=outbox.DEAD_LETTER_PAGE_MAX)]


class Take(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many messages, how long to wait for the first, and for how long they are leased (seconds)."""

    max: Annotated[int, _within(1, TAKE_MESSAGES_MAX)] = TAKE_MESSAGES_DEFAULT
    wait: Annotated[float, _within(0, WAIT_SECONDS_MAX)] = 0.0
    lease: Annotated[float, _within(LEASE_SECONDS_MIN, LEASE_SECONDS_MAX)] = LEASE_SECONDS


RECEIPT_WAIT_SECONDS_MAX: Final = 60.0


class AskReceipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait (seconds) until the message is in its topic, or in a table."""

    wait: Annotated[float, _within(0, RECEIPT_WAIT_SECONDS_MAX)] = 0.0
    until: Literal["in_topic", "in_table"] = "in_table"


class DeadLetterPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dead letters with a number above ``after``."""

    after: Number = 0
    limit: Annotated[int, _within(1, outbox.DEAD_LETTER_PAGE_MAX)] = 100


_ONE_BODY: Final = {"oneOf": [{"required": ["body"]}, {"required": ["bodyBase64"]}]}


class PublishBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages, each with exactly one of ``body`` and ``bodyBase64``; each is accepted or refused by itself."""

    messages: Annotated[
        list[Annotated[Submission, Meta(extra_json_schema=_ONE_BODY)]],
        Meta(min_length=1, max_length=publishing.REQUEST_MESSAGES_MAX),
    ]
