"""Frames with numbers, the last ones kept."""

import pytest

from fairlead_hub.console import frames
from fairlead_hub.console.frames import FrameRing


def test_a_page_that_comes_back_gets_what_it_missed():
    """Exactly that, in order."""
    ring = FrameRing("run")
    ring.publish("nodes", {"a": 1})
    seen = ring.last_id
    later = [ring.publish("totals", {"html": "<p>\n"}), ring.publish("nodes", {})]
    assert ring.after(seen) == later and ring.after(ring.last_id) == []
    assert later[0].encoded == b'id: run-2\nevent: totals\ndata: {"html":"<p>\\n"}\n\n', "a line break would end it"


@pytest.mark.parametrize("id", ["", "run", "other-1", "run-2", "run-", "run--1", "run-x", "run-" + "9" * 5000, "run-²"])
def test_an_unknown_id_means_to_load_anew(id):
    """Of another run, from the future, or no id at all."""
    ring = FrameRing("run")
    ring.publish("nodes", {})
    assert ring.after(id) is None


def test_the_oldest_go(monkeypatch):
    """By number and by bytes."""
    ring = FrameRing("run")
    first = ring.last_id
    for _ in range(frames.KEPT):
        ring.publish("nodes", {})
    kept = ring.after(first)
    assert kept is not None and len(kept) == frames.KEPT
    ring.publish("nodes", {})
    assert ring.after(first) is None
    monkeypatch.setattr(frames, "KEPT_BYTES", 100)
    ring.publish("nodes", "x" * 200)
    assert ring.after("run-1") is None
