"""Every request a client can make of the messaging service, as a value: what to send and how to read the answer.

    publish(…) ─→ Call ─(a client sends it)→ Answer ─read→ Published, or one of ``errors``

No socket here: the asyncio client and the synchronous one make the same calls and only send them, each in its way.
A function's arguments and its text are those of the method of the same name on both clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from fairlead_messaging.api.responses import (
    How,
    Inspected,
    Message,
    Offset,
    OpenTransaction,
    Page,
    Plan,
    Producer,
    Published,
    Reader,
    Started,
    Subscription,
)
from fairlead_messaging.client import errors
from fairlead_messaging.client.errors import Denied, TopicExists, TopicMissing, TransactionOver
from fairlead_wire import codec
from fairlead_wire.delivery import DeliveryPolicy
from fairlead_wire.errors import LocalError, RemoteError

JSON = "application/json"
NEXT_POSITION = "fairlead-next-position"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back: names of ``headers`` in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def _raise(refused: Denied, in_doubt: bool) -> Any:
    raise refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request.  ``path`` is encoded.  ``wait_seconds`` is how long the service may hold the answer back on purpose.

    ``repeatable``: doing it twice is as good as once, so it may be sent again when the answer was lost.
    ``on_refusal(refused, in_doubt)`` may turn a refusal into a result; ``in_doubt``: an earlier sending had no answer.
    """

    method: str
    path: str
    decode: Callable[[Answer], T]
    body: bytes | None = None
    accept: str = JSON
    wait_seconds: float = 0.0
    repeatable: bool = True
    on_refusal: Callable[[Denied, bool], T] = _raise

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Accept": self.accept}
        if self.body is not None:
            headers["Content-Type"] = JSON
        return headers

    def read(self, answer: Answer, *, in_doubt: bool = False) -> T:
        """The result.  Raises one of ``errors``, or ``RemoteError`` for what this service does not say."""
        if 200 <= answer.status < 300:
            return self.decode(answer)
        failure = errors.of(f"{self.method} {self.path}", answer.status, answer.headers, answer.body)
        if isinstance(failure, Denied):
            return self.on_refusal(failure, in_doubt)
        raise failure


# ── topics ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def create_topic(namespace: str, name: str, properties: Mapping[str, str | int] | None = None) -> Call[bool]:
    """True when this call created it, False when it existed (its properties stay as they are).

    After a lost answer and a repeat it may have been this call although it says False.
    """

    def exists(refused: Denied, in_doubt: bool) -> bool:
        if isinstance(refused, TopicExists):
            return False
        raise refused

    body = msgspec.json.encode(dict(properties or {}))
    return Call(method="PUT", path=topic_path(namespace, name), body=body, decode=lambda _: True, on_refusal=exists)


def topic(namespace: str, name: str) -> Call[dict[str, str]]:
    """The topic's properties, ``ttl`` and ``generation`` always among them."""

    def properties(answer: Answer) -> dict[str, str]:
        return _json(answer, _Topic).properties

    return Call(method="GET", path=topic_path(namespace, name), decode=properties)


def namespaces() -> Call[list[str]]:
    """Namespaces that have topics, in order."""
    return _get("/v1/namespaces", list[str])


def topics(namespace: str) -> Call[list[str]]:
    """Names of the topics in a namespace, in order."""
    return _get(f"/v1/namespaces/{_part(namespace)}/topics", list[str])


def update_topic(namespace: str, name: str, properties: Mapping[str, str | int]) -> Call[None]:
    """Replaces all properties; what is not named returns to its default."""
    return _put(topic_path(namespace, name) + "/properties", dict(properties))


def delete_topic(namespace: str, name: str) -> Call[None]:
    """Everything in it is unreachable at once; created again it has the next generation."""
    return Call(method="DELETE", path=topic_path(namespace, name), decode=_nothing, on_refusal=_gone(TopicMissing))


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def publish(
    namespace: str,
    name: str,
    payloads: Sequence[bytes],
    *,
    producer: Producer | None = None,
    ttl_seconds: int | None = None,
) -> Call[Published]:
    """Durable when it returns.  With a producer it is safe to repeat; without one a lost answer is never repeated.

    Raises ``TopicMissing``, ``Fenced``, ``TooLarge`` (the service takes 16 MiB of JSON in one request).
    """
    asked: dict[str, Any] = {"messages": _messages(payloads, ttl_seconds)}
    if producer is not None:
        asked["producer"] = _producer(producer)

    def published(answer: Answer) -> Published:
        return Published() if producer is None else _json(answer, _Published).producer

    return post(topic_path(namespace, name) + "/publish", asked, published, repeatable=producer is not None)


