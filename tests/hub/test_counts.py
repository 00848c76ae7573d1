"""Totals, with tables that users' input cannot grow."""

from fairlead_hub.counts import CODES_MAX, LATENCY_BUCKETS, Counts


def test_latencies_fall_into_their_bucket():
    """At the bound it is inside, above the last it is in the overflow."""
    counts = Counts()
    for seconds in (0.0, LATENCY_BUCKETS[0], 0.3, 1000.0):
        counts.acked(seconds)
    assert counts.acks == sum(counts.latency) == 4
    assert counts.latency[0] == 2
    assert counts.latency[-1] == 1


def test_invented_codes_share_one_place():
    """An edge that answers with a new code each time costs bounded memory."""
    counts = Counts()
    for number in range(CODES_MAX + 50):
        counts.retried(f"code-{number}")
    assert len(counts.retries) == CODES_MAX + 1
    assert counts.retries["other"] == 50
