"""A small client for applications on a node: publish, take, acknowledge.  Standard library and msgspec only.

    edge = EdgeClient("http://127.0.0.1:10550")
    edge.publish([Message(source="/messages/modules/pump/outputs/out", body={"celsius": 81.5})])

    for message in edge.take("filter", "in", wait_seconds=30):
        work(message.body)
        edge.ack("filter", "in", [message.id])

A request without an answer is retried with the same Idempotency-Key for up to ``patience_seconds``, so a message is
stored once however often the agent is restarted meanwhile.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

import msgspec

from fairlead_wire import errors
from fairlead_wire.backoff import retry_after_seconds
from fairlead_wire.errors import LocalError, Permanent, Temporary
from fairlead_wire.validation import addresses, json_encoding

PATIENCE_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 0.2
RETRY_SECONDS_MAX: Final = 5.0
TIMEOUT_SECONDS: Final = 10.0
LEASE_SECONDS: Final = 60.0
NO_AGENT: Final = "no_agent"
_UNVERIFIED: Final = (
    "on the device itself use http:// (http_listen on loopback); elsewhere set SSL_CERT_FILE to the agent's edge-ca.crt"
)
_LATER: Final = (429, 503, 507)
T = TypeVar("T")


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message to publish; ``body`` is anything msgspec can encode as JSON, or raw bytes.

    A module that uses its own token may omit ``source``.
    """

    source: str = ""
    body: Any
    properties: dict[str, str | None] = {}
    system_properties: dict[str, str | None] = {}


class Delivery(msgspec.Struct, frozen=True):
    """Where a message went; ``ttl`` in seconds, None: for ever."""

    endpoint: str
    priority: int
    ttl: float | None


class Reason(msgspec.Struct, frozen=True):
    code: str
    message: str


