"""What only the asyncio client has: its loop, its tasks, its own TLS context.  The rest is in the conformance suite."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.joining.pki import Authority
from tests.support.topics.messaging import Topics, until

from fairlead_messaging.client.io import async_client as client_module
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.connections import Tls
from fairlead_wire.errors import LocalError
from fairlead_wire.io import tls


async def test_a_cancelled_call_leaves_nothing_behind(topics: Topics) -> None:
    async with AsyncClient(topics.url) as client:
        waiting = asyncio.create_task(client.poll("default", "t", wait_ms=60_000))
        await until(lambda: topics.broker.notifier.waiting == 1)
        waiting.cancel()
        await until(lambda: topics.broker.notifier.waiting == 0)
        assert await client.topics("default") == ["t"]


async def test_it_may_be_closed_and_used_again(topics: Topics) -> None:
    client = AsyncClient(topics.url)
    assert await client.topics("default") == ["t"]
    await client.close()
    assert await client.topics("default") == ["t"]
    await client.close()


async def test_a_client_whose_block_has_ended_says_so(topics: Topics) -> None:
    """It would open connections that nobody closes."""
    async with AsyncClient(topics.url) as client:
        pass
    with pytest.raises(LocalError, match="has ended: call it inside, or make a new client"):
        await client.topics("default")
    async with client:
        assert await client.topics("default") == ["t"]


async def test_replaced_certificates_are_used_for_new_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "RELOAD_SECONDS", 0.0)
    authority = Authority(tmp_path / "pki")
    names: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        names.append(tls.peer_name(request.transport.get_extra_info("peercert")))
        return web.json_response([], headers={"Connection": "close"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    server_files = authority.issue("messaging", hosts=("127.0.0.1",))
    context = tls.server_context(
        tls.Files(ca=authority.certificate, cert=server_files.certificate, key=server_files.key)
    )
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    first, second = authority.issue("first"), authority.issue("second")
    cert, key = tmp_path / "cert", tmp_path / "key"
    cert.write_bytes(first.certificate.read_bytes())
    key.write_bytes(first.key.read_bytes())
    files = Tls(ca=str(authority.certificate), cert=str(cert), key=str(key))
    async with AsyncClient(f"https://127.0.0.1:{server.port}", tls=files) as client:
        await client.topics("n")
        cert.write_bytes(b"nonsense")
        await client.topics("n")
        cert.write_bytes(second.certificate.read_bytes())
        key.write_bytes(second.key.read_bytes())
        os.utime(cert, ns=(1, 1))  # also when the clock is too coarse to distinguish two writes
        await client.topics("n")
    await server.close()
    assert names == ["first", "first", "second"]
