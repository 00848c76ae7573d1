"""Named readers as resources."""

from __future__ import annotations

from tests.support.topics.messaging import Topics

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}


async def test_readers(topics: Topics) -> None:
    """A position for lag; bad ones are refused."""
    await topics.create("t")
    await topics.publish("t", "a", "b")
    position = (await topics.poll("t")).ids[0]
    await topics.ok("PUT", "topics/t/readers/spark-1", {"position": position, "generation": 1})
    [reader] = await topics.ok("GET", "topics/t/readers")
    assert (reader["name"], reader["position"], reader["lag_messages"]) == ("spark-1", position, 1)
    for body in ({"position": "zz"}, {}, {"position": 1}):
        assert (await topics.ask("PUT", "topics/t/readers/r", body)).status == 400
    assert (await topics.ask("PUT", "topics/t/readers/a.b", {"position": ""})).status == 400
