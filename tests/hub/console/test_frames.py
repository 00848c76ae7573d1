"""Frames with numbers, the last ones kept; and what open pages are sent from one snapshot to the next."""

import pytest
from tests.support.hubs.hub_core import Core

from fairlead_hub.console import frames, snapshot
from fairlead_hub.console.frames import FrameRing, LiveFrames
from fairlead_hub.console.lines import NodeLine


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


def shown(**states):
    lines = {name: NodeLine(name, state, 0, 0, 0, 0, "", "") for name, state in states.items()}
    core = Core()
    return snapshot.empty(core.hub.view, core.now)._replace(lines=lines)


def test_only_rows_that_differ_and_names_that_are_gone():
    """The first snapshot is what the page shows by itself."""
    live = LiveFrames()
    assert live.nodes(shown(a="sync", b="sync")) is None
    assert live.nodes(shown(a="sync", b="sync")) is None
    changes = live.nodes(shown(b="away", c="sync"))
    assert changes is not None
    assert ([line.name for line in changes.lines], changes.removed) == (["b", "c"], ["a"])


def test_many_changes_come_in_turns_and_all_of_them_arrive(monkeypatch):
    """Also while the first ones change again at every snapshot."""
    monkeypatch.setattr(frames, "LINES_MAX", 3)
    live, names, seen = LiveFrames(), "abcdefgh", set()
    live.nodes(shown(**{name: "away" for name in names}))
    for turn in range(4):
        busy = "behind" if turn % 2 else "sync"
        changes = live.nodes(shown(**{name: busy if name in "ab" else "sync" for name in names}))
        assert changes is not None and len(changes.lines) <= 3
        seen |= {line.name for line in changes.lines}
    assert seen == set(names)


def test_sections_are_sent_when_they_differ():
    """By their HTML."""
    live = LiveFrames()
    assert live.sections({"totals": "1", "topics": "x"}) == [("totals", "1"), ("topics", "x")]
    assert live.sections({"totals": "2", "topics": "x"}) == [("totals", "2")]
