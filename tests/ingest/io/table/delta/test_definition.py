"""What is a table of ours."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from fairlead_ingest import errors
from fairlead_ingest.io.table import delta


def test_the_table_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """Not partitioned as ours are."""
    write_deltalake(str(tmp_path / "rows"), pa.table({"_id": ["1"], "_topic": ["t"]}))
    with pytest.raises(errors.Stop, match=errors.TABLE_UNFIT):
        delta.ensure(tmp_path / "rows", pa.schema([("_id", pa.string())]))
