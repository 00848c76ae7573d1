"""The messaging service over mutual TLS with access entries, called with any certificate or token.

async with guarded(tmp_path, entry("app", "publish", "default/a")) as service:
    answer = await service.ask("app", "POST", "/v1/namespaces/default/topics/a/publish", body)
"""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.test_utils import TestServer
from tests.support.joining.pki import Authority, Pair
from tests.support.topics.messaging import Answer, Clock, b64

from fairlead_messaging.server.io import access_control
from fairlead_messaging.server.io.access_control import AccessControl
from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.io.rest import routes
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_wire.io import tls

ADMINISTRATOR = {"subject": "administrator", "verbs": ["publish", "consume", "administer"], "topics": ["*"]}


def entry(subject: str, verbs: str, *topics: str) -> dict[str, Any]:
    """One `[[access]]` entry; `verbs` with spaces between."""
    return {"subject": subject, "verbs": verbs.split(), "topics": list(topics)}


@dataclass
class Guarded:
    """``ask`` as a subject: the name of a certificate, created at its first use; None: without a certificate."""

    authority: Authority
    url: str
    metrics: MessagingMetrics
    broker: Broker
    access: AccessControl
    sessions: dict[str | None, aiohttp.ClientSession] = field(default_factory=dict)

    def show(self, name: str, pair: Pair) -> None:
        """From now on ``name`` shows this certificate."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.load_cert_chain(pair.certificate, pair.key)
        self.sessions[name] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

    async def ask(self, name: str | None, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """``path`` below /v1."""
        if name not in self.sessions:
            if name is None:
                context = ssl.create_default_context(cafile=str(self.authority.certificate))
                self.sessions[name] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))
            else:
                self.show(name, self.authority.issue(name))
        async with self.sessions[name].request(method, f"{self.url}/v1{path}", json=body, **options) as response:
            raw = await response.read()
            is_json = response.content_type == "application/json" and raw
            return Answer(response.status, response.headers, await response.json() if is_json else raw)

    async def status(self, name: str | None, method: str, path: str, body: Any = None, **options: Any) -> int:
        return (await self.ask(name, method, path, body, **options)).status

    async def create(self, *topics: str) -> None:
        """Create a topic (``namespace/name``) as the administrator."""
        for each in topics:
            namespace, _, name = each.partition("/")
            assert await self.status("administrator", "PUT", f"/namespaces/{namespace}/topics/{name}") == 200

    async def publish(self, name: str | None, topic: str, *payloads: str, tx: int | None = None, **more: Any) -> Answer:
        namespace, _, last = topic.partition("/")
        body = {"messages": [b64(each) for each in payloads], "transactionWritePointer": tx}
        return await self.ask(name, "POST", f"/namespaces/{namespace}/topics/{last}/publish", body, **more)

    async def poll(self, name: str | None, topic: str, **options: Any) -> Answer:
        namespace, _, last = topic.partition("/")
        return await self.ask(name, "POST", f"/namespaces/{namespace}/topics/{last}/poll", {}, **options)

    async def start(self, name: str) -> int:
        return int((await self.ask(name, "POST", "/transactions", {})).body["transactionWritePointer"])


@contextlib.asynccontextmanager
async def guarded(
    folder: Path, *entries: dict[str, Any], wall: Callable[[], float] = time.time, **keys: Any
) -> AsyncIterator[Guarded]:
    """With an administrator besides the ``entries``, unless ``keys`` set the access; ``wall`` expires certificates."""
    authority = Authority(folder)
    server_pair = authority.issue("messaging", hosts=("127.0.0.1",))
    shown = {
        "tls_ca": str(authority.certificate),
        "tls_cert": str(server_pair.certificate),
        "tls_key": str(server_pair.key),
    }
    said = {"access": [ADMINISTRATOR, *entries], **keys}
    settings = MessagingSettings.model_validate({**shown, **said})
    metrics = MessagingMetrics()
    broker = Broker(MemoryKV(), settings, Clock(), "service")
    access = access_control.of_settings(settings, metrics, wall=wall)
    await access.start()
    server = TestServer(routes.application(broker, metrics, access=access), host="127.0.0.1")
    files = tls.Files(ca=authority.certificate, cert=server_pair.certificate, key=server_pair.key)
    context = tls.server_context(files, certificate_is_optional=access.takes_tokens)
    await server.start_server(ssl=context)
    service = Guarded(authority, str(server.make_url("")).rstrip("/"), metrics, broker, access)
    try:
        yield service
    finally:
        for session in service.sessions.values():
            await session.close()
        broker.stop_waiting()
        await server.close()
        await access.close()
        await broker.close()
