"""Files of a Delta table that no version inside the retention needs, those of killed tasks among them."""

from __future__ import annotations

from fairlead_ingest.io.table.delta import opened
from fairlead_ingest.table.store_path import Place


def vacuum(table: Place, *, retention_hours: int, dry_run: bool) -> list[str]:
    """Delete files no version inside the retention needs, those of killed tasks included; their paths."""
    found = opened.open_table(table)
    if found is None:
        return []
    with opened.explained(table):
        return found.vacuum(
            retention_hours=retention_hours, dry_run=dry_run, enforce_retention_duration=False, full=True
        )
