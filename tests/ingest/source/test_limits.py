"""One default, wherever it is set or described."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.settings import BatchLimits, IngestSettings
from fairlead_ingest.source import batch_size
from fairlead_ingest.source.gaps import ON_EXPIRED, ON_RECREATED

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "ingest.md"


def test_policies_are_the_same_for_settings_and_options() -> None:
    """The first is the default of both."""
    for key, allowed in (("on_expired", ON_EXPIRED), ("on_recreated", ON_RECREATED)):
        field = IngestSettings.model_fields[key]
        assert get_args(field.annotation) == allowed
        assert field.default == allowed[0]


def shown(value: float) -> str:
    mib = 1024 * 1024
    return f"{value // mib} MiB" if isinstance(value, int) and value % mib == 0 else f"{value:g}"


def test_settings_options_and_the_page_have_the_same_defaults() -> None:
    """A job and a user's own query read the same pages."""
    options = SourceOptions.of({"url": "http://127.0.0.1:1", "topics": "a/t"})
    settings = BatchLimits()
    assert (settings.batch_rows, settings.batch_bytes) == (options.max_rows_per_batch, options.max_bytes_per_batch)
    assert (settings.page_rows, settings.page_bytes, settings.split_bytes) == (
        options.page_rows,
        options.page_bytes,
        options.split_bytes,
    )
    assert (
        IngestSettings.model_fields["request_seconds"].default == options.request_seconds == batch_size.REQUEST_SECONDS
    )
    row = re.compile(r"^\| (`maxRowsPerBatch`[^|]*|`pageRows`[^|]*) \| ([^|]*) \|", re.MULTILINE)
    rows = dict(row.findall(PAGE.read_text()))
    said = {
        "`maxRowsPerBatch`, `maxBytesPerBatch`": [options.max_rows_per_batch, options.max_bytes_per_batch],
        "`pageRows`, `pageBytes`, `splits`, `splitBytes`, `waitMs`": [
            options.page_rows,
            options.page_bytes,
            options.splits,
            options.split_bytes,
            options.wait_ms,
        ],
    }
    assert rows == {names: ", ".join(map(shown, values)) for names, values in said.items()}
