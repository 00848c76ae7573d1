"""What is remembered of the last session."""

from __future__ import annotations

from pathlib import Path

from fairlead_edge.identity.clock import Anchor
from fairlead_edge.io.identity import last_session
from fairlead_edge.io.identity.last_session import LastSession

LAST = LastSession(store_epoch=2**53 - 1, time=Anchor(wall_seconds=1.5e9, boot_id="one", boot_seconds=12.5))


def test_it_is_read_again(tmp_path: Path) -> None:
    assert last_session.read(tmp_path) is None
    last_session.write(tmp_path, LAST)
    assert last_session.read(tmp_path) == LAST
    assert [path.name for path in tmp_path.iterdir()] == [last_session.FILE]
    assert (tmp_path / last_session.FILE).stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_read_or_written_is_no_error(tmp_path: Path) -> None:
    """The agent goes on: a late renewal would wait for approval, no more."""
    (tmp_path / last_session.FILE).write_text("{")
    assert last_session.read(tmp_path) is None
    last_session.write(tmp_path / "missing", LAST)
