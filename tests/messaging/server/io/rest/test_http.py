"""What all handlers share: errors in JSON, whatever went wrong."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.support.topics.messaging import Topics, b64, serving, until

from fairlead_messaging.api.errors import Conflict, Unavailable
from fairlead_messaging.server.io.rest import http
from fairlead_messaging.server.log import topics as topic_records


def test_errors_as_responses() -> None:
    answer = http.error_response(Conflict("no", code="c", state="aborted"))
    assert answer.status == 409 and isinstance(answer.body, bytes)
    assert msgspec.json.decode(answer.body) == {"error": {"code": "c", "message": "no", "state": "aborted"}}
    assert http.error_response(Unavailable("wait", retry_after_seconds=0.2)).headers["Retry-After"] == "1"
    assert http.error_response(Unavailable("wait", retry_after_seconds=1.5)).headers["Retry-After"] == "2"


async def test_a_defect_is_500_without_its_traceback(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the inner workings")

    monkeypatch.setattr(topic_records, "names", broken)
    answer = await topics.ask("GET", "topics")
    assert (answer.status, answer.code) == (500, "internal")
    assert "inner" not in str(answer.body)


async def opened(topics: Topics) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = topics.url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


def publishing(size: int) -> bytes:
    return (
        "POST /v1/namespaces/default/topics/t/publish HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    ).encode()


async def test_bodies_together_are_bounded() -> None:
    """What has arrived counts, what is only announced does not; room comes back with the connection that held it."""
    async with serving(body_bytes_max=100_000, bodies_bytes_max=100_000, pages_bytes_max=100_000) as topics:
        await topics.create("t")
        announced = [await opened(topics) for _ in range(20)]
        for _, writer in announced:
            writer.write(publishing(100_000))
        await topics.publish("t", "a")
        _, holder = announced[0]
        holder.write(b" " * 90_000)
        await until(lambda: topics.broker.bodies.in_use >= 90_000)
        refused = await topics.ask("POST", "topics/t/publish", {"messages": [b64("x" * 20_000)]})
        assert (refused.status, refused.code, refused.headers["Retry-After"]) == (503, "too_many_bodies", "1")
        assert (await topics.ask("POST", "topics/t/publish", {"messages": [b64("x" * 100_000)]})).status == 413
        holder.close()
        await until(lambda: topics.broker.bodies.in_use == 0)
        await topics.publish("t", "b")
        assert await topics.payloads("t") == ["a", "b"]
        for _, writer in announced:
            writer.close()


async def test_a_body_that_does_not_arrive_is_ended() -> None:
    async with serving(request_seconds_max=0.05) as topics:
        await topics.create("t")
        reader, writer = await opened(topics)
        writer.write(publishing(50) + b"{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        assert topics.broker.bodies.in_use == 0
        writer.close()


@pytest.mark.slow
async def test_pages_that_no_client_takes_are_bounded_and_ended() -> None:
    """Readers that do not read keep others waiting for a moment, not for ever, and cost no more than the limit."""
    megabyte = b64("x" * 1_000_000)
    async with serving(body_bytes_max=2_000_000, pages_bytes_max=2_000_000, request_seconds_max=0.5) as topics:
        await topics.create("t")
        for _ in range(8):
            await topics.ok("POST", "topics/t/publish", {"messages": [megabyte]})
        ask = b"POST /v1/namespaces/default/topics/t/poll HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}"
        _, writer = await opened(topics)
        writer.write(ask)
        await until(lambda: topics.broker.pages.in_use > 2_000_000)
        refused = await topics.ask("POST", "topics/t/poll", {"limit": 1, "startFrom": 1})
        assert (refused.status, refused.code) == (503, "too_many_pages")
        bulk = {"Accept": "application/vnd.apache.arrow.stream"}
        assert (await topics.ask("POST", "topics/t/poll", {}, headers=bulk)).code == "too_many_pages"
        await until(lambda: topics.broker.pages.in_use == 0)
        assert len(await topics.payloads("t", limit=1)) == 1
        writer.close()


async def test_waiting_readers_are_bounded() -> None:
    async with serving(long_polls_max=2) as topics:
        await topics.create("t")
        waiting = [asyncio.create_task(topics.payloads("t", wait_ms=20_000)) for _ in range(2)]
        await until(lambda: topics.broker.notifier.waiting == 2)
        refused = await topics.ask("POST", "topics/t/poll", {"wait_ms": 20_000})
        assert (refused.status, refused.code) == (503, "too_many_long_polls")
        assert await topics.payloads("t") == []
        await topics.publish("t", "a")
        assert await asyncio.gather(*waiting) == [["a"], ["a"]]
        assert await topics.payloads("t", wait_ms=20_000) == ["a"]
