"""What the local API reads and answers, as types.

Requests are read by these.  Answers are made from other parts of the agent; a change of one is a change of its struct
here, for tests read real answers with them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from fairlead_edge.io.outbox.broker import TAKE_MESSAGES_MAX, WAIT_SECONDS_MAX
from fairlead_edge.outbox import outbox, publishing
from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS, LEASE_SECONDS_MAX, LEASE_SECONDS_MIN
from fairlead_edge.outbox.publishing import DeliveryView, HeldForRoute, RefusalReason, Submission


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of an answer, read as it is written."""


# ---- dead letters ---------------------------------------------------------------------------------


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


# ---- the Kubernetes-style API, beside objects -----------------------------------------------------


class Status(Answer, frozen=True, kw_only=True):
    """Why the Kubernetes-style API refuses, as its clients read it."""

    kind: str
    api_version: str
    status: str
    message: str
    reason: str
    code: int


class Selection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """As `kubectl get` and `kubectl get --watch` ask."""

    watch: bool = False
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_: str = msgspec.field(name="continue", default="")
    resource_version: str = ""


class StatusOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """As clients of Kubernetes send a patch."""

    field_manager: str = ""
    force: bool = False
    dry_run: str = ""


# ---- messages: published, taken, acknowledged, given back -----------------------------------------


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


# ---- receipts: where a message is -----------------------------------------------------------------


class ReceiptAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """When this node had it on disk; null of a message that is known from the dead letters alone."""

    at: str | None
    age_seconds: float | None


class ReceiptTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Where it stands in its topic: at `position`, or at it or before where `exact` is false; null: it is not said.
    `service` and `generation`: of which topic; `at`: when the node had the hub's answer."""

    topic: str
    position: str | None
    exact: bool
    generation: int | None
    service: str | None
    at: str


class ReceiptTable(msgspec.Struct, frozen=True, kw_only=True):
    """How far a table has read its topic: up to `position`, in `batch` and `version` or before. `in_table`: beyond the
    message. `row` true: it has a row; null: a row, or it was set aside (dead letter, filter). `as_of`: when the hub
    said so."""

    in_table: bool
    reader: str
    table: str
    position: str
    batch: int | None
    version: int | None
    row: bool | None
    as_of: str


class ReceiptLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Its dead letter on this node."""

    number: int
    at: str
    code: str
    reason: str


ReceiptState = Literal["accepted", "in_topic", "in_table", "expired", "evicted", "dead_lettered"]


class ReceiptDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way it goes. While it waits: how many are `ahead` of it (counted to 100,000), whether it is `in_flight`, and
    when it expires."""

    endpoint: str
    priority: int
    topic: str | None
    state: ReceiptState
    ahead: int = 0
    in_flight: bool = False
    expires_in_seconds: float | None = None
    at: str = ""
    in_topic: ReceiptTopic | None = None
    in_table: ReceiptTable | None = None
    tables: list[ReceiptTable] = []
    note: str = ""
    dead_letter: ReceiptLetter | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message is: `state` is that of the way up that is least far. `as_of`: when the hub last said how far
    tables are; `online`: it can be asked now."""

    id: str
    state: ReceiptState
    accepted: ReceiptAccepted
    in_topic: ReceiptTopic | None
    in_table: ReceiptTable | None
    as_of: str | None
    online: bool
    deliveries: list[ReceiptDelivery]


# ---- requests -------------------------------------------------------------------------------------

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


# ---- status that programs report of objects -------------------------------------------------------


class ReportedStatus(Answer, frozen=True, kw_only=True):
    """How far it got: ``state`` is waiting, written (the cluster has it) or refused, then with code and reason."""

    group: str
    plural: str
    namespace: str
    name: str
    uid: str
    state: str
    age_seconds: float
    code: str
    reason: str


class ReportedStatuses(Answer, frozen=True, kw_only=True):
    """What changed longest ago first."""

    statuses: list[ReportedStatus]
