"""A contract as it is on the disk."""

from __future__ import annotations

from pathlib import Path

from fairlead_ingest import errors
from fairlead_ingest.rows import contract_file
from fairlead_ingest.rows.schema import Contract


def read(path: Path) -> Contract:
    """The contract in a file. Raises ``Stop``."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(contract_file.FILE_CHARS_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{path}: {error}") from None
    return contract_file.parse(text, str(path))
