"""Bulk readers over HTTP."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.support.topics.messaging import Answer, Topics

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}


async def page(topics: Topics, **body: Any) -> Answer:
    answer = await topics.ask("POST", "topics/t/poll", body, headers=ARROW)
    if answer.status == 200:
        assert answer.headers["Content-Type"] == ARROW["Accept"]
        answer.body = pa.ipc.open_stream(answer.body).read_all().column("payload").to_pylist()
    return answer


async def plan(topics: Topics, **body: Any) -> dict[str, Any]:
    return dict(await topics.ok("POST", "topics/t/plan", body))


async def test_plan_then_read_each_range(topics: Topics) -> None:
    await topics.publish("t", *(str(n) for n in range(10)))
    found = await plan(topics, after="", splits=2)
    assert sorted(found) == [
        "bytes", "generation", "held_by", "held_since", "oldest", "passed", "ranges", "rows", "service", "stable",
        "upto",
    ]  # fmt: skip
    assert (found["service"], found["generation"], found["rows"], found["bytes"]) == ("test-service", 1, 10, 10)
    assert found["upto"] == found["stable"] == found["ranges"][-1]["upto"]
    payloads = []
    for each in found["ranges"]:
        answer = await page(topics, after=each["after"], upto=each["upto"])
        payloads += answer.body
        assert answer.headers["Fairlead-Next-Position"] == each["upto"]
        assert answer.headers["Fairlead-Generation"] == "1"
        assert answer.headers["Fairlead-Service"] == "test-service"
        assert answer.headers["Fairlead-Stable-Position"] == found["stable"]
        assert answer.headers["Fairlead-Oldest-Position"] == found["oldest"]
    assert payloads == [str(n).encode() for n in range(10)]


async def test_nothing_is_read_past_the_first_undecided_message(topics: Topics) -> None:
    """The stable position holds there and never goes back; isolation none reads on."""
    await topics.publish("t", "a")
    before = (await plan(topics))["stable"]
    pointer, _ = await topics.start()
    await topics.publish("t", "b", tx=pointer)
    await topics.publish("t", "c")
    held = await plan(topics)
    assert (held["rows"], held["held_by"]) == (1, pointer)
    assert held["stable"] >= before
    assert (await page(topics)).body == [b"a"]
    assert (await page(topics, isolation="none")).body == [b"a", b"b", b"c"]
    await topics.finish(pointer, "abort")
    after = await plan(topics)
    assert after["stable"] > held["stable"]
    assert (await page(topics)).body == [b"a", b"c"]


async def test_a_start_behind_the_undecided_reads_on(topics: Topics) -> None:
    """What lies before a start does not concern it; a plan from there agrees with the pages, and so do plain polls."""
    pointer, _ = await topics.start()
    await topics.publish("t", "a", tx=pointer)
    await topics.publish("t", "b")
    behind = (await topics.poll("t", limit=1)).next_position
    found = await plan(topics, after=behind)
    assert (found["rows"], found["held_by"]) == (1, None)
    assert (await page(topics, after=behind)).body == [b"b"]
    assert await topics.payloads("t", startFrom=behind, inclusive=False, isolation="read_committed") == ["b"]
    assert await topics.payloads("t", startFrom=behind, isolation="read_committed") == []


async def test_limits(topics: Topics) -> None:
    await topics.publish("t", "aaaa", "bbbb", "cccc")
    first = await page(topics, limit_rows=2)
    assert first.body == [b"aaaa", b"bbbb"]
    second = await page(topics, after=first.headers["Fairlead-Next-Position"], limit_bytes=1)
    assert second.body == [b"cccc"]


async def test_an_expired_start_is_410_with_the_oldest(topics: Topics) -> None:
    await topics.configure("t", ttl=10)
    await topics.publish("t", "a")
    await topics.publish("t", "b")
    first = (await topics.poll("t")).ids[0]
    topics.clock.forward(11_000)
    await topics.publish("t", "c")
    for verb in ("plan", "poll"):
        answer = await topics.ask("POST", f"topics/t/{verb}", {"after": first}, headers=ARROW)
        assert (answer.status, answer.code, answer.body["error"]["expired"]) == (410, "expired", 1)
        assert (await page(topics, after=answer.body["error"]["oldest"])).body == [b"c"]
    assert (await page(topics, after="")).body == [b"c"]
    await topics.broker.cleaner.clean()
    assert (await page(topics, after=first)).status == 410


async def test_another_generation_is_409(topics: Topics) -> None:
    await topics.ok("DELETE", "topics/t")
    await topics.create("t")
    for verb in ("plan", "poll"):
        answer = await topics.ask("POST", f"topics/t/{verb}", {"generation": 1}, headers=ARROW)
        assert (answer.status, answer.code, answer.body["error"]["generation"]) == (409, "generation_changed", 2)
    answer = await topics.ask("PUT", "topics/t/readers/r", {"position": "", "generation": 1})
    assert answer.status == 409


async def test_offsets(topics: Topics) -> None:
    await topics.configure("t", ttl=100)
    assert (await topics.ok("GET", "topics/t/offsets?ts=latest"))["position"] == ""
    await topics.publish("t", "a")
    at = topics.clock.now_ms
    topics.clock.forward(10)
    await topics.publish("t", "b")
    for ts, expected in (
        ("earliest", [b"a", b"b"]),
        (at, [b"a", b"b"]),
        (at + 1, [b"b"]),
        ("latest", []),
        (0, [b"a", b"b"]),
    ):
        offset = await topics.ok("GET", f"topics/t/offsets?ts={ts}")
        assert (await page(topics, after=offset["position"])).body == expected
    topics.clock.forward(101_000)
    await topics.publish("t", "c")
    offset = await topics.ok("GET", f"topics/t/offsets?ts={at}")
    assert (await page(topics, after=offset["position"])).body == [b"c"]


async def test_a_plan_waits_for_something_to_read(topics: Topics) -> None:
    assert (await plan(topics, wait_ms=10))["rows"] == 0


async def test_readers(topics: Topics) -> None:
    await topics.publish("t", "a", "b")
    position = (await topics.poll("t")).ids[0]
    await topics.ok("PUT", "topics/t/readers/spark-1", {"position": position, "generation": 1})
    [reader] = await topics.ok("GET", "topics/t/readers")
    assert (reader["name"], reader["position"], reader["lag_messages"]) == ("spark-1", position, 1)
