"""What the local API reads and answers, as types.

Requests are read by these.  Answers are made from other parts of the agent; a change of one is a change of its struct
here, for tests read real answers with them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from fairlead_edge.agent_status import Stall
from fairlead_edge.io.outbox.broker import TAKE_MESSAGES_MAX, WAIT_SECONDS_MAX
from fairlead_edge.outbox import outbox, publishing
from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS, LEASE_SECONDS_MAX, LEASE_SECONDS_MIN
from fairlead_edge.outbox.publishing import DeliveryView, Reason, Submission
from fairlead_wire import message

TAKE_MESSAGES_DEFAULT: Final = 10

# ---- requests ----------------------------------------------------------------------------------

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


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dead letters with a number above ``after``."""

    after: Number = 0
    limit: Annotated[int, _within(1, outbox.DEAD_LETTER_PAGE_MAX)] = 100


_ONE_BODY: Final = {"oneOf": [{"required": ["body"]}, {"required": ["bodyBase64"]}]}


class Publish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages, each with exactly one of ``body`` and ``bodyBase64``; each is accepted or refused by itself."""

    messages: Annotated[
        list[Annotated[Submission, Meta(extra_json_schema=_ONE_BODY)]],
        Meta(min_length=1, max_length=publishing.REQUEST_MESSAGES_MAX),
    ]


# ---- answers -----------------------------------------------------------------------------------


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of an answer, read as it is written."""


class Result(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """Of one message: its id and where it went (nowhere: no route wanted it), or why it was refused."""

    id: str = ""
    deliveries: list[DeliveryView] | None = None
    error: Reason | None = None


class Published(Answer, frozen=True, kw_only=True):
    """One result for each message, in order; 200 when at least one was accepted, and it is on disk then."""

    results: list[Result]


class NothingPublished(Answer, frozen=True, kw_only=True):
    """Not one message was accepted; without ``results`` the request as a whole was refused."""

    error: Reason
    results: list[Result] = []


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


class Taken(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """Leased messages; the most urgent first."""

    messages: list[TakenMessage] = []


class Acked(Answer, frozen=True, kw_only=True):
    """How many are done with, and ids that are not known (any more)."""

    acked: int
    unknown: list[str]


class Abandoned(Answer, frozen=True, kw_only=True):
    """How many go again, and ids that are not known (any more)."""

    abandoned: int
    unknown: list[str]


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


class LinkStatus(Answer, frozen=True, kw_only=True):
    """The link to the hub."""

    state: str
    hub: str
    fence: int
    reason: str
    since_seconds: float | None
    offline_seconds: float
    last_contact_seconds: float | None


class RenewalStatus(Answer, frozen=True, kw_only=True):
    """When the certificate is renewed: `due`, `asked`, `failing`, or `off` (others renew the files)."""

    state: str
    in_seconds: float | None
    failures: int
    code: str
    reason: str


class IdentityStatus(Answer, frozen=True, kw_only=True):
    """The node's own certificate; `authorities`: which the node believes, a digest; `clockDistrusted`: why the device's
    clock is not believed."""

    serial: str
    issuer: str
    expires: str | None
    renewal: RenewalStatus
    authorities: str
    clock_distrusted: str


class ObjectsStatus(Answer, frozen=True, kw_only=True):
    """The store of objects."""

    held: int
    damaged: int
    bytes: int
    max_bytes: int


class QueueStatus(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """One queue; ``leased`` and ``retrying`` of brokered endpoints only."""

    endpoint: str
    priority: int
    queue: str
    length: int
    bytes: int
    oldest_age_seconds: float
    accepted: int
    sent: int
    expired: int
    evicted: int
    dead_lettered: int
    damaged: int
    in_doubt: int
    stalled: Stall | None
    leased: int = 0
    retrying: int = 0


class EncryptionStatus(Answer, frozen=True, kw_only=True):
    """What of the stores is encrypted on disk (`none`, `secrets`, `all`), and the fingerprint of the key."""

    encrypt: str
    key: str


class StoreStatus(Answer, frozen=True, kw_only=True):
    """The store of messages."""

    bytes: int
    max_bytes: int
    salvaged: str
    encryption: EncryptionStatus


class ToTable(Answer, frozen=True, kw_only=True):
    """From acceptance to a table, by this node's clock: how many were measured since the start, and quantiles of the
    latest 512."""

    priority: int
    measured: int
    p50_seconds: float
    p95_seconds: float


class AgentAccount(Answer, frozen=True, kw_only=True):
    """Where the agent stands."""

    node: str
    agent: str
    store_epoch: int
    link: LinkStatus
    identity: IdentityStatus | None
    objects: ObjectsStatus
    queues: list[QueueStatus]
    dead_letters: int
    delivery: dict[str, dict[str, Any]]
    to_table: list[ToTable]
    published: dict[str, int]
    store: StoreStatus
    routes: dict[str, message.RoutesStatus]


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