class HeldFor(msgspec.Struct, frozen=True):
    """The refused route of an EdgeRoutes object for which a message is held, and what is wrong with the route."""

    route: str
    object: str
    reason: str


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one message: an id and deliveries, or the ``error`` for which it was refused.

    ``held``: no route matched, and the message is held until a refused route is repaired."""

    id: str = ""
    deliveries: list[Delivery] = []
    held: HeldFor | None = None
    error: Reason | None = None


class Taken(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A leased message; acknowledge it by its id.  ``body`` is decoded JSON, or bytes."""

    id: str
    source: str
    enqueued_at: str
    properties: dict[str, str | None]
    system_properties: dict[str, str | None]
    priority: int
    attempt: int
    body: Any = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was permanently refused, or delivered as often as its policy allows; ``number`` identifies it."""

    number: int
    endpoint: str
    priority: int
    topic: str
    at: str
    code: str
    reason: str
    message: dict[str, Any]


class _DeadLetters(msgspec.Struct, rename="camel"):
    dead_letters: list[DeadLetter]
    next: int | None


class _Replayed(msgspec.Struct):
    replayed: int


class _Discarded(msgspec.Struct):
    discarded: int


class _Results(msgspec.Struct):
    results: list[Published]


class _Messages(msgspec.Struct):
    messages: list[dict[str, Any]]


class _Unknown(msgspec.Struct):
    unknown: list[str]


class EdgeClient:
    """A client of the agent at ``url``.  ``token``: content of ``data_dir/token``, needed with ``security = "mtls"``.

    Raises ``Permanent`` for errors that a retry would not fix, ``Temporary`` when ``patience_seconds`` are over, and
    ``LocalError`` for a malformed address or token.
    """

    def __init__(self, url: str, *, token: str | None = None, patience_seconds: float = PATIENCE_SECONDS) -> None:
        try:
            self._url = addresses.url(url)
        except ValueError as error:
            raise LocalError(f"the agent's address {error}") from None
        self._headers = {"Authorization": f"Bearer {_checked(token)}"} if token else {}
        self._patience_seconds = patience_seconds
        # The agent is on this machine, so proxies from the environment do not apply.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def publish(self, messages: Sequence[Message], *, key: str | None = None) -> list[Published]:
        """Publish ``messages``; returns one result per message, in order, when the accepted ones are on disk.

        ``key``: the Idempotency-Key, to be kept by an application that repeats a request after a restart; by default
        each call makes a new one.  Raises ``Permanent`` when no message was accepted, ``LocalError`` for a body with
        NaN or infinity.
        """
        try:
            content = json_encoding.encode({"messages": [_submission(message) for message in messages]})
        except json_encoding.NotJson as error:
            raise LocalError(f"{error}; send None or a number") from None
        answer = self._ask("/v1/messages", content, {"Idempotency-Key": key or uuid.uuid4().hex})
        return self._read(answer, _Results).results

    def take(
        self,
        module: str,
        input: str,
        *,
        messages_max: int = 10,
        wait_seconds: float = 0.0,
        lease_seconds: float = LEASE_SECONDS,
    ) -> list[Taken]:
        """Lease messages of an input, most urgent first; waits up to ``wait_seconds`` for the first.

        Messages not acknowledged within ``lease_seconds`` are delivered again, so it must exceed the processing time.
        """
        path = f"{_input(module, input)}?max={messages_max}&wait={wait_seconds:g}&lease={lease_seconds:g}"
        answer = self._ask(path, None, {}, timeout_seconds=TIMEOUT_SECONDS + wait_seconds)
        return [_taken(message) for message in self._read(answer, _Messages).messages]

    def ack(self, module: str, input: str, ids: Sequence[str]) -> list[str]:
        """Acknowledge these messages durably; returns the ids that are unknown or no longer leased."""
        return self._settle(module, input, "ack", ids)

    def abandon(self, module: str, input: str, ids: Sequence[str]) -> list[str]:
        """Release these messages for redelivery by the delivery policy; returns the ids that are unknown."""
        return self._settle(module, input, "abandon", ids)

    def dead_letters(self, *, after: int = 0, limit: int = 100) -> tuple[list[DeadLetter], int | None]:
        """Dead letters with a number above ``after``, oldest first, and ``after`` of the next page (None: no more)."""
        answer = self._ask(f"/v1/deadletters?after={after}&limit={limit}", None, {})
        page = self._read(answer, _DeadLetters)
        return page.dead_letters, page.next

    def replay(self, numbers: Sequence[int] | None = None) -> int:
        """Put these dead letters (None: the first 1,000) back into their queues; returns how many."""
        content = msgspec.json.encode({"numbers": None if numbers is None else list(numbers)})
        return self._read(self._ask("/v1/deadletters/replay", content, {}), _Replayed).replayed

    def discard(self, numbers: Sequence[int]) -> int:
        """Delete these dead letters, at most 1,000; returns how many existed."""
        content = msgspec.json.encode({"numbers": list(numbers)})
        return self._read(self._ask("/v1/deadletters/discard", content, {}), _Discarded).discarded

    def receipt(
        self, id: str, *, wait_seconds: float = 0.0, until: Literal["in_topic", "in_table"] = "in_table"
    ) -> dict[str, Any] | None:
        """Where a message of this node is (``GET /v1/receipts/{id}``); None: it is unknown or forgotten.

        Waits up to ``wait_seconds`` (at most 60) until it is in its topic, or in a table.
        """
        path = f"/v1/receipts/{quote(id, safe='')}?wait={wait_seconds:g}&until={until}"
        try:
            answer = self._ask(path, None, {}, timeout_seconds=TIMEOUT_SECONDS + wait_seconds)
        except Permanent as error:
            if error.code == "unknown_message":
                return None
            raise
        return self._read(answer, dict[str, Any])

    def status(self) -> dict[str, Any]:
        """The agent's current status: link, objects, queues, delivery policies (``GET /v1/status``)."""
        return self._read(self._ask("/v1/status", None, {}), dict[str, Any])

    def _settle(self, module: str, input: str, verb: str, ids: Sequence[str]) -> list[str]:
        content = msgspec.json.encode({"ids": list(ids)})
        return self._read(self._ask(f"{_input(module, input)}/{verb}", content, {}), _Unknown).unknown

    def _read(self, answer: bytes, type: type[T]) -> T:
        """Raises ``Permanent`` for a response that no agent sends: another program listens there."""
        try:
            return msgspec.json.decode(answer, type=type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Permanent(f"{self._url} is not an agent: unexpected response ({error})", code=NO_AGENT) from None

    def _ask(
        self, path: str, content: bytes | None, headers: dict[str, str], timeout_seconds: float = TIMEOUT_SECONDS
    ) -> bytes:
        deadline = time.monotonic() + self._patience_seconds
        pause = RETRY_SECONDS
        while True:
            try:
                return self._ask_once(path, content, headers, timeout_seconds)
            except Temporary as error:
                wait = min(error.retry_after_seconds or pause, RETRY_SECONDS_MAX)
                if time.monotonic() + wait > deadline:
                    raise
                time.sleep(wait)
                pause = min(2 * pause, RETRY_SECONDS_MAX)

    def _ask_once(self, path: str, content: bytes | None, headers: dict[str, str], timeout_seconds: float) -> bytes:
        try:
            request = urllib.request.Request(self._url + path, data=content, headers={**self._headers, **headers})
            with self._opener.open(request, timeout=timeout_seconds) as response:
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error  # urllib wraps the cause
            if isinstance(why, ssl.SSLCertVerificationError):
                raise Permanent(f"{self._url}: {errors.plain(why)}; {_UNVERIFIED}", code=NO_AGENT) from error
            why = errors.plain(why) if isinstance(why, OSError) else why
            hint = addresses.scheme_hint(self._url, error)
            raise Temporary(
                f"no answer from {self._url}: {why}; is the agent running, and is this its http_listen?{hint}"
            ) from error
        except ValueError as error:  # not a URL, or one that cannot be written into a request
            raise LocalError(f"{self._url!r} is not the address of an agent: {error}") from None


def _checked(token: str) -> str:
    """The token without its file's final newline.  A token that no header can carry is refused here, because the error
    of the HTTP library would quote it."""
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise LocalError("the token is not the content of data_dir/token: one line of visible ASCII characters")
    return token


def _submission(message: Message) -> dict[str, Any]:
    if isinstance(message.body, bytes):
        body = {"bodyBase64": base64.b64encode(message.body).decode()}
    else:
        body = {"body": message.body}
    return {
        **({"source": message.source} if message.source else {}),
        "properties": message.properties,
        "systemProperties": message.system_properties,
        **body,
    }


def _taken(message: dict[str, Any]) -> Taken:
    encoded = message.pop("bodyBase64", None)
    if encoded is not None:
        message["body"] = base64.b64decode(encoded)
    return msgspec.convert(message, Taken)


def _input(module: str, input: str) -> str:
    return f"/v1/modules/{quote(module, safe='')}/inputs/{quote(input, safe='')}/messages"


def _refusal(error: urllib.error.HTTPError) -> Exception:
    content = error.read()
    try:
        reason = msgspec.convert(msgspec.json.decode(content)["error"], Reason)
    except (ValueError, RecursionError, KeyError, TypeError):
        said = " ".join(content[:200].decode(errors="replace").split())
        if error.code not in _LATER:
            said = f"{error.url} is not an agent's API; it answered HTTP {error.code}: {said or error.reason}"
        reason = Reason(code=f"http_{error.code}", message=said)
    if error.code in _LATER:
        asked = retry_after_seconds(error.headers.get("Retry-After"))
        return Temporary(reason.message, retry_after_seconds=asked)
    return Permanent(reason.message, code=reason.code)
