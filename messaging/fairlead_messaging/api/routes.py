"""Every route of the messaging service: its method, path, request, answer, and possible refusals.

client:  route.at(names) + encode(request) ──▶ response    decoded by ``route.response``
server:  ROUTES ──▶ one handler each, which decodes ``route.request`` and answers ``route.response``
openapi: ROUTES ──▶ the document at /openapi.json
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from fairlead_messaging.api import error_codes, headers, requests, responses
from fairlead_messaging.api.requests import (
    ArrowPollRequest,
    AvroPollQuery,
    AvroPublishQuery,
    CommitRequest,
    InspectQuery,
    MessageToPublish,
    NoteReaderRequest,
    OffsetsQuery,
    PlanRequest,
    PollRequest,
    Producer,
    PublishRequest,
    RollbackDetail,
    StartRequest,
    SubscriptionRequest,
    TransactionsQuery,
)
from fairlead_messaging.api.responses import (
    Finished,
    Health,
    Inspected,
    Message,
    Offset,
    OpenTransaction,
    Plan,
    PublishedByProducer,
    Range,
    Reader,
    Renewed,
    Started,
    Subscription,
    Topic,
)
from fairlead_messaging.api.verbs import ANY, Verb

R = TypeVar("R")

NAMESPACE = "/v1/namespaces/{namespace}"
TOPIC = NAMESPACE + "/topics/{topic}"
SUBSCRIPTION = TOPIC + "/subscriptions/{subscription}"
TRANSACTION = "/v1/transactions/{pointer}"

AVRO_AND_JSON = (headers.JSON, headers.AVRO)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ApiRoute(Generic[R]):
    """One call.  ``response`` is the type of the JSON in a 200; None: no content, or bytes of ``media``."""

    operation: str
    method: str
    path: str
    summary: str
    response: type[R] | None
    request: Any = None
    other_response: Any = None
    """The type of its other answer, for requests that ask for that."""
    query: type[requests.Request] | None = None
    media: tuple[str, ...] = (headers.JSON,)
    """Content types of the request, and of an answer to it."""
    headers: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    """Codes of its refusals besides ``error_codes.EVERYWHERE`` and ``WITH_A_BODY``."""
    example: Any = None
    answers: Any = None
    """An example of the answer."""
    verbs: tuple[Verb, ...] = ()
    """Verbs of which one must be granted on the topic of the path, or on any topic if the path names none."""
    needs_all: bool = False
    """Whether all of ``verbs`` are needed."""
    is_open: bool = False
    """Whether callers need not be identified."""

    def at(self, *names: str | int) -> str:
        """The path with its parameters, quoted so that no name can change the path."""
        path = self.path
        for name in names:
            before, _, rest = path.partition("{")
            path = before + quote(str(name), safe="") + rest.partition("}")[2]
        return path

    @property
    def request_is_required(self) -> bool:
        """Whether a call without a body is refused."""
        return (
            isinstance(self.request, type)
            and bool(getattr(self.request, "__struct_fields__", ()))
            and any(field.required for field in msgspec.structs.fields(self.request))
        )

    @property
    def specific_codes(self) -> tuple[str, ...]:
        """Codes of refusals besides ``error_codes.EVERYWHERE``."""
        return (*self.codes, *(error_codes.WITH_A_BODY if self.request is not None else ()))


_TOPIC = (error_codes.TOPIC_NOT_FOUND,)
_CHANGES = ("bad_name", "bad_ttl", "bad_properties")
_WRITE = (*_TOPIC, "bad_content_type", "bad_query", "bad_ttl", "bad_producer", "too_many_messages",
          error_codes.NOT_IN_PROGRESS, error_codes.TRANSACTIONS_UNAVAILABLE, "transaction_refused",
          "quota_bytes_per_second", "quota_stored_bytes")  # fmt: skip
_READ = (*_TOPIC, "bad_content_type", "bad_message_id", "bad_limit", "bad_wait", "too_many_pages",
         "too_many_long_polls", error_codes.TRANSACTIONS_UNAVAILABLE)  # fmt: skip
_BULK = (*_READ, error_codes.EXPIRED, error_codes.GENERATION_CHANGED)
_ID = "0000019aa1b2c3d400000000000000000000000000"[:40]
_POINTER = 1_763_800_000_000_000_000

CREATE_TOPIC: ApiRoute[None] = ApiRoute(
    verbs=(Verb.ADMINISTER, Verb.CREATE),
    operation="createTopic", method="PUT", path=TOPIC, response=None, request=requests.Properties,
    summary="Create a topic; body: its properties, or nothing.",
    codes=(*_CHANGES, error_codes.TOPIC_EXISTS, "quota_topics"),
    example={"ttl": 604800, "transactional": "allowed", "delivery": {"minimum_delay": 5, "maximum_delay": 300}},
)  # fmt: skip
TOPIC_PROPERTIES: ApiRoute[Topic] = ApiRoute(
    verbs=ANY,
    operation="getTopic", method="GET", path=TOPIC, response=Topic, codes=_TOPIC,
    summary="The properties of a topic as text, including ttl and generation; its delivery policy as it was given.",
    answers=Topic(
        name="orders",
        properties={"delivery": {"minimum_delay": 5, "maximum_delay": 300}, "ttl": "604800", "generation": "1"},
    ),
)  # fmt: skip
DELETE_TOPIC: ApiRoute[None] = ApiRoute(
    verbs=(Verb.ADMINISTER,),
    operation="deleteTopic", method="DELETE", path=TOPIC, response=None, codes=_TOPIC,
    summary="Delete a topic: its messages are unreachable at once; a new topic of this name has the next generation.",
)  # fmt: skip
UPDATE_TOPIC: ApiRoute[None] = ApiRoute(
    verbs=(Verb.ADMINISTER,),
    operation="updateTopic", method="PUT", path=TOPIC + "/properties", response=None, request=requests.Properties,
    summary="Replace all properties; those that are absent return to their defaults.",
    codes=(*_TOPIC, *_CHANGES), example={"ttl": 3600},
)  # fmt: skip
NAMESPACES: ApiRoute[list[str]] = ApiRoute(
    verbs=ANY,
    operation="listNamespaces", method="GET", path="/v1/namespaces", response=list[str],
    summary="The namespaces that have topics, sorted.", answers=["default", "system"],
)  # fmt: skip
TOPICS: ApiRoute[list[str]] = ApiRoute(
    verbs=ANY,
    operation="listTopics", method="GET", path=NAMESPACE + "/topics", response=list[str],
    summary="The names of a namespace's topics, sorted.", answers=["orders"], codes=("bad_name",),
)  # fmt: skip

PUBLISH: ApiRoute[PublishedByProducer] = ApiRoute(
    verbs=(Verb.PUBLISH,),
    operation="publish", method="POST", path=TOPIC + "/publish", request=PublishRequest,
    response=PublishedByProducer, other_response=RollbackDetail,
    query=AvroPublishQuery, media=AVRO_AND_JSON,
    summary="Publish messages; durable when answered. The answer is empty, or has sequences (with a producer), or is"
            " the body for a rollback (in a transaction).",
    codes=(*_WRITE, "no_messages", "transaction_required", "producer_in_transaction", "too_scattered",
           error_codes.FENCED, error_codes.STORED_ALREADY),
    example=PublishRequest(
        messages=[b"21.5", MessageToPublish(payload=b"21.7", ttl=3600)],
        producer=Producer(id="meter-7", epoch=1, sequence=40),
    ),
    headers=(headers.SERVICE, headers.GENERATION, headers.FIRST_POSITION, headers.NEWEST_POSITION),
    answers=PublishedByProducer(producer=responses.Published(stored=(40, 41), known=())),
)  # fmt: skip
STORE: ApiRoute[None] = ApiRoute(
    verbs=(Verb.PUBLISH,),
    operation="store", method="POST", path=TOPIC + "/store", request=PublishRequest, response=None,
    query=AvroPublishQuery, media=AVRO_AND_JSON, codes=(*_WRITE, "bad_store"),
    summary="Store payloads under a transaction, for a later publish without messages.",
    example=PublishRequest(transactionWritePointer=_POINTER, messages=[b"21.5"]),
)  # fmt: skip
ROLLBACK: ApiRoute[None] = ApiRoute(
    verbs=(Verb.PUBLISH,),
    operation="rollback", method="POST", path=TOPIC + "/rollback", request=RollbackDetail, response=None,
    media=AVRO_AND_JSON,
    codes=(*_TOPIC, "bad_content_type", "bad_rollback", error_codes.NOT_IN_PROGRESS, "rolling_back",
           error_codes.TRANSACTIONS_UNAVAILABLE),
    summary="Hide the messages of one publish in a transaction.",
    example=RollbackDetail(
        transactionWritePointer=_POINTER, startTimestamp=1_763_800_000_001, startSequenceId=0,
        endTimestamp=1_763_800_000_001, endSequenceId=4,
    ),
)  # fmt: skip
POLL: ApiRoute[tuple[Message, ...]] = ApiRoute(
    verbs=(Verb.CONSUME,),
    operation="poll", method="POST", path=TOPIC + "/poll", request=PollRequest, response=tuple[Message, ...],
    query=AvroPollQuery, media=AVRO_AND_JSON, headers=(headers.NEXT_POSITION,),
    codes=(*_BULK, "bad_query", "bad_start", "bad_transaction"),
    summary="One page of messages, oldest first. With Accept: application/vnd.apache.arrow.stream an Arrow page.",
    example=PollRequest(limit=100, isolation="read_committed", wait_ms=10_000),
    answers=[Message(_ID, b"21.5")],
)  # fmt: skip
ARROW_POLL: ApiRoute[None] = ApiRoute(
    verbs=(Verb.CONSUME,),
    operation="pollArrow", method="POST", path=TOPIC + "/poll", request=ArrowPollRequest, response=None,
    media=(headers.JSON, headers.ARROW),
    headers=(headers.NEXT_POSITION, headers.GENERATION, headers.STABLE_POSITION, headers.OLDEST_POSITION,
             headers.SERVICE, headers.HIDDEN_MESSAGES, headers.EXPIRED_MESSAGES),
    codes=_BULK, summary="One page of rows id, ts and payload as an Arrow stream.",
    example=ArrowPollRequest(after="", limit_bytes=8_388_608),
)  # fmt: skip
"""The same path as ``POLL``: the Accept header selects one, so the OpenAPI document describes both as one call."""
INSPECT: ApiRoute[list[Inspected]] = ApiRoute(
    verbs=(Verb.CONSUME,),
    operation="inspect", method="GET", path=TOPIC + "/inspect", query=InspectQuery, response=list[Inspected],
    codes=(*_TOPIC, "bad_message_id", "bad_limit", error_codes.TRANSACTIONS_UNAVAILABLE),
    summary="Rows with their state; consumes nothing.",
    answers=[Inspected(id=_ID, state="visible", payload=b"21.5", published_ms=1_763_800_000_000, ttl_seconds=604800)],
)  # fmt: skip

PLAN: ApiRoute[Plan] = ApiRoute(
    verbs=(Verb.CONSUME,),
    operation="plan", method="POST", path=TOPIC + "/plan", request=PlanRequest, response=Plan,
    codes=(*_BULK, "bad_splits"), summary="What to read next, split into ranges.",
    example=PlanRequest(after="", limit_rows=1_000_000, splits=4, wait_ms=5000),
    answers=Plan(
        service="7f0c", generation=1, oldest="", stable=_ID, upto=_ID, rows=1, bytes=4, passed=1,
        ranges=[Range(after="", upto=_ID, rows=1, bytes=4)],
    ),
)  # fmt: skip
OFFSETS: ApiRoute[Offset] = ApiRoute(
    verbs=ANY,
    operation="offsets", method="GET", path=TOPIC + "/offsets", query=OffsetsQuery, response=Offset,
    codes=(*_TOPIC, "bad_ts", error_codes.TRANSACTIONS_UNAVAILABLE),
    summary="The exclusive start that yields messages of a time and later.",
    answers=Offset(service="7f0c", generation=1, position="", stable=_ID, oldest="", passed=0),
)  # fmt: skip
NOTE_READER: ApiRoute[None] = ApiRoute(
    verbs=(Verb.CONSUME,),
    operation="noteReader", method="PUT", path=TOPIC + "/readers/{reader}", request=NoteReaderRequest, response=None,
    codes=(*_TOPIC, "bad_content_type", "bad_name", "bad_message_id", error_codes.GENERATION_CHANGED),
    summary="Record how far a reader has durably read, so that the service can report its lag.",
    example=NoteReaderRequest(position=_ID, generation=1),
)  # fmt: skip
READERS: ApiRoute[list[Reader]] = ApiRoute(
    verbs=ANY,
    operation="listReaders", method="GET", path=TOPIC + "/readers", response=list[Reader], codes=_TOPIC,
    headers=(headers.SERVICE, headers.GENERATION),
    summary="The named readers of a topic and their lag.",
    answers=[Reader(name="ingest", position=_ID, updated_ms=1_763_800_000_000, lag_messages=0, lag_seconds=0.0)],
)  # fmt: skip

START: ApiRoute[Started] = ApiRoute(
    verbs=(Verb.PUBLISH,),
    operation="startTransaction", method="POST", path="/v1/transactions", request=StartRequest, response=Started,
    codes=("bad_content_type", "bad_timeout", "too_many_transactions", error_codes.TRANSACTIONS_UNAVAILABLE),
    summary="Begin a transaction.",
    example=StartRequest(timeout=30.0), answers=Started(_POINTER, b"\x00", 1_763_800_030_000),
)  # fmt: skip
LIST_TRANSACTIONS: ApiRoute[list[OpenTransaction]] = ApiRoute(
    verbs=ANY,
    operation="listTransactions", method="GET", path="/v1/transactions", response=list[OpenTransaction],
    query=TransactionsQuery, codes=("bad_query", "bad_limit", "bad_pointer", error_codes.TRANSACTIONS_UNAVAILABLE),
    summary="Open transactions and the topics whose readers they hold up, oldest first; or finished ones and how they"
            " ended, newest first.",
    answers=[
        OpenTransaction(
            transactionWritePointer=_POINTER, state="in_progress", started=1_763_800_000_000,
            expires=1_763_800_030_000, timeout=30.0, renewable=1_763_886_400_000,
            topics=(responses.HeldTopic(topic="default/orders", since=1_763_800_000_500, until=1_763_800_600_500),),
        )
    ],
)  # fmt: skip
RENEW: ApiRoute[Renewed] = ApiRoute(
    verbs=(Verb.PUBLISH,),
    operation="renewTransaction", method="POST", path=TRANSACTION + "/renew", request=StartRequest, response=Renewed,
    codes=("bad_content_type", "bad_pointer", "bad_timeout", error_codes.NOT_IN_PROGRESS),
    summary="Renew a transaction: it times out the given seconds from now, by default its own timeout.",
    example=StartRequest(timeout=60.0), answers=Renewed(_POINTER, 1_763_800_090_000, 1_763_886_400_000),
)  # fmt: skip
COMMIT: ApiRoute[Finished] = ApiRoute(
    verbs=(Verb.PUBLISH,),
    operation="commit", method="POST", path=TRANSACTION + "/commit", request=CommitRequest, response=Finished,
    codes=("bad_content_type", "bad_pointer", "bad_changes", error_codes.NOT_IN_PROGRESS,
           error_codes.TRANSACTION_CONFLICT, error_codes.STORED_UNPUBLISHED, error_codes.TRANSACTIONS_UNAVAILABLE,
           "rolling_back"),
    summary="Make everything published in a transaction visible.", example=CommitRequest(changes=["table/7"]),
    answers=Finished(_POINTER, "committed"),
)  # fmt: skip
_END = ("bad_pointer", error_codes.NOT_IN_PROGRESS, error_codes.TRANSACTIONS_UNAVAILABLE)
ABORT: ApiRoute[Finished] = ApiRoute(
    verbs=(Verb.PUBLISH, Verb.ADMINISTER),
    operation="abort", method="POST", path=TRANSACTION + "/abort", response=Finished, codes=_END,
    summary="Hide everything published in a transaction.", answers=Finished(_POINTER, "aborted"),
)  # fmt: skip
INVALIDATE: ApiRoute[Finished] = ApiRoute(
    verbs=(Verb.ADMINISTER, Verb.PUBLISH),
    operation="invalidate", method="POST", path=TRANSACTION + "/invalidate", response=Finished, codes=_END,
    summary="For operators: end a transaction that holds up readers.", answers=Finished(_POINTER, "invalid"),
)  # fmt: skip

_SUBSCRIPTION = (*_TOPIC, error_codes.SUBSCRIPTION_NOT_FOUND)
PUT_SUBSCRIPTION: ApiRoute[None] = ApiRoute(
    verbs=(Verb.ADMINISTER, Verb.CONSUME), needs_all=True,
    operation="putSubscription", method="PUT", path=SUBSCRIPTION, request=SubscriptionRequest, response=None,
    codes=(*_TOPIC, "bad_name", "bad_subscription", "too_many_subscriptions", error_codes.TRANSACTIONS_UNAVAILABLE),
    summary="Push messages committed from now on to a URL; an existing subscription changes and keeps its position.",
    example=SubscriptionRequest(
        url="https://orders.example/hook", delivery={"retries_with_no_delay": 1},
        dead_letter_topic="default/undelivered",
    ),
)  # fmt: skip
GET_SUBSCRIPTION: ApiRoute[Subscription] = ApiRoute(
    verbs=(Verb.ADMINISTER,),
    operation="getSubscription", method="GET", path=SUBSCRIPTION, response=Subscription, codes=_SUBSCRIPTION,
    summary="A subscription and its progress.",
    answers=Subscription(name="hook", url="https://orders.example/hook", position=_ID, delivered=1),
)  # fmt: skip
DELETE_SUBSCRIPTION: ApiRoute[None] = ApiRoute(
    verbs=(Verb.ADMINISTER, Verb.CONSUME), needs_all=True,
    operation="deleteSubscription", method="DELETE", path=SUBSCRIPTION, response=None, codes=_SUBSCRIPTION,
    summary="Delete a subscription; nothing more is pushed.",
)  # fmt: skip
SUBSCRIPTIONS: ApiRoute[list[Subscription]] = ApiRoute(
    verbs=(Verb.ADMINISTER,),
    operation="listSubscriptions", method="GET", path=TOPIC + "/subscriptions", response=list[Subscription],
    codes=_TOPIC, summary="All subscriptions of a topic, ordered by name.",
    answers=[Subscription(name="hook", url="https://orders.example/hook")],
)  # fmt: skip

BACKUP: ApiRoute[None] = ApiRoute(
    verbs=(Verb.ADMINISTER, Verb.CONSUME), needs_all=True,
    operation="backup", method="GET", path="/v1/backup", response=None, media=(headers.BACKUP,),
    codes=("too_many_backups",),
    summary="A backup of everything that the service stores at this moment. Both verbs must be granted on every"
            " topic.",
)  # fmt: skip
OPENAPI: ApiRoute[Any] = ApiRoute(
    operation="openapi", method="GET", path="/openapi.json", response=dict[str, Any], is_open=True,
    summary="This document.",
)  # fmt: skip

ROUTES: tuple[ApiRoute[Any], ...] = (
    CREATE_TOPIC, TOPIC_PROPERTIES, DELETE_TOPIC, UPDATE_TOPIC, NAMESPACES, TOPICS,
    PUBLISH, STORE, ROLLBACK, POLL, INSPECT,
    PLAN, OFFSETS, NOTE_READER, READERS,
    START, LIST_TRANSACTIONS, RENEW, COMMIT, ABORT, INVALIDATE,
    PUT_SUBSCRIPTION, GET_SUBSCRIPTION, DELETE_SUBSCRIPTION, SUBSCRIPTIONS,
    BACKUP, OPENAPI,
)  # fmt: skip

HEALTHZ: ApiRoute[Health] = ApiRoute(
    operation="healthz", method="GET", path="/healthz", response=Health, is_open=True,
    summary="Whether the process is alive.", answers=Health(status="ok"),
)  # fmt: skip
READYZ: ApiRoute[Health] = ApiRoute(
    operation="readyz", method="GET", path="/readyz", response=Health, is_open=True,
    summary="Whether the store can be written; otherwise 503 with the reason. If only transactions are unavailable,"
            " the service is ready and says so.",
    answers=Health(status="ready", service="7f0c"),
)  # fmt: skip
METRICS: ApiRoute[None] = ApiRoute(
    operation="metrics", method="GET", path="/metrics", response=None, media=("text/plain",),
    summary="Counts and durations as Prometheus text.",
)  # fmt: skip
HEALTH_ROUTES: tuple[ApiRoute[Any], ...] = (HEALTHZ, READYZ, METRICS)
"""Served at ``health_listen``."""
