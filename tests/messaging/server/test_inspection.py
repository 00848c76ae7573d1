"""Inspect: everything that is there, and why readers see it or not."""

from __future__ import annotations

import base64

import pytest
from tests.support.topics.messaging import Topics, b64, serving


async def test_states(topics: Topics) -> None:
    """Visible, undecided, hidden and expired rows, in order, consuming nothing."""
    await topics.create("t", ttl=100)
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


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "x"}, {"after": "zz"}])
async def test_bad_questions_are_refused(topics: Topics, query: dict[str, str]) -> None:
    """400 with the reason; 404 for a missing topic."""
    await topics.create("t")
    assert (await topics.ask("GET", "topics/t/inspect", params=query)).status == 400
    assert (await topics.ask("GET", "topics/no/inspect")).status == 404


async def test_bytes_are_bounded() -> None:
    """However many rows were asked for, stored ones of one transaction too; the last id leads on."""
    async with serving(poll_bytes_max=10) as topics:
        await topics.create("t")
        pointer, _ = await topics.start()
        await topics.store("t", "a" * 6, "b" * 6, "c" * 6, tx=pointer)
        await topics.publish("t", tx=pointer)
        first = await topics.ok("GET", "topics/t/inspect")
        second = await topics.ok("GET", "topics/t/inspect", params={"after": first[-1]["id"]})
        assert [base64.b64decode(each["payload"])[:1] for each in first + second] == [b"a", b"b", b"c"]
