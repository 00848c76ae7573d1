"""The totals beside the outbox: the last write that was whole."""

from __future__ import annotations

from pathlib import Path

from fairlead_edge.io.outbox.side_files import TotalsFile
from fairlead_edge.outbox.totals import SLOT_BYTES, OutboxTotals


def test_the_last_whole_one_is_read(tmp_path: Path) -> None:
    """Also when the process ended in the middle of the next."""
    path = tmp_path / "outbox.db.totals"
    file = TotalsFile(path)
    assert file.read() is None
    for commits in range(1, 6):
        file.write(OutboxTotals(commits, ()))
        assert file.read() == OutboxTotals(commits, ())
    file.close()
    content = bytearray(path.read_bytes())
    content[SLOT_BYTES] ^= 1  # where the fifth is
    path.write_bytes(content)
    again = TotalsFile(path)
    assert again.read() == OutboxTotals(4, ())
    again.close()
