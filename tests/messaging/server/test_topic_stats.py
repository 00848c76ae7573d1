"""What metrics show of topics, readers and what blocks them."""

from __future__ import annotations

from tests.support.topics.messaging import Topics


async def metrics(topics: Topics) -> dict[str, float]:
    text = (await topics.ask("GET", "/metrics")).body.decode()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name.removeprefix("fairlead_messaging_"): float(value) for name, value in lines}


async def test_size_lag_and_blocked_seconds(topics: Topics) -> None:
    """Messages and bytes held, how far a reader is behind, and how long the first undecided message waits."""
    await topics.create("t", ttl=100)
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
    """The code of the error is the label."""
    await topics.ask("GET", "topics/nothing")
    assert (await metrics(topics))['refused_requests_total{code="topic_not_found"}'] == 1


async def test_known_messages_are_counted(topics: Topics) -> None:
    """A repeated publish is not new traffic."""
    await topics.create("t")
    for _ in range(2):
        await topics.publish("t", "a", producer={"id": "p", "epoch": 1, "sequence": 0})
    seen = await metrics(topics)
    assert seen['published_messages_total{topic="default/t"}'] == 1
    assert seen['known_messages_total{topic="default/t"}'] == 1
