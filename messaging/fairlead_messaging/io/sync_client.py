"""A small synchronous client for bulk readers: plan, poll in Arrow pages, offsets, readers, store and publish.

    plan(after, upto, limits) ─→ ranges ─→ poll(range) ─→ Page(table, next position) ─→ …

Bulk readers run inside worker processes of a batch engine, where an event loop would only be in the way, so this
client stands on the standard library: one keep-alive connection per client, TLS from ``ssl``. It never retries by
itself and never waits: the caller knows how long it may. Limits: an answer over ``answer_bytes_max`` is refused
before it is parsed. Errors say what comes next (``Temporary``: try again; ``Permanent``: never as asked) and three
of them carry facts: ``Expired`` (where reading may go on), ``GenerationChanged``, ``TopicMissing``.

An instance is not thread-safe and must not be pickled; make one where it is used.
"""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import pyarrow as pa

from fairlead_wire.errors import LocalError, Permanent, RemoteError, Temporary

ANSWER_BYTES_MAX = 256 * 1024 * 1024
ARROW = "application/vnd.apache.arrow.stream"
# A long poll may hold the answer for wait_ms; the socket waits this much longer before it calls the service gone.
TIMEOUT_SECONDS = 30.0
T = TypeVar("T")


class Expired(Permanent):
    """Messages after this start are gone; ``oldest`` is an exclusive start that yields all that live, ``rows`` how many
    are gone (None: not said). A start of "" never expires."""

    def __init__(self, message: str, *, oldest: str, rows: int | None = None) -> None:
        super().__init__(message, code="expired")
        self.oldest = oldest
        self.rows = rows


class GenerationChanged(Permanent):
    """The topic was deleted and made anew; ``generation`` is the one that lives now."""

    def __init__(self, message: str, *, generation: int) -> None:
        super().__init__(message, code="generation_changed")
        self.generation = generation


class TopicMissing(Permanent):
    """There is no such topic (yet)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="not_found")


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a topic: ``after`` exclusive, ``upto`` inclusive, as hex ids; "" is before the first."""

    after: str
    upto: str
    rows: int
    bytes: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a stretch of a topic is read: where it ends, how much it is, and how to split it."""

    service: str
    generation: int
    oldest: str | None = None
    stable: str | None = None
    upto: str | None = None
    rows: int = 0
    bytes: int = 0
    ranges: list[Range] = []
    held_by: int | str | None = None
    held_since: int | float | str | None = None


class Offset(msgspec.Struct, frozen=True, kw_only=True):
    """Where a topic stood when asked; ``position`` answers the question, ``stable`` is where reading must stop."""

    service: str
    generation: int
    position: str | None = None
    stable: str | None = None
    oldest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One answer to a poll: rows ``id`` (binary), ``ts`` (timestamp[us, UTC]), ``payload`` (binary)."""

    table: pa.Table
    next_position: str
    generation: int
    stable: str
    oldest: str
    service: str


class _ErrorBody(msgspec.Struct, frozen=True):
    code: str = ""
    message: str = ""
    oldest: str | None = None
    expired: int | None = None
    generation: int | None = None


