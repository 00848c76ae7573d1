"""A Delta table in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tables.delta_rows import SCHEMA

from fairlead_ingest.io.table import delta


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    delta.ensure(path, SCHEMA)
    return path
