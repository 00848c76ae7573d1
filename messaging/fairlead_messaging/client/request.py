"""One request to the messaging service and its response, as values: what to send, and how to read the answer.

Both clients send the same requests, which ``requests`` builds.  pyarrow is imported when the first Arrow page is read,
so most clients do not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from fairlead_messaging.api import headers
from fairlead_messaging.api.routes import ApiRoute
from fairlead_messaging.client import errors
from fairlead_messaging.client.errors import Denied
from fairlead_wire.errors import LocalError, RemoteError
from fairlead_wire.link import peer_json
from fairlead_wire.traces.trace import TRACEPARENT

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R")


def _raise(refused: Denied, in_doubt: bool) -> Any:
    raise refused


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest(Generic[T]):
    """One request.  ``path`` is URL-encoded.  ``wait_seconds``: how long the service may deliberately delay its answer.

    ``repeatable``: the request is idempotent, so it may be sent again after a lost answer.
    ``on_refusal(refused, in_doubt)`` may turn a refusal into a result; ``in_doubt``: an earlier attempt got no answer.
    """

    method: str
    path: str
    decode: Callable[[Response], T]
    body: bytes | None = None
    accept: str = headers.JSON
    wait_seconds: float = 0.0
    repeatable: bool = True
    on_refusal: Callable[[Denied, bool], T] = _raise
    traceparent: str | None = None
    """The W3C trace context of the request, if the caller records one."""

    @property
    def headers(self) -> dict[str, str]:
        found = {"Accept": self.accept}
        if self.body is not None:
            found["Content-Type"] = headers.JSON
        if self.traceparent is not None:
            found[TRACEPARENT] = self.traceparent
        return found

    def read(self, response: Response, *, in_doubt: bool = False) -> T:
        """The result.  Raises an error of ``errors``; ``RemoteError`` for an answer that this service never gives."""
        if 200 <= response.status < 300:
            return self.decode(response)
        failure = errors.from_response(
            f"{self.method} {self.path}", response.status, response.headers, response.body, url=response.url
        )
        if isinstance(failure, Denied):
            return self.on_refusal(failure, in_doubt)
        raise failure


def build(route: ApiRoute[Any], *names: str | int, decode: Callable[[Response], T], **more: Any) -> ClientRequest[T]:
    """A request whose answer ``decode`` reads; ``more``: fields of ``ClientRequest``, or a ``query``."""
    query = more.pop("query", None)
    path = route.at(*names) + (f"?{urlencode(msgspec.to_builtins(query))}" if query is not None else "")
    body = more.pop("body", None)
    raw = None if body is None else msgspec.json.encode(body)
    return ClientRequest(method=route.method, path=path, decode=decode, body=raw, **more)


def build_json(route: ApiRoute[R], *names: str | int, **more: Any) -> ClientRequest[R]:
    """A request whose answer is the JSON that the route declares."""
    return build(route, *names, decode=lambda response: response.json(route.response), **more)


def build_empty(route: ApiRoute[Any], *names: str | int, **more: Any) -> ClientRequest[None]:
    """A request whose answer has no content."""
    return build(route, *names, decode=lambda response: None, **more)


def missing_is_done(kind: type[Denied], code: str | None = None) -> Callable[[Denied, bool], None]:
    """For deletions: "not found" counts as success if an earlier attempt may have deleted the resource."""

    def missing(refused: Denied, in_doubt: bool) -> None:
        if not (in_doubt and isinstance(refused, kind) and code in (None, refused.code)):
            raise refused

    return missing


def split(topic: str) -> tuple[str, str]:
    """(namespace, name) of ``namespace/name``.  Raises ``LocalError``."""
    namespace, slash, name = topic.partition("/")
    if not (namespace and slash and name):
        raise LocalError(f"a topic is namespace/name, not {topic!r}")
    return namespace, name


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """Names of ``headers`` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str = ""
    """Address of the server."""

    def header(self, name: str) -> str | None:
        return self.headers.get(name.lower())

    @property
    def generation(self) -> int:
        """The generation of the topic; 0 if the answer does not name it."""
        text = self.header(headers.GENERATION) or ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0

    def json(self, kind: type[T] | None) -> T:
        """The body as ``kind``.  Raises ``Malformed``, a ``RemoteError``, for a body of another shape."""
        shape: Any = kind
        decoded: T = peer_json.decode(_decoder(shape), self.body)
        return decoded


@lru_cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowPage:
    """An answer to a bulk poll, with the columns ``id`` (binary), ``ts`` (timestamp[us, UTC]), ``payload`` (binary)."""

    table: pa.Table
    next_position: str
    generation: int
    stable: str
    oldest: str
    service: str
    hidden: int = 0
    """How many messages of rolled-back transactions were skipped."""


def read_arrow_page(after: str, response: Response) -> ArrowPage:
    """``after``: the requested start of the page.  Raises ``RemoteError`` for anything but an Arrow stream."""
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(pa.py_buffer(response.body)) as stream:
            table = stream.read_all()
        return ArrowPage(
            table=table,
            next_position=response.header(headers.NEXT_POSITION) or after,
            generation=int(response.header(headers.GENERATION) or 0),
            stable=response.header(headers.STABLE_POSITION) or "",
            oldest=response.header(headers.OLDEST_POSITION) or "",
            service=response.header(headers.SERVICE) or "",
            hidden=int(response.header(headers.HIDDEN_MESSAGES) or 0),
        )
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RemoteError(f"the service answered a poll with no Arrow stream: {error}") from error
