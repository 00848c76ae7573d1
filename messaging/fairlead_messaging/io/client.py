"""A client of the messaging service for asyncio programs.

Every call either did what it says, durably, or raises ``Temporary`` (repeat it, after
``retry_after_seconds``) or ``Permanent`` (the same request will be refused again; ``code`` says why).
Publishing with a producer makes repeating safe: what was stored already is skipped.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import aiohttp
import msgspec

from fairlead_wire.errors import Permanent, Temporary

REQUEST_TIMEOUT_SECONDS = 30.0
FOLLOW_WAIT_MS = 10_000
DEFAULT_RETRY_AFTER_SECONDS = 1.0
TEMPORARY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """Who publishes.  ``sequence`` numbers the first message, the others follow; or ``sequences``, one each."""

    id: str
    epoch: int
    sequence: int | None = None
    sequences: Sequence[int] | None = None
    fence: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """With a producer: the sequences stored by this call, and those known from an earlier one."""

    stored: tuple[int, ...] = ()
    known: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """``id`` is hex."""

    id: str
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """``next_position`` (hex) is the exclusive start of the next page, also of an empty one."""

    messages: tuple[Message, ...]
    next_position: str


class Started(msgspec.Struct, frozen=True):
    """A transaction: ``transaction`` is the snapshot to poll with, ``expires`` is in milliseconds."""

    transactionWritePointer: int
    transaction: str
    expires: int


How = Literal["commit", "abort", "invalidate"]


class _Message(msgspec.Struct):
    id: str
    payload: bytes


class _ProducerAnswer(msgspec.Struct):
    stored: tuple[int, ...]
    known: tuple[int, ...]


class _PublishAnswer(msgspec.Struct):
    producer: _ProducerAnswer


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""


class _ErrorBody(msgspec.Struct):
    error: _Error


class MessagingClient:
    """``async with MessagingClient("http://127.0.0.1:11015") as client: …``; safe for concurrent calls."""

    def __init__(
        self,
        base_url: str,
        *,
        ssl_context: ssl.SSLContext | None = None,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._ssl = ssl_context
        self._timeout = timeout_seconds
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # --- topics

    async def create_topic(self, namespace: str, name: str, properties: Mapping[str, str | int] | None = None) -> bool:
        """True when this call created it, False when it existed (its properties stay as they are)."""
        try:
            await self._call("PUT", self._topic(namespace, name), dict(properties or {}))
        except Permanent as refused:
            if refused.code == "topic_exists":
                return False
            raise
        return True

    async def topic(self, namespace: str, name: str) -> dict[str, str]:
        """The topic's properties, ``ttl`` always among them."""
        raw, _ = await self._call("GET", self._topic(namespace, name), None)
        return msgspec.json.decode(raw, type=dict[str, Any])["properties"]  # type: ignore[no-any-return]

    async def topics(self, namespace: str) -> list[str]:
        raw, _ = await self._call("GET", f"/v1/namespaces/{namespace}/topics", None)
        return msgspec.json.decode(raw, type=list[str])

    async def update_topic(self, namespace: str, name: str, properties: Mapping[str, str | int]) -> None:
        """Replaces all properties; what is not named returns to its default."""
        await self._call("PUT", self._topic(namespace, name) + "/properties", dict(properties))

    async def inspect(self, namespace: str, name: str, *, after: str = "", limit: int = 100) -> list[dict[str, Any]]:
        """Rows with their state, without consuming anything."""
        path = f"{self._topic(namespace, name)}/inspect?after={after}&limit={limit}"
        raw, _ = await self._call("GET", path, None)
        return msgspec.json.decode(raw, type=list[dict[str, Any]])

    async def readers(self, namespace: str, name: str) -> list[dict[str, Any]]:
        """Named readers and how far each lags."""
        raw, _ = await self._call("GET", self._topic(namespace, name) + "/readers", None)
        return msgspec.json.decode(raw, type=list[dict[str, Any]])

    async def transactions(self) -> list[dict[str, Any]]:
        """Open transactions and the topics whose readers wait for them."""
        raw, _ = await self._call("GET", "/v1/transactions", None)
        return msgspec.json.decode(raw, type=list[dict[str, Any]])

    async def delete_topic(self, namespace: str, name: str) -> None:
        await self._call("DELETE", self._topic(namespace, name), None)

    async def publish(
        self,
        namespace: str,
        name: str,
        payloads: Sequence[bytes],
        *,
        producer: Producer | None = None,
        ttl_seconds: int | None = None,
    ) -> Published:
        """Durable when it returns.  ``Permanent`` with code ``topic_not_found`` when the topic is missing."""
        messages: list[Any] = list(payloads)
        if ttl_seconds is not None:
            messages = [{"payload": payload, "ttl": ttl_seconds} for payload in payloads]
        asked: dict[str, Any] = {"messages": messages}
        if producer is not None:
            asked["producer"] = _producer(producer)
        raw, _ = await self._call("POST", self._topic(namespace, name) + "/publish", asked)
        if producer is None:
            return Published()
        answer = msgspec.json.decode(raw, type=_PublishAnswer).producer
        return Published(stored=answer.stored, known=answer.known)

    async def poll(
        self,
        namespace: str,
        name: str,
        *,
        start_from: str | int | None = None,
        inclusive: bool = True,
        limit: int | None = None,
        wait_ms: int = 0,
        read_committed: bool = False,
        transaction: str | None = None,
    ) -> Page:
        """``start_from``: an id (hex), a time in milliseconds, or None for the oldest message.

        ``transaction``: the snapshot of a started transaction, to see what it may see.
        """
        asked = {
            "startFrom": start_from,
            "inclusive": inclusive,
            "limit": limit,
            "wait_ms": wait_ms,
            "transaction": transaction,
            "isolation": "read_committed" if read_committed else "none",
        }
        raw, headers = await self._call(
            "POST", self._topic(namespace, name) + "/poll", asked, timeout_seconds=self._timeout + wait_ms / 1000
        )
        messages = tuple(
            Message(id=message.id, payload=message.payload) for message in msgspec.json.decode(raw, type=list[_Message])
        )
        return Page(messages=messages, next_position=headers["Fairlead-Next-Position"])

    async def messages(
        self,
        namespace: str,
        name: str,
        *,
        start_from: str | int | None = None,
        inclusive: bool = True,
        follow: bool = False,
        read_committed: bool = True,
    ) -> AsyncIterator[Message]:
        """Every message from a start on, page by page; with ``follow`` also those that come later, without end."""
        while True:
            page = await self.poll(
                namespace,
                name,
                start_from=start_from,
                inclusive=inclusive,
                read_committed=read_committed,
                wait_ms=FOLLOW_WAIT_MS if follow else 0,
            )
            for message in page.messages:
                yield message
            if not page.messages and not follow and start_from == page.next_position:
                return
            start_from, inclusive = page.next_position, False

    # --- transactions

    async def start_transaction(self, timeout_seconds: float | None = None) -> Started:
        asked = {} if timeout_seconds is None else {"timeout": timeout_seconds}
        raw, _ = await self._call("POST", "/v1/transactions", asked)
        return msgspec.json.decode(raw, type=Started)

    async def finish_transaction(self, pointer: int, how: How, changes: Sequence[str] = ()) -> None:
        """``Permanent`` with code ``transaction_conflict`` or ``transaction_not_in_progress`` when it cannot be."""
        asked = {"changes": list(changes)} if how == "commit" else {}
        await self._call("POST", f"/v1/transactions/{pointer}/{how}", asked)

    async def publish_in(self, pointer: int, namespace: str, name: str, payloads: Sequence[bytes]) -> bytes:
        """Publish under a transaction (nothing: what was stored); returns what ``roll_back`` takes."""
        asked = {"transactionWritePointer": pointer, "messages": list(payloads)}
        raw, _ = await self._call("POST", self._topic(namespace, name) + "/publish", asked)
        return raw

    async def store_in(self, pointer: int, namespace: str, name: str, payloads: Sequence[bytes]) -> None:
        """Store under a transaction, for a later publish of nothing."""
        asked = {"transactionWritePointer": pointer, "messages": list(payloads)}
        await self._call("POST", self._topic(namespace, name) + "/store", asked)

    async def roll_back(self, namespace: str, name: str, detail: bytes) -> None:
        await self._call("POST", self._topic(namespace, name) + "/rollback", msgspec.Raw(detail))

    @staticmethod
    def _topic(namespace: str, name: str) -> str:
        return f"/v1/namespaces/{namespace}/topics/{name}"

    async def _call(
        self, method: str, path: str, asked: object, *, timeout_seconds: float | None = None
    ) -> tuple[bytes, Mapping[str, str]]:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        try:
            async with self._session.request(
                method,
                self._base_url + path,
                data=None if asked is None else msgspec.json.encode(asked),
                headers=None if asked is None else {"Content-Type": "application/json"},
                ssl=self._ssl or True,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds or self._timeout),
            ) as response:
                raw = await response.read()
                if response.status >= 400:
                    raise _failure(response.status, response.headers, raw)
                return raw, response.headers
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Temporary(
                f"messaging at {self._base_url} did not answer: {error or type(error).__name__}",
                retry_after_seconds=DEFAULT_RETRY_AFTER_SECONDS,
            ) from error


def _producer(producer: Producer) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": producer.id, "epoch": producer.epoch, "fence": producer.fence}
    if producer.sequences is not None:
        shown["sequences"] = list(producer.sequences)
    else:
        shown["sequence"] = producer.sequence
    return shown


def _failure(status: int, headers: Mapping[str, str], raw: bytes) -> Temporary | Permanent:
    try:
        error = msgspec.json.decode(raw, type=_ErrorBody).error
    except msgspec.MsgspecError:
        error = _Error(code=f"http_{status}", message=raw[:200].decode(errors="replace"))
    text = f"messaging answered {status}: {error.message}"
    if status in TEMPORARY_STATUSES:
        after = headers.get("Retry-After", "")
        return Temporary(text, retry_after_seconds=float(after) if after.isdecimal() else DEFAULT_RETRY_AFTER_SECONDS)
    return Permanent(text, code=error.code)
