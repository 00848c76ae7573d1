"""A table of Iceberg in a folder, for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tables.iceberg_table import IcebergTable


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    return IcebergTable(tmp_path)
