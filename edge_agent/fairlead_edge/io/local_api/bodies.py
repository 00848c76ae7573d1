"""The types of the local API's requests and responses.

Requests are decoded with these types.  Responses are built elsewhere; tests decode real ones with these types, so a
changed response needs a change here.
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
    """The base of response types."""


# ---- dead letters ---------------------------------------------------------------------------------


class SetAside(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """The message of a dead letter, as it was published."""

    id: str
    source: str
    enqueued_at: str
    properties: dict[str, str | None]
    system_properties: dict[str, str | None]
    body: Any = None
    body_base64: str | None = None


class DeadLetter(Answer, frozen=True, kw_only=True):
    """A message that could not be delivered: its queue, when it became a dead letter, and why."""

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
    """A page of dead letters; `next` is `after` of the next page, null on the last."""

    dead_letters: list[DeadLetter]
    next: int | None


class Replayed(Answer, frozen=True, kw_only=True):
    """How many dead letters went back into their queues."""

    replayed: int


class Discarded(Answer, frozen=True, kw_only=True):
    """How many dead letters were deleted."""

    discarded: int


# ---- the Kubernetes-style API, beside objects -----------------------------------------------------


class Status(Answer, frozen=True, kw_only=True):
    """An error of the Kubernetes-style API."""

    kind: str
    api_version: str
    status: str
    message: str
    reason: str
    code: int


class Selection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Query parameters of lists and watches."""

    watch: bool = False
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_: str = msgspec.field(name="continue", default="")
    resource_version: str = ""


class StatusOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Query parameters of a patch."""

    field_manager: str = ""
    force: bool = False
    dry_run: str = ""


# ---- messages: published, taken, acknowledged, abandoned ------------------------------------------


class Result(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """The result for one message: its id and deliveries, or why it was refused.  Without deliveries no route matched:
    the message is `held` until a refused route is repaired, or it is not kept."""

    id: str = ""
    deliveries: list[DeliveryView] | None = None
    held: HeldForRoute | None = None
    error: RefusalReason | None = None


class Published(Answer, frozen=True, kw_only=True):
    """One result for each message, in order; 200 means that at least one was accepted and is on disk."""

    results: list[Result]


class NothingPublished(Answer, frozen=True, kw_only=True):
    """No message was accepted; without `results` the request as a whole was refused."""

    error: RefusalReason
    results: list[Result] = msgspec.field(default_factory=list)


class TakenMessage(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """A message leased to a module."""

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
    """Leased messages, the most urgent first."""

    messages: list[TakenMessage] = msgspec.field(default_factory=list)


class Acked(Answer, frozen=True, kw_only=True):
    """How many messages were acknowledged, and the ids that are unknown or no longer leased."""

    acked: int
    unknown: list[str]


class Abandoned(Answer, frozen=True, kw_only=True):
    """How many messages will be delivered again, and the ids that are unknown or no longer leased."""

    abandoned: int
    unknown: list[str]


# ---- receipts: where a message is -----------------------------------------------------------------


class ReceiptAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """When the message was on this node's disk; null if it is known only from its dead letter."""

    at: str | None
    age_seconds: float | None


class ReceiptTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The message's position in its topic: `position`, or at most that if `exact` is false; null if unknown.
    `service` and `generation` identify the topic; `at`: when the hub's answer arrived."""

    topic: str
    position: str | None
    exact: bool
    generation: int | None
    service: str | None
    at: str


class ReceiptTable(msgspec.Struct, frozen=True, kw_only=True):
    """How far a table has read the topic: up to `position`, in `batch` and `version` or before. `in_table`: it has read
    the message. `row` true: the message has a row; null: a row, or it was filtered or became a dead letter. `as_of`:
    when the hub reported this."""

    in_table: bool
    reader: str
    table: str
    position: str
    batch: int | None
    version: int | None
    row: bool | None
    as_of: str


class ReceiptLetter(msgspec.Struct, frozen=True, kw_only=True):
    """The message's dead letter on this node."""

    number: int
    at: str
    code: str
    reason: str


ReceiptState = Literal["accepted", "in_topic", "in_table", "expired", "evicted", "dead_lettered"]


class ReceiptDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One delivery of the message. While it waits: how many are `ahead` of it (counted up to 100,000), whether it is
    `in_flight`, and when it expires."""

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
    """Where a message is: `state` is that of the least advanced upstream delivery. `as_of`: when the hub last reported
    how far tables have read; `online`: whether the hub can be asked now."""

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
"""The number of a dead letter."""


def _within(low: float, high: float) -> Meta:
    """Limits for the API description only; the handler checks them, because its error names all limits at once."""
    return Meta(extra_json_schema={"minimum": low, "maximum": high})


class Ids(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ids of messages leased to a module."""

    ids: list[str]


class Replay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead letters to replay; null: all that exist when the call begins."""

    numbers: list[Number] | None = None


class Discard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead letters to delete."""

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
    """Dead letters with a number above `after`."""

    after: Number = 0
    limit: Annotated[int, _within(1, outbox.DEAD_LETTER_PAGE_MAX)] = 100


_ONE_BODY: Final = {"oneOf": [{"required": ["body"]}, {"required": ["bodyBase64"]}]}


class PublishBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages, each with exactly one of `body` and `bodyBase64`; each is accepted or refused individually."""

    messages: Annotated[
        list[Annotated[Submission, Meta(extra_json_schema=_ONE_BODY)]],
        Meta(min_length=1, max_length=publishing.REQUEST_MESSAGES_MAX),
    ]


# ---- statuses that programs report of objects -----------------------------------------------------


class ReportedStatus(Answer, frozen=True, kw_only=True):
    """A reported status: `state` is waiting, written (the cluster has it), or refused (with code and reason)."""

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
    """Reported statuses, the least recently changed first."""

    statuses: list[ReportedStatus]
