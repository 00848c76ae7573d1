"""Every request a client can make of the messaging service.

    publish(…) ─→ ClientRequest ─(a client sends it)→ Response ─read→ Placed, or an error of ``errors``

Paths, bodies and answers are those of ``api``.  Each function has the arguments and the docstring of the method of the
same name on both clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from fairlead_messaging.api import error_codes, headers, routes
from fairlead_messaging.api.requests import (
    LIST_LIMIT_DEFAULT,
    ArrowPollRequest,
    CommitRequest,
    InspectQuery,
    MessageToPublish,
    NoteReaderRequest,
    OffsetsQuery,
    PlanRequest,
    PollRequest,
    Producer,
    PublishRequest,
    StartRequest,
    SubscriptionRequest,
    TableNote,
    TransactionsQuery,
    TransactionState,
)
from fairlead_messaging.api.responses import (
    How,
    Inspected,
    Offset,
    OpenTransaction,
    Page,
    Placed,
    Plan,
    PublishedByProducer,
    Reader,
    Renewed,
    Started,
    Subscription,
)
from fairlead_messaging.api.routes import ApiRoute
from fairlead_messaging.client.errors import Denied, TopicExists, TopicMissing, TransactionOver
from fairlead_messaging.client.payloads import checked_payloads
from fairlead_messaging.client.request import (
    ArrowPage,
    ClientRequest,
    Response,
    build,
    build_empty,
    build_json,
    missing_is_done,
    read_arrow_page,
)
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import RemoteError

# --- Topics.


def create_topic(
    namespace: str,
    name: str,
    properties: Mapping[str, str | int] | None = None,
    *,
    delivery: DeliveryPolicy | None = None,
) -> ClientRequest[bool]:
    """True when this call created it, False when it existed (its properties stay as they are).

    ``delivery``: the policy of its subscriptions that define none.
    After a lost answer and a repeat it may be False although this call created the topic.
    """

    def exists(refused: Denied, in_doubt: bool) -> bool:
        if isinstance(refused, TopicExists):
            return False
        raise refused

    body = _properties(properties or {}, delivery)
    return build(routes.CREATE_TOPIC, namespace, name, body=body, decode=lambda _: True, on_refusal=exists)


def _properties(properties: Mapping[str, str | int], delivery: DeliveryPolicy | None) -> dict[str, Any]:
    return dict(properties) if delivery is None else {**properties, "delivery": _given(delivery)}


def topic(namespace: str, name: str) -> ClientRequest[dict[str, Any]]:
    """The topic's properties as text, ``ttl`` and ``generation`` always among them; ``delivery`` as it was given."""
    route = routes.TOPIC_PROPERTIES
    return build(route, namespace, name, decode=lambda response: response.json(route.response).properties)


def namespaces() -> ClientRequest[list[str]]:
    """The namespaces that have topics, sorted."""
    return build_json(routes.NAMESPACES)


def topics(namespace: str) -> ClientRequest[list[str]]:
    """The names of the topics in a namespace, sorted."""
    return build_json(routes.TOPICS, namespace)


def update_topic(
    namespace: str, name: str, properties: Mapping[str, str | int], *, delivery: DeliveryPolicy | None = None
) -> ClientRequest[None]:
    """Replace all properties; those not given return to their defaults.  Subscriptions follow the new ones at once."""
    return build_empty(routes.UPDATE_TOPIC, namespace, name, body=_properties(properties, delivery))


def delete_topic(namespace: str, name: str) -> ClientRequest[None]:
    """Its messages are unreachable at once; a new topic of the same name has the next generation."""
    return build_empty(routes.DELETE_TOPIC, namespace, name, on_refusal=missing_is_done(TopicMissing))


# --- Messages.


