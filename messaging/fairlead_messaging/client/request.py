"""One request of the messaging service, as a value: what to send and how to read the answer.

No socket here: the asyncio client and the synchronous one send the same requests (``requests``), each in its way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from fairlead_messaging.api import headers
from fairlead_messaging.api.routes import ApiRoute
from fairlead_messaging.client import errors
from fairlead_messaging.client.errors import Denied
from fairlead_messaging.client.response import Response
from fairlead_wire.errors import LocalError
from fairlead_wire.traces.trace import TRACEPARENT

T = TypeVar("T")
R = TypeVar("R")


def _raise(refused: Denied, in_doubt: bool) -> Any:
    raise refused


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest(Generic[T]):
    """One request.  ``path`` is encoded.  ``wait_seconds`` is how long the service may hold the answer back on purpose.

    ``repeatable``: doing it twice is as good as once, so it may be sent again when the answer was lost.
    ``on_refusal(refused, in_doubt)`` may turn a refusal into a result; ``in_doubt``: an earlier sending had no answer.
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
    """The W3C trace context this belongs to, where one is recorded."""

    @property
    def headers(self) -> dict[str, str]:
        found = {"Accept": self.accept}
        if self.body is not None:
            found["Content-Type"] = headers.JSON
        if self.traceparent is not None:
            found[TRACEPARENT] = self.traceparent
        return found

    def read(self, response: Response, *, in_doubt: bool = False) -> T:
        """The result.  Raises an error of ``errors``, or ``RemoteError`` for what this service does not say."""
        if 200 <= response.status < 300:
            return self.decode(response)
        failure = errors.of(f"{self.method} {self.path}", response.status, response.headers, response.body)
        if isinstance(failure, Denied):
            return self.on_refusal(failure, in_doubt)
        raise failure


def to(route: ApiRoute[Any], *names: str | int, decode: Callable[[Response], T], **more: Any) -> ClientRequest[T]:
    """A request to a route whose answer ``decode`` reads; ``more``: fields of ``ClientRequest``, or a ``query``."""
    query = more.pop("query", None)
    path = route.at(*names) + (f"?{urlencode(msgspec.to_builtins(query))}" if query is not None else "")
    body = more.pop("body", None)
    raw = None if body is None else msgspec.json.encode(body)
    return ClientRequest(method=route.method, path=path, decode=decode, body=raw, **more)


def ask(route: ApiRoute[R], *names: str | int, **more: Any) -> ClientRequest[R]:
    """A request whose answer is the route's own."""
    return to(route, *names, decode=lambda response: response.json(route.response), **more)


def order(route: ApiRoute[Any], *names: str | int, **more: Any) -> ClientRequest[None]:
    """A request whose answer says nothing more."""
    return to(route, *names, decode=lambda response: None, **more)


def gone(kind: type[Denied], code: str | None = None) -> Callable[[Denied, bool], None]:
    """For deletions: that it is not there is as good, when an earlier sending may have deleted it."""

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
