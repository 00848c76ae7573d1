"""What the demo reads of the program that follows a ConfigMap."""

from __future__ import annotations

from pathlib import Path

from e2e.demo.follower import Follower


def test_states_in_order_and_a_half_line_left_out(tmp_path: Path) -> None:
    """Absent, there, changed; what is being written counts once it is whole."""
    log = tmp_path / "follow.log"
    follower = Follower(log)
    assert follower.states() == []
    log.write_text('{"at": 1.5, "data": null}\n{"at": 2, "data": {"revision": "0"}}\n{"at": 3, "da')
    assert follower.revisions() == ["", "0"]
    assert follower.states()[0]["at"] == 1.5
