"""What open pages are sent from one snapshot to the next."""

from tests.support.hubs.hub_core import Core

from fairlead_hub.console import live_frames, snapshot
from fairlead_hub.console.live_frames import LiveFrames
from fairlead_hub.console.node_line import NodeLine


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
    monkeypatch.setattr(live_frames, "LINES_MAX", 3)
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
