"""Reads a secret from a one-line file, each time it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fairlead_ingest import errors
from fairlead_wire.errors import cause_of

SECRET_CHARS_MAX: Final = 16 * 1024


def read_secret(key: str, file: str | None) -> str | None:
    """The secret in the file of setting ``key``, None without a file. Raises ``Stop``, without showing the secret."""
    if file is None:
        return None
    try:
        with Path(file).open() as opened:
            text = opened.read(SECRET_CHARS_MAX).strip()
    except OSError as error:
        raise errors.Stop(errors.BAD_OPTION, f"[catalog] {key} {file}: {cause_of(error)}") from None
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        raise errors.Stop(errors.BAD_OPTION, f"[catalog] {key} {file}: must be one line of printable characters")
    return text
