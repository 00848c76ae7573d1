"""What the rim counts, by methods: nothing outside adds to its numbers."""

from fairlead_hub.io.io_counts import IoCounts


def test_frames_are_counted_with_their_bytes() -> None:
    """Both ways."""
    counts = IoCounts()
    counts.sent([b"one", b"three"])
    counts.received(7)
    assert (counts.frames_sent, counts.bytes_sent, counts.frames_received, counts.bytes_received) == (2, 8, 1, 7)


def test_codes_are_kept_apart() -> None:
    """Messages up, watches, objects."""
    counts = IoCounts()
    for _ in range(2):
        counts.refused("topic_not_granted")
        counts.put_off("messaging_away")
        counts.restarted("version_lost")
        counts.unusable("too_large")
    assert counts.upstream_refused == {"topic_not_granted": 2} and counts.upstream_deferred == {"messaging_away": 2}
    assert counts.watch_restarts == {"version_lost": 2} and counts.unusable_objects == {"too_large": 2}