def poll(
    namespace: str,
    name: str,
    *,
    start_from: str | int | None = None,
    inclusive: bool = True,
    limit: int | None = None,
    wait_ms: int = 0,
    read_committed: bool = False,
    transaction: str | None = None,
) -> Call[Page]:
    """One page.  ``start_from``: an id (hex), a time in milliseconds, or None for the oldest message.

    ``wait_ms`` waits for the first message.  ``read_committed`` stops at the first undecided message; ``transaction``:
    the snapshot of a started transaction, to see what it may see.
    """
    asked = {
        "startFrom": start_from,
        "inclusive": inclusive,
        "limit": limit,
        "wait_ms": wait_ms,
        "transaction": transaction,
        "isolation": "read_committed" if read_committed else "none",
    }

    def page(answer: Answer) -> Page:
        position = answer.headers.get(NEXT_POSITION)
        if position is None:
            raise RemoteError("the answer to a poll has no next position: this is not the messaging service")
        return Page(messages=_json(answer, tuple[Message, ...]), next_position=position)

    return post(topic_path(namespace, name) + "/poll", asked, page, wait_seconds=wait_ms / 1000)


def inspect(namespace: str, name: str, *, after: str = "", limit: int = 100) -> Call[list[Inspected]]:
    """Rows with their state, without consuming anything; ``after`` is an id (hex)."""
    return _get(f"{topic_path(namespace, name)}/inspect?after={_part(after)}&limit={limit}", list[Inspected])


# ── bulk readers ────────────────────────────────────────────────────────────────────────────────────────────────────


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
) -> Call[Plan]:
    """How to read a topic beyond ``after``; waits up to ``wait_ms`` while nothing is there.

    Raises ``Expired``, ``GenerationChanged``, ``TopicMissing``.
    """
    asked = {
        "after": after,
        "upto": upto,
        "limit_rows": limit_rows,
        "limit_bytes": limit_bytes,
        "splits": splits,
        "wait_ms": wait_ms,
        "generation": generation,
    }
    return post(
        topic_path(namespace, name) + "/plan", asked, lambda answer: _json(answer, Plan), wait_seconds=wait_ms / 1000
    )


def offsets(namespace: str, name: str, at: str | int) -> Call[Offset]:
    """Where ``at`` (``earliest``, ``latest`` or milliseconds since 1970) lies in the topic."""
    return _get(f"{topic_path(namespace, name)}/offsets?ts={_part(str(at))}", Offset)


def note_reader(namespace: str, name: str, reader: str, *, position: str, generation: int | None = None) -> Call[None]:
    """Tell the service how far ``reader`` has durably read, so that its lag can be seen; it moves nothing."""
    body: dict[str, Any] = {"position": position, "generation": generation}
    return _put(f"{topic_path(namespace, name)}/readers/{_part(reader)}", body)


def readers(namespace: str, name: str) -> Call[list[Reader]]:
    """Named readers and how far each lags."""
    return _get(topic_path(namespace, name) + "/readers", list[Reader])


# ── transactions ────────────────────────────────────────────────────────────────────────────────────────────────────


def start_transaction(timeout_seconds: float | None = None) -> Call[Started]:
    """``timeout_seconds``: the service's 30 by default, at most 600; then it becomes invalid by itself.

    Repeated after a lost answer it may leave one behind that nobody uses, which holds up nobody.
    """
    asked = {} if timeout_seconds is None else {"timeout": timeout_seconds}
    return post("/v1/transactions", asked, lambda answer: _json(answer, Started))


def finish_transaction(pointer: int, how: How, changes: Sequence[str] = (), *, may_be_done: bool = False) -> Call[None]:
    """Commit, abort or invalidate.  ``changes``: keys changed; a commit that another one overtook is a conflict.

    ``may_be_done``: an earlier attempt had no answer, so that it is in this state already is as good.
    Raises ``TransactionConflict`` (it is aborted), ``TransactionOver``.
    """

    def done(refused: Denied, in_doubt: bool) -> None:
        settled = isinstance(refused, TransactionOver) and refused.state == _STATE[how]
        if not (settled and (in_doubt or may_be_done)):
            raise refused

    asked = {"changes": list(changes)} if how == "commit" else {}
    return post(f"/v1/transactions/{pointer}/{how}", asked, _nothing, on_refusal=done)


def transactions() -> Call[list[OpenTransaction]]:
    """Open transactions and the topics whose readers wait for them, oldest first."""
    return _get("/v1/transactions", list[OpenTransaction])


def publish_in(pointer: int, namespace: str, name: str, payloads: Sequence[bytes]) -> Call[bytes]:
    """Publish under a transaction (nothing: what was stored); returns what ``roll_back`` takes, as it is.

    Repeated after a lost answer only without payloads: what was stored is published once.
    """
    asked = {"transactionWritePointer": pointer, "messages": list(payloads)}
    return post(topic_path(namespace, name) + "/publish", asked, lambda answer: answer.body, repeatable=not payloads)