def publish(
    namespace: str,
    name: str,
    payloads: Sequence[bytes],
    *,
    producer: Producer | None = None,
    ttl_seconds: int | None = None,
    traceparent: str | None = None,
) -> ClientRequest[Placed]:
    """Durable when it returns.  A publish with a producer is safe to repeat; one without is never repeated.

    ``traceparent``: the W3C trace context of the call, which a service that records spans continues.

    The result has numbers and positions of the messages only with a producer; without one it is empty.

    Raises ``TopicMissing``, ``Fenced``, ``TooLarge`` (the service takes 16 MiB of JSON in one request); ``TypeError``
    for a payload that is not bytes or a producer that is no ``Producer``, before anything is sent.
    """
    if not isinstance(producer, Producer | None):
        raise TypeError(f"producer must be Producer(id=…, epoch=…, sequence=…), is {type(producer).__name__}")
    if producer is not None and producer.sequences is not None:
        producer = msgspec.structs.replace(producer, sequences=list(producer.sequences))
    checked = checked_payloads(payloads)
    messages: list[bytes | MessageToPublish] = [*checked]
    if ttl_seconds is not None:
        messages = [MessageToPublish(payload=payload, ttl=ttl_seconds) for payload in checked]

    def published(response: Response) -> Placed:
        if producer is None:
            return Placed()
        found = response.json(PublishedByProducer).producer
        return Placed(
            stored=found.stored,
            known=found.known,
            service=response.header(headers.SERVICE) or "",
            generation=response.generation,
            first=response.header(headers.FIRST_POSITION) or "",
            newest=response.header(headers.NEWEST_POSITION) or "",
        )

    body = PublishRequest(messages=messages, producer=producer)
    repeatable = producer is not None
    more: dict[str, Any] = {"repeatable": repeatable, "traceparent": traceparent}
    return build(routes.PUBLISH, namespace, name, body=body, decode=published, **more)


def poll(
    namespace: str,
    name: str,
    *,
    start_from: str | int | None = None,
    inclusive: bool = True,
    limit: int | None = None,
    wait_ms: int = 0,
    read_committed: bool = False,
    transaction: bytes | None = None,
) -> ClientRequest[Page]:
    """One page.  ``start_from``: an id (hex), a time in milliseconds, or None for the oldest message.

    ``wait_ms``: how long to wait for the first message.  ``read_committed`` stops at the first message of an open
    transaction; ``transaction``: the snapshot of a started transaction, to read what it may see.
    """
    body = PollRequest(
        startFrom=start_from,
        inclusive=inclusive,
        limit=limit,
        wait_ms=wait_ms,
        transaction=transaction,
        isolation="read_committed" if read_committed else "none",
    )

    def page(response: Response) -> Page:
        position = response.header(headers.NEXT_POSITION)
        if position is None:
            raise RemoteError("the answer to a poll has no next position: this is not the messaging service")
        return Page(messages=response.json(routes.POLL.response), next_position=position)

    return build(routes.POLL, namespace, name, body=body, decode=page, wait_seconds=wait_ms / 1000)


def inspect(namespace: str, name: str, *, after: str = "", limit: int = 100) -> ClientRequest[list[Inspected]]:
    """Rows with their state, without consuming anything; ``after`` is an id (hex)."""
    return build_json(routes.INSPECT, namespace, name, query=InspectQuery(after=after, limit=limit))


# --- Bulk reading, and named readers.


def plan(
    namespace: str,
    name: str,
    *,
    after: str,
    upto: str | None = None,
    limit_rows: int | None = None,
    limit_bytes: int | None = None,
    splits: int = 1,
    wait_ms: int = 0,
    generation: int | None = None,
) -> ClientRequest[Plan]:
    """Split the topic after ``after`` into ranges to read; waits up to ``wait_ms`` while there is nothing to read.

    Raises ``Expired``, ``GenerationChanged``, ``TopicMissing``.
    """
    body = PlanRequest(
        after=after,
        upto=upto,
        limit_rows=limit_rows,
        limit_bytes=limit_bytes,
        splits=splits,
        wait_ms=wait_ms,
        generation=generation,
    )
    return build_json(routes.PLAN, namespace, name, body=body, wait_seconds=wait_ms / 1000)


