"""The one line of a file with a secret, read again whenever it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fairlead_ingest import errors

SECRET_CHARS_MAX: Final = 16 * 1024


def read_secret(key: str, file: str | None) -> str | None:
    """None where the setting ``key`` names none. Raises ``Stop``, without a word of what is in it."""
    if file is None:
        return None
    try:
        with Path(file).open() as opened:
            text = opened.read(SECRET_CHARS_MAX).strip()
    except OSError as error:
        raise errors.Stop(errors.BAD_OPTION, f"[catalog] {key} {file}: {error}") from None
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        raise errors.Stop(errors.BAD_OPTION, f"[catalog] {key} {file}: must be one line of printable characters")
    return text
