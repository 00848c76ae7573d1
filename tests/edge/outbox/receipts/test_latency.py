"""From acceptance to a table, by one clock."""

from __future__ import annotations

from fairlead_edge.outbox.receipts import latency, receipt
from fairlead_edge.outbox.receipts.departure import Departure
from fairlead_edge.outbox.receipts.latency import Latency

AT = "0" * 19 + "5" + "0" * 20


def departure(*, left_at: float = 12.0, generation: int = 1, newest: str = AT) -> Departure:
    return Departure(
        outcome="in_topic",
        left_at=left_at,
        topic="n/t",
        service="s",
        generation=generation,
        first=newest,
        newest=newest,
        epoch=1,
        low=7,
        high=7,
    )


def topic(position: str = AT, generation: int = 1) -> receipt.TopicReach:
    table = receipt.ReadingTable(reader="r", name="x", start="", position=position)
    return receipt.TopicReach(topic="n/t", service="s", generation=generation, as_of=20.0, tables=[table])


def test_a_message_is_measured_when_a_table_has_it() -> None:
    found = Latency()
    assert found.departed(3, departure(), 10.0)
    found.reached(topic("0" * 19 + "4" + "0" * 20), 15.0)
    assert found.quantiles() == [] and found.topics(15.0) == {"n/t": latency.ASK_SECONDS_MIN}
    found.reached(receipt.TopicReach(topic="n/t", service="", generation=0, as_of=20.0), 16.0)
    assert found.topics(16.0), "no table reads it so far"
    found.reached(topic(), 30.0)
    [said] = found.quantiles()
    assert (said.priority, said.measured, said.p50, said.p95) == (3, 1, 20.0, 20.0)
    assert found.topics(30.0) == {}


def test_few_are_followed_and_none_for_ever() -> None:
    """Messages without a position, or whose topic was recreated, are not followed either."""
    found = Latency()
    assert not found.departed(0, departure(newest=""), 10.0)
    followed = [found.departed(0, departure(), 10.0) for _ in range(latency.FOLLOWED_MAX + 1)]
    assert followed == [True] * latency.FOLLOWED_MAX + [False]
    assert found.topics(12.0 + 300.0) == {"n/t": 30.0}, "a tenth of the wait"
    assert found.topics(12.0 + latency.GIVEN_UP_SECONDS) == {}
    assert found.departed(0, departure(), 10.0)
    found.reached(topic(generation=2), 13.0)
    assert found.topics(13.0) == {} and found.quantiles() == []


def test_quantiles_are_of_the_latest() -> None:
    found = Latency()
    for number in range(1, 101):
        found.departed(1, departure(), 0.0)
        found.reached(topic(), float(number))
    [said] = found.quantiles()
    assert (said.measured, said.p50, said.p95) == (100, 50.0, 95.0)