class _ErrorAnswer(msgspec.Struct, frozen=True):
    error: _ErrorBody = _ErrorBody()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files for mutual TLS: who signs the service (``ca``) and who we are (``cert``, ``key``)."""

    ca: str
    cert: str
    key: str

    def context(self) -> ssl.SSLContext:
        """A client context. Raises ``LocalError`` naming what could not be read."""
        try:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.ca)
            context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise LocalError(f"cannot use tls_ca={self.ca} tls_cert={self.cert}: {error}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


class BulkClient:
    """One keep-alive connection to the messaging service at ``base_url`` (``http://host:port`` or ``https://…``)."""

    def __init__(
        self,
        base_url: str,
        *,
        tls: Tls | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise LocalError(f"messaging_url must look like http://host:port, not {base_url!r}")
        if parts.scheme == "https" and tls is None:
            raise LocalError("an https messaging_url needs tls_ca, tls_cert and tls_key")
        self.base_url = base_url.rstrip("/")
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._context = tls.context() if tls is not None and parts.scheme == "https" else None
        self._timeout_seconds = timeout_seconds
        self._answer_bytes_max = answer_bytes_max
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> BulkClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back; the client may be used again and will make a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # --- reading

    def plan(
        self,
        topic: str,
        *,
        after: str,
        upto: str | None = None,
        limit_rows: int | None = None,
        limit_bytes: int | None = None,
        splits: int = 1,
        wait_ms: int = 0,
        generation: int | None = None,
    ) -> Plan:
        """Ask how to read ``topic`` beyond ``after``; waits up to ``wait_ms`` while nothing is there.

        Raises ``Expired``, ``GenerationChanged``, ``TopicMissing``, ``Temporary``, ``Permanent``.
        """
        body = {
            "after": after,
            "upto": upto,
            "limit_rows": limit_rows,
            "limit_bytes": limit_bytes,
            "splits": splits,
            "wait_ms": wait_ms,
            "generation": generation,
        }
        answer, _ = self._ask("POST", _topic_path(topic) + "/plan", body, timeout_more_seconds=wait_ms / 1000)
        return _decode(answer, Plan)

    def poll(
        self,
        topic: str,
        *,
        after: str,
        upto: str | None = None,
        limit_rows: int | None = None,
        limit_bytes: int | None = None,
        generation: int | None = None,
    ) -> Page:
        """One page of rows beyond ``after`` up to ``upto``, never past the stable position. Raises as ``plan``."""
        body = {
            "after": after,
            "upto": upto,
            "limit_rows": limit_rows,
            "limit_bytes": limit_bytes,
            "generation": generation,
        }
        answer, headers = self._ask("POST", _topic_path(topic) + "/poll", body, accept=ARROW)
        try:
            with pa.ipc.open_stream(pa.py_buffer(answer)) as stream:
                table = stream.read_all()
            return Page(
                table=table,
                next_position=headers.get("Fairlead-Next-Position") or after,
                generation=int(headers.get("Fairlead-Generation") or 0),
                stable=headers.get("Fairlead-Stable-Position") or "",
                oldest=headers.get("Fairlead-Oldest-Position") or "",
                service=headers.get("Fairlead-Service") or "",
            )
        except (pa.ArrowException, ValueError) as error:
            raise RemoteError(f"the service answered a poll of {topic} with no Arrow stream: {error}") from error

    def offsets(self, topic: str, at: str | int) -> Offset:
        """Where ``at`` (``earliest``, ``latest`` or milliseconds since 1970) lies in ``topic``. Raises as ``plan``."""
        answer, _ = self._ask("GET", f"{_topic_path(topic)}/offsets?ts={quote(str(at))}", None)
        return _decode(answer, Offset)

    def note_reader(self, topic: str, reader: str, *, position: str, generation: int) -> None:
        """Tell the service how far ``reader`` has durably read, for lag and receipts. Raises as ``plan``."""
        body = {"position": position, "generation": generation}
        self._ask("PUT", f"{_topic_path(topic)}/readers/{quote(reader, safe='')}", body)

    # --- writing

    def post(self, topic: str, verb: str, body: dict[str, Any]) -> Any:
        """POST ``body`` to the topic's ``publish`` or ``store``; the decoded JSON answer. Raises as ``plan``."""
        answer, _ = self._ask("POST", f"{_topic_path(topic)}/{verb}", body)
        return msgspec.json.decode(answer) if answer else None

    def transact(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """POST to ``/v1/transactions`` + ``path``; the decoded JSON answer. Raises as ``plan``."""
        answer, _ = self._ask("POST", f"/v1/transactions{path}", body or {})
        return msgspec.json.decode(answer) if answer else None

    # --- one request

    def _ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        *,
        accept: str = "application/json",
        timeout_more_seconds: float = 0.0,
    ) -> tuple[bytes, http.client.HTTPMessage]:
        headers = {"Accept": accept}
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        # The service may have closed a kept-alive connection while it lay idle, which shows only on its next use: that
        # one case is asked again. Not so a publish or store, which may have been taken before the connection broke.
        tries = 2 if self._connection is not None and not path.endswith(("/publish", "/store")) else 1
        while True:
            try:
                return self._exchange(method, path, data, headers, timeout_more_seconds)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                tries -= 1
                if not tries or isinstance(error, TimeoutError):
                    why = str(error) or type(error).__name__
                    raise Temporary(f"{self.base_url} does not answer: {why}") from error

    def _exchange(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str], timeout_more_seconds: float
    ) -> tuple[bytes, http.client.HTTPMessage]:
        connection = self._connect()
        timeout_seconds = self._timeout_seconds + timeout_more_seconds
        connection.timeout = timeout_seconds
        if connection.sock is not None:
            connection.sock.settimeout(timeout_seconds)
        connection.request(method, self._prefix + path, body=data, headers=headers)
        response = connection.getresponse()
        answer = response.read(self._answer_bytes_max + 1)
        if len(answer) > self._answer_bytes_max:
            self.close()
            raise RemoteError(f"{path}: the answer is over {self._answer_bytes_max} bytes")
        if response.status >= 300:
            raise _refusal(path, response.status, response.headers, answer)
        return answer, response.headers

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            if self._context is not None:
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=self._timeout_seconds, context=self._context
                )
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_seconds)
        return self._connection


def _topic_path(topic: str) -> str:
    namespace, _, name = topic.partition("/")
    return f"/v1/namespaces/{quote(namespace, safe='')}/topics/{quote(name, safe='')}"


def _decode(answer: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteError(f"the service answered something else than a {kind.__name__}: {error}") from error


def _refusal(path: str, status: int, headers: http.client.HTTPMessage, answer: bytes) -> Exception:
    try:
        body = msgspec.json.decode(answer, type=_ErrorAnswer).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = _ErrorBody(message=answer[:200].decode("utf-8", "replace"))
    text = f"{path}: {status} {body.code} {body.message}".strip()
    if status == 410 and body.oldest is not None:
        return Expired(text, oldest=body.oldest, rows=body.expired)
    if status == 409 and body.code == "generation_changed" and body.generation is not None:
        return GenerationChanged(text, generation=body.generation)
    if status == 404:
        return TopicMissing(text)
    if status in (408, 429) or status >= 500:
        return Temporary(text, retry_after_seconds=_seconds(headers.get("Retry-After")))
    return Permanent(text, code=body.code or str(status))


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text is not None else None
    except ValueError:
        return None
