"""Looking into a topic over HTTP."""

from __future__ import annotations

from tests.support.topics.messaging import Topics


async def test_each_row_with_its_state_and_nothing_consumed(topics: Topics) -> None:
    """In pages, from any id on; what is asked for is checked."""
    await topics.create("t")
    await topics.publish("t", "a")
    pointer, _ = await topics.start()
    await topics.publish("t", "b", tx=pointer)
    rows = await topics.ok("GET", "topics/t/inspect")
    assert [(each["state"], each["transaction"]) for each in rows] == [("visible", None), ("undecided", pointer)]
    assert await topics.ok("GET", f"topics/t/inspect?after={rows[0]['id']}&limit=5") == rows[1:]
    assert (await topics.ask("GET", "topics/t/inspect?limit=0")).code == "bad_limit"
    assert (await topics.ask("GET", "topics/t/inspect?after=zz")).code == "bad_message_id"
    assert (await topics.ask("GET", "topics/absent/inspect")).code == "topic_not_found"
    assert await topics.payloads("t") == ["a", "b"]