def offsets(namespace: str, name: str, at: str | int) -> ClientRequest[Offset]:
    """The position of ``at`` (``earliest``, ``latest`` or milliseconds since 1970) in the topic."""
    return build_json(routes.OFFSETS, namespace, name, query=OffsetsQuery(ts=str(at)))


def note_reader(
    namespace: str,
    name: str,
    reader: str,
    *,
    position: str,
    generation: int | None = None,
    table: TableNote | None = None,
) -> ClientRequest[None]:
    """Record how far ``reader`` has durably read, so that the service can report its lag; it has no other effect.

    ``table``: for a reader that fills a table.
    """
    body = NoteReaderRequest(position=position, generation=generation, table=table)
    return build_empty(routes.NOTE_READER, namespace, name, reader, body=body)


def readers(namespace: str, name: str) -> ClientRequest[list[Reader]]:
    """The named readers of the topic and their lag."""

    def found(response: Response) -> list[Reader]:
        service, generation = response.header(headers.SERVICE) or "", response.generation
        return [
            msgspec.structs.replace(each, service=service, generation=generation)
            for each in response.json(list[Reader])
        ]

    return build(routes.READERS, namespace, name, decode=found)


def poll_arrow(
    namespace: str,
    name: str,
    *,
    after: str,
    upto: str | None = None,
    limit_rows: int | None = None,
    limit_bytes: int | None = None,
    generation: int | None = None,
) -> ClientRequest[ArrowPage]:
    """One page of rows after ``after`` up to ``upto``, never past the stable position; needs pyarrow.

    Raises as ``plan``.
    """
    body = ArrowPollRequest(
        after=after, upto=upto, limit_rows=limit_rows, limit_bytes=limit_bytes, generation=generation
    )
    page = partial(read_arrow_page, after)
    return build(routes.ARROW_POLL, namespace, name, body=body, decode=page, accept=headers.ARROW)


# --- Transactions.

_FINISH: dict[How, tuple[ApiRoute[Any], str]] = {
    "commit": (routes.COMMIT, "committed"),
    "abort": (routes.ABORT, "aborted"),
    "invalidate": (routes.INVALIDATE, "invalid"),
}


def start_transaction(timeout_seconds: float | None = None) -> ClientRequest[Started]:
    """Begin a transaction, which becomes invalid after ``timeout_seconds`` unless it is renewed before.

    The default is 30 s and the limit 600 s, unless the service is configured otherwise.  A repeat after a lost answer
    may leave an unused transaction behind, which holds up no reader.
    """
    return build_json(routes.START, body=StartRequest(timeout=timeout_seconds))


def renew_transaction(pointer: int, timeout_seconds: float | None = None) -> ClientRequest[Renewed]:
    """Let the transaction time out ``timeout_seconds`` from now, or by default the timeout it began with.

    No renewal extends it beyond ``renewable``, or lets it hold up readers longer than their topic allows.
    Raises ``TransactionOver``.
    """
    return build_json(routes.RENEW, pointer, body=StartRequest(timeout=timeout_seconds))


def finish_transaction(
    pointer: int, how: How, changes: Sequence[str] = (), *, may_be_done: bool = False
) -> ClientRequest[None]:
    """Commit, abort or invalidate a transaction.

    ``changes``: the keys it changed; the commit is a conflict if a transaction that committed since it began changed
    one of them too.  ``may_be_done``: an earlier attempt got no answer, so a transaction already in this state counts
    as success.
    Raises ``TransactionConflict`` (it is aborted), ``TransactionOver``, ``StoredUnpublished`` (it is still open).
    """
    route, state = _FINISH[how]

    def done(refused: Denied, in_doubt: bool) -> None:
        is_done = isinstance(refused, TransactionOver) and refused.state == state
        if not (is_done and (in_doubt or may_be_done)):
            raise refused

    body = CommitRequest(changes=list(changes)) if how == "commit" else None
    return build_empty(route, pointer, body=body, on_refusal=done)


