"""Inspect: everything that is there, and why readers see it or not."""

from __future__ import annotations

import base64

from tests.support.topics.messaging import Topics, b64, serving


async def test_states(topics: Topics) -> None:
    await topics.configure("t", ttl=100)
    await topics.publish("t", "plain", {"payload": b64("short"), "ttl": 1})
    aborted, _ = await topics.start()
    await topics.store("t", "s1", "s2", tx=aborted)
    await topics.publish("t", tx=aborted)
    await topics.finish(aborted, "abort")
    open_, _ = await topics.start()
    await topics.publish("t", "open", tx=open_)
    topics.clock.forward(1001)
    shown = await topics.ok("GET", "topics/t/inspect")
    assert [(base64.b64decode(each["payload"]).decode(), each["state"]) for each in shown] == [
        ("plain", "visible"), ("short", "expired"), ("s1", "hidden"), ("s2", "hidden"), ("open", "undecided"),
    ]  # fmt: skip
    assert [each["transaction"] for each in shown] == [None, None, aborted, aborted, open_]
    assert [each["ttl_seconds"] for each in shown[:2]] == [100, 1]
    after = await topics.ok("GET", "topics/t/inspect", params={"after": shown[2]["id"], "limit": "1"})
    assert [each["id"] for each in after] == [shown[3]["id"]]


async def test_bytes_are_bounded() -> None:
    async with serving(poll_bytes_max=10) as topics:
        await topics.create("t")
        pointer, _ = await topics.start()
        await topics.store("t", "a" * 6, "b" * 6, "c" * 6, tx=pointer)
        await topics.publish("t", tx=pointer)
        first = await topics.ok("GET", "topics/t/inspect")
        second = await topics.ok("GET", "topics/t/inspect", params={"after": first[-1]["id"]})
        assert [base64.b64decode(each["payload"])[:1] for each in first + second] == [b"a", b"b", b"c"]


# --- What metrics show of topics, readers and what blocks them.


async def metrics(topics: Topics) -> dict[str, float]:
    text = (await topics.ask("GET", "/metrics")).body.decode()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name.removeprefix("fairlead_messaging_"): float(value) for name, value in lines}


async def test_size_lag_and_blocked_seconds(topics: Topics) -> None:
    await topics.configure("t", ttl=100)
    await topics.publish("t", "old")
    topics.clock.forward(60_000)
    await topics.publish("t", "12345", "67")
    position = (await topics.poll("t")).ids[1]
    await topics.ok("PUT", "topics/t/readers/r", {"position": position})
    pointer, _ = await topics.start()
    await topics.publish("t", "x", tx=pointer)
    topics.clock.forward(3000)
    seen = await metrics(topics)
    assert seen['topic_messages{topic="default/t"}'] == 4
    assert seen['topic_bytes{topic="default/t"}'] == 11
    assert seen['topic_blocked_seconds{topic="default/t"}'] == 3
    assert seen['reader_lag_messages{reader="r",topic="default/t"}'] == 2
    assert seen['reader_lag_seconds{reader="r",topic="default/t"}'] == 3
    assert seen["transactions_in_progress"] == 1
    topics.clock.forward(40_000)
    assert (await metrics(topics))['topic_messages{topic="default/t"}'] == 3
    await topics.ok("DELETE", "topics/t")
    assert 'topic_messages{topic="default/t"}' not in await metrics(topics)


async def test_what_is_refused_is_counted_by_reason(topics: Topics) -> None:
    await topics.ask("GET", "topics/nothing")
    assert (await metrics(topics))['refused_requests_total{code="topic_not_found"}'] == 1


async def test_known_messages_are_counted(topics: Topics) -> None:
    for _ in range(2):
        await topics.publish("t", "a", producer={"id": "p", "epoch": 1, "sequence": 0})
    seen = await metrics(topics)
    assert seen['published_messages_total{topic="default/t"}'] == 1
    assert seen['known_messages_total{topic="default/t"}'] == 1
