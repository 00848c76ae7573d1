"""The messaging service for tests: its real HTTP interface over a chosen store, with a clock that tests move.

async with serving() as topics:  await topics.create("t");  await topics.publish("t", "a");  await topics.poll("t")
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer

from fairlead_messaging.api import error_codes
from fairlead_messaging.api.error_codes import ErrorAnswer
from fairlead_messaging.api.routes import HEALTH_ROUTES, ROUTES
from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.io.rest import routes
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import OrderedKV
from fairlead_wire.io.spans import Spans

EVERY_ROUTE = (*ROUTES, *HEALTH_ROUTES)
NOON_MS = 1_800_000_000_000


class Clock:
    """Milliseconds since 1970, moved by hand."""

    def __init__(self, now_ms: int = NOON_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def forward(self, milliseconds: int) -> None:
        self.now_ms += milliseconds


@dataclass
class Answer:
    """Status, headers and body of one response."""

    status: int
    headers: Any
    body: Any

    @property
    def code(self) -> str:
        return str(self.body["error"]["code"])


@dataclass
class Polled:
    """A page, payloads as text."""

    ids: list[str]
    payloads: list[str]
    next_position: str

    def __bool__(self) -> bool:
        return bool(self.ids)


def b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


@dataclass
class Topics:
    """A plain HTTP client, so that tests see what external clients see."""

    session: aiohttp.ClientSession
    url: str
    clock: Clock
    broker: Broker
    app: web.Application
    namespace: str = "default"
    answers: list[Answer] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """``path`` is absolute if it starts with /, otherwise below the namespace."""
        url = self.url + (path if path.startswith("/") else f"/v1/namespaces/{self.namespace}/{path}")
        if body is not None and not isinstance(body, bytes):
            options["json"] = body
        elif body is not None:
            options["data"] = body
        async with self.session.request(method, url, **options) as response:
            raw = await response.read()
            is_json = response.content_type == "application/json" and raw
            return Answer(response.status, response.headers, await response.json() if is_json else raw)

    async def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        answer = await self.ask(method, path, body, **options)
        assert answer.status == 200, answer
        return answer.body

    async def create(self, name: str, **properties: Any) -> None:
        await self.ok("PUT", f"topics/{name}", properties or None)

    async def configure(self, name: str, **properties: Any) -> None:
        """Replace a topic's properties."""
        await self.ok("PUT", f"topics/{name}/properties", properties)

    async def properties(self, name: str) -> dict[str, Any]:
        return dict((await self.ok("GET", f"topics/{name}"))["properties"])

    async def publish(self, name: str, *payloads: str | dict[str, Any], tx: int | None = None, **more: Any) -> Any:
        messages = [b64(each) if isinstance(each, str) else each for each in payloads]
        return await self.ok(
            "POST", f"topics/{name}/publish", {"transactionWritePointer": tx, "messages": messages, **more}
        )

    async def store(self, name: str, *payloads: str, tx: int) -> None:
        await self.ok(
            "POST",
            f"topics/{name}/store",
            {"transactionWritePointer": tx, "messages": [b64(each) for each in payloads]},
        )

    async def poll(self, name: str, **body: Any) -> Polled:
        answer = await self.ask("POST", f"topics/{name}/poll", body)
        assert answer.status == 200, answer
        return Polled(
            [each["id"] for each in answer.body],
            [base64.b64decode(each["payload"]).decode() for each in answer.body],
            answer.headers["Fairlead-Next-Position"],
        )

    async def payloads(self, name: str, **body: Any) -> list[str]:
        return (await self.poll(name, **body)).payloads

    async def committed(self, name: str) -> list[str]:
        return await self.payloads(name, isolation="read_committed")

    async def start(self, timeout: float = 30) -> tuple[int, str]:
        """(write pointer, snapshot to poll with)."""
        started = await self.ok("POST", "/v1/transactions", {"timeout": timeout})
        return started["transactionWritePointer"], started["transaction"]

    async def finish(self, pointer: int, how: str, body: Any = None) -> Answer:
        return await self.ask("POST", f"/v1/transactions/{pointer}/{how}", body)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that the service does on its own; the test's timeout is the limit."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event to offer
        await asyncio.sleep(0.001)


async def keeps_alive(topics: Topics, pointer: int) -> None:
    """Returns when a client has renewed a transaction three times; the service's clock advances only in between."""
    for _ in range(3):
        transaction = topics.broker._service.transactions.find(pointer)
        assert transaction is not None
        topics.clock.forward(transaction.expires_ms - topics.clock.now_ms - 1)
        before = transaction.expires_ms
        await until(lambda before=before: _expires(topics, pointer) > before)  # type: ignore[misc]


def _expires(topics: Topics, pointer: int) -> int:
    transaction = topics.broker._service.transactions.find(pointer)
    return transaction.expires_ms if transaction is not None else 0


@contextlib.asynccontextmanager
async def serving(
    kv: OrderedKV | None = None, clock: Clock | None = None, *, spans: Spans | None = None, **keys: Any
) -> AsyncIterator[Topics]:
    """The service on a free port over ``kv`` (default: a new memory store); a given store stays open at the end."""
    clock = clock or Clock()
    store = kv or MemoryKV()
    broker = Broker(
        _Kept(store), MessagingSettings.model_validate({"security": "insecure", **keys}), clock, "test-service"
    )
    await broker.create_system_topics()
    app = routes.application(broker, MessagingMetrics(), spans)
    routes.add_health(app)
    breaches: list[str] = []
    app.on_response_prepare.append(partial(_check_contract, breaches))
    server = TestServer(app)
    await server.start_server(auto_decompress=False)  # as ``app`` serves it
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        try:
            yield Topics(session, str(server.make_url("")).rstrip("/"), clock, broker, app)
        finally:
            broker.stop_waiting()
            await server.close()
            await broker.close()
            if kv is None:
                store.close()
    assert not breaches, "\n".join(breaches)


async def _check_contract(breaches: list[str], request: web.Request, response: web.StreamResponse) -> None:
    """Check that every response in every test follows the contract: its form, status and code."""
    resource = request.match_info.route.resource
    path = resource.canonical if resource is not None else None
    method = "GET" if request.method == "HEAD" else request.method
    route = next((each for each in EVERY_ROUTE if (each.method, each.path) == (method, path)), None)
    raw = response.body if isinstance(response, web.Response) and isinstance(response.body, bytes) else b""
    where = f"{request.method} {request.path} answered {response.status} {raw[:500].decode(errors='replace')}"
    if response.status >= 400 and path != "/readyz":
        code = msgspec.json.decode(raw, type=ErrorAnswer).error["code"]
        known = (*error_codes.EVERYWHERE, *(route.specific_codes if route is not None else ()))
        if code not in known:
            breaches.append(f"{where}: the contract does not name this code there")
        elif code != "http_error" and error_codes.MEANINGS[code][0] != response.status:
            breaches.append(f"{where}: the contract has another status for it")
    elif route is not None and raw and response.content_type == "application/json":
        shapes = [shape for shape in (route.response, route.other_response) if shape is not None]
        if not any(_is_exactly(raw, shape) for shape in shapes):
            breaches.append(f"{where}: not what the contract says: {shapes}")


def _is_exactly(raw: bytes, shape: Any) -> bool:
    try:
        return msgspec.json.encode(msgspec.json.decode(raw, type=shape)) == raw
    except msgspec.ValidationError:
        return False


class _Kept:
    """A store that outlives the service, so that a test can start another one on it."""

    def __init__(self, kv: OrderedKV) -> None:
        self._kv = kv

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)

    def close(self) -> None:
        return None