def transactions(
    state: TransactionState = "in_progress", *, limit: int = LIST_LIMIT_DEFAULT, before: int | None = None
) -> ClientRequest[list[OpenTransaction]]:
    """Open transactions and the topics whose readers they hold up, oldest first.

    With ``state`` the finished ones in that state and how they ended, newest first: at most ``limit`` that began before
    the pointer ``before``.  The state ``ended`` stands for committed, aborted and invalid ones.
    """
    return build_json(routes.LIST_TRANSACTIONS, query=TransactionsQuery(state=state, limit=limit, before=before))


def publish_in(pointer: int, namespace: str, name: str, payloads: Sequence[bytes]) -> ClientRequest[bytes]:
    """Publish payloads, or if there are none those stored before; returns the ``detail`` for ``roll_back``.

    It is repeated after a lost answer only without payloads: stored ones are published once.
    Raises ``StoredAlready`` for payloads in a topic where others were stored before, ``TransactionOver``.
    """
    body = PublishRequest(transactionWritePointer=pointer, messages=[*checked_payloads(payloads)])
    return build(
        routes.PUBLISH, namespace, name, body=body, decode=lambda response: response.body, repeatable=not payloads
    )


def store_in(pointer: int, namespace: str, name: str, payloads: Sequence[bytes]) -> ClientRequest[None]:
    """Store payloads under a transaction, to be published later by ``publish_in`` without payloads."""
    body = PublishRequest(transactionWritePointer=pointer, messages=[*checked_payloads(payloads)])
    return build_empty(routes.STORE, namespace, name, body=body, repeatable=False)


def roll_back(namespace: str, name: str, detail: bytes) -> ClientRequest[None]:
    """Roll back what a ``publish_in`` of an open transaction published; ``detail`` is what that returned."""
    return build_empty(routes.ROLLBACK, namespace, name, body=msgspec.Raw(detail))


# --- Subscriptions.


def put_subscription(
    namespace: str,
    name: str,
    subscription: str,
    *,
    url: str,
    delivery: DeliveryPolicy | None = None,
    dead_letter_topic: str | None = None,
) -> ClientRequest[None]:
    """Push messages committed from now on to ``url``; an existing subscription changes and keeps its position.

    ``delivery``: its delivery policy, by default that of the topic.
    ``dead_letter_topic`` (``namespace/name``) receives undeliverable messages; without it they are only counted.
    """
    policy = _given(delivery) if delivery is not None else None
    body = SubscriptionRequest(url=url, delivery=policy, dead_letter_topic=dead_letter_topic)
    return build_empty(routes.PUT_SUBSCRIPTION, namespace, name, subscription, body=body)


def subscription(namespace: str, name: str, subscription: str) -> ClientRequest[Subscription]:
    """A subscription and its progress."""
    return build_json(routes.GET_SUBSCRIPTION, namespace, name, subscription)


def subscriptions(namespace: str, name: str) -> ClientRequest[list[Subscription]]:
    """All subscriptions of a topic, ordered by name."""
    return build_json(routes.SUBSCRIPTIONS, namespace, name)


def delete_subscription(namespace: str, name: str, subscription: str) -> ClientRequest[None]:
    """Delete a subscription; nothing more is pushed to it."""
    missing = missing_is_done(Denied, error_codes.SUBSCRIPTION_NOT_FOUND)
    return build_empty(routes.DELETE_SUBSCRIPTION, namespace, name, subscription, on_refusal=missing)


__all__ = [
    "create_topic",
    "delete_subscription",
    "delete_topic",
    "finish_transaction",
    "inspect",
    "namespaces",
    "note_reader",
    "offsets",
    "plan",
    "poll",
    "poll_arrow",
    "publish",
    "publish_in",
    "put_subscription",
    "readers",
    "renew_transaction",
    "roll_back",
    "start_transaction",
    "store_in",
    "subscription",
    "subscriptions",
    "topic",
    "topics",
    "transactions",
    "update_topic",
]


def _given(policy: DeliveryPolicy) -> dict[str, Any]:
    """The fields of a policy that differ from the default."""
    default = msgspec.structs.asdict(DeliveryPolicy())
    return {name: value for name, value in msgspec.structs.asdict(policy).items() if value != default[name]}
