"""A port of the hub's HTTP has a bounded number of connections."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from fairlead_hub.io import http


async def test_those_that_ask_nothing_make_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is always answered, and an answer on its way goes on."""
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 4)
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def waits(_: web.Request) -> web.Response:
        asked.set()
        await goes_on.wait()
        return web.Response(text="here")

    app = web.Application()
    app.router.add_get("/waits", waits)
    http.HubHealth(lambda: ([], False)).add_to(app, lambda: b"")
    runner, port = await http.listen(app, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        slow = asyncio.create_task(session.get(f"{url}/waits"))
        await asyncio.wait_for(asked.wait(), 60)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
        async with asyncio.timeout(60):
            while sum(reader.at_eof() or reader.exception() is not None for reader, _ in silent) < 7:
                async with session.get(f"{url}/healthz") as answer:
                    assert answer.status == 200
        assert not slow.done()
        goes_on.set()
        async with await slow as answer:
            assert await answer.text() == "here"
        for _, writer in silent:
            writer.close()
    await runner.cleanup()


async def test_a_port_that_ended_listens_no_more() -> None:
    """Its address is free again."""
    runner, port = await http.listen(web.Application(), "127.0.0.1", 0)
    await runner.cleanup()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