def store_in(pointer: int, namespace: str, name: str, payloads: Sequence[bytes]) -> Call[None]:
    """Store under a transaction, for a later publish of nothing."""
    asked = {"transactionWritePointer": pointer, "messages": list(payloads)}
    return post(topic_path(namespace, name) + "/store", asked, _nothing, repeatable=False)


def roll_back(namespace: str, name: str, detail: bytes) -> Call[None]:
    """Take back what a ``publish_in`` of an open transaction published; ``detail`` is what it returned."""
    return Call(method="POST", path=topic_path(namespace, name) + "/rollback", body=detail, decode=_nothing)


# ── subscriptions ───────────────────────────────────────────────────────────────────────────────────────────────────


def put_subscription(
    namespace: str,
    name: str,
    subscription: str,
    *,
    url: str,
    delivery: DeliveryPolicy | None = None,
    dead_letter_topic: str | None = None,
) -> Call[None]:
    """Push committed messages to ``url`` from now on; put again it changes and keeps its place.

    ``dead_letter_topic`` (``namespace/name``) gets what could not be delivered; without it that is counted.
    """
    asked: dict[str, Any] = {"url": url}
    if delivery is not None:
        asked["delivery"] = delivery
    if dead_letter_topic is not None:
        asked["dead_letter_topic"] = dead_letter_topic
    return _put(_subscription(namespace, name, subscription), asked)


def subscription(namespace: str, name: str, subscription: str) -> Call[Subscription]:
    """One subscription and how it goes."""
    return _get(_subscription(namespace, name, subscription), Subscription)


def subscriptions(namespace: str, name: str) -> Call[list[Subscription]]:
    """All subscriptions of a topic, by name."""
    return _get(topic_path(namespace, name) + "/subscriptions", list[Subscription])


def delete_subscription(namespace: str, name: str, subscription: str) -> Call[None]:
    """Nothing more is pushed to it."""
    path = _subscription(namespace, name, subscription)
    return Call(method="DELETE", path=path, decode=_nothing, on_refusal=_gone(Denied, "subscription_not_found"))


# ── bodies and paths ────────────────────────────────────────────────────────────────────────────────────────────────


class _Topic(msgspec.Struct):
    properties: dict[str, str]


class _Published(msgspec.Struct):
    producer: Published


_STATE: dict[How, str] = {"commit": "committed", "abort": "aborted", "invalidate": "invalid"}


def split(topic: str) -> tuple[str, str]:
    """(namespace, name) of ``namespace/name``.  Raises ``LocalError``."""
    namespace, slash, name = topic.partition("/")
    if not (namespace and slash and name):
        raise LocalError(f"a topic is namespace/name, not {topic!r}")
    return namespace, name


def _part(text: str) -> str:
    return quote(text, safe="")


def topic_path(namespace: str, name: str) -> str:
    return f"/v1/namespaces/{_part(namespace)}/topics/{_part(name)}"


def _subscription(namespace: str, name: str, subscription: str) -> str:
    return f"{topic_path(namespace, name)}/subscriptions/{_part(subscription)}"


def _get(path: str, kind: type[T]) -> Call[T]:
    return Call(method="GET", path=path, decode=lambda answer: _json(answer, kind))


def _put(path: str, asked: dict[str, Any]) -> Call[None]:
    return Call(method="PUT", path=path, body=msgspec.json.encode(asked), decode=_nothing)


def post(path: str, asked: object, decode: Callable[[Answer], T], **more: Any) -> Call[T]:
    return Call(method="POST", path=path, body=msgspec.json.encode(asked), decode=decode, **more)


def _messages(payloads: Sequence[bytes], ttl_seconds: int | None) -> list[Any]:
    if ttl_seconds is None:
        return list(payloads)
    return [{"payload": payload, "ttl": ttl_seconds} for payload in payloads]


def _producer(producer: Producer) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": producer.id, "epoch": producer.epoch, "fence": producer.fence}
    if producer.sequences is not None:
        shown["sequences"] = list(producer.sequences)
    else:
        shown["sequence"] = producer.sequence
    return shown


def _nothing(answer: Answer) -> None:
    return None


def _gone(kind: type[Denied], code: str | None = None) -> Callable[[Denied, bool], None]:
    """For deletions: that it is not there is as good, when an earlier sending may have deleted it."""

    def gone(refused: Denied, in_doubt: bool) -> None:
        if not (in_doubt and isinstance(refused, kind) and code in (None, refused.code)):
            raise refused

    return gone


@lru_cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _json(answer: Answer, kind: type[T]) -> T:
    shape: Any = kind
    decoded: T = codec.decode_json(_decoder(shape), answer.body)
    return decoded
