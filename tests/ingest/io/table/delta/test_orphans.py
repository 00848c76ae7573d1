"""What vacuum takes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.support.tables.delta_rows import decided, written

from fairlead_ingest.io.table import delta


def test_the_files_of_a_killed_task_go_when_they_are_old_and_no_other(table: Path, tmp_path: Path) -> None:
    delta.append(table, written(table, "01"), decided(table, 0, "01"))
    (old,), (young,) = written(table, "02"), written(table, "03")
    os.utime(table / old.path, (time.time() - 7200,) * 2)
    assert delta.vacuum(table, retention_hours=1, dry_run=True) == [old.path] and (table / old.path).exists()
    assert delta.vacuum(table, retention_hours=1, dry_run=False) == [old.path]
    assert not (table / old.path).exists() and (table / young.path).exists()
    there = delta.size(table)
    assert there is not None and there.rows == 1
    assert delta.vacuum(tmp_path / "none", retention_hours=1, dry_run=False) == []
