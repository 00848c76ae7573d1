"""Where reading begins: names, ISO times, TOML times, milliseconds."""

from __future__ import annotations

import datetime
import subprocess
import sys
from typing import Any

import pytest

from fairlead_ingest.source import offsets


@pytest.mark.parametrize(
    ("position", "start"),
    [
        ("earliest", "earliest"),
        ("table", "table"),
        ("2026-11-20T12:00:00Z", 1795176000000),
        ("2026-11-20T12:00:00", 1795176000000),
        ("2026-11-20T13:00:00+01:00", 1795176000000),
        (datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC), 1795176000000),
        (1795176000000, 1795176000000),
    ],
)
def test_a_start_is_a_name_or_a_moment(position: Any, start: str | int) -> None:
    """A time without a zone is UTC."""
    assert offsets.parse_starting_position(position) == start


@pytest.mark.parametrize("position", ["soon", -1, True, None, 1.5, datetime.date(2026, 1, 1)])
def test_anything_else_is_refused(position: Any) -> None:
    """With what may stand there."""
    with pytest.raises(ValueError, match="must be"):
        offsets.parse_starting_position(position)


@pytest.mark.process
def test_workers_of_spark_load_no_settings() -> None:
    """They start often and by the dozen: a settings model would cost each 11 MB and a tenth of a second."""
    code = "import sys, fairlead_ingest.io.topics.spark_source; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
