"""A ServiceAccount's token as a file, for each request: Kubernetes replaces it while programs run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fairlead_wire.errors import LocalError

LOOK_SECONDS: Final = 5.0
TOKEN_BYTES_MAX: Final = 8192


class TokenFile:
    """Any number of threads may ask at once."""

    def __init__(self, path: str, *, steady: Callable[[], float] = time.monotonic) -> None:
        """Raises ``LocalError`` when there is no token in it."""
        self._path = Path(path)
        self._steady = steady
        self._token, self._read_at = self._read(), steady()

    def header(self) -> dict[str, str]:
        """What a request says of us.  While the file cannot be read the token from before counts."""
        now = self._steady()
        if now - self._read_at >= LOOK_SECONDS:
            self._read_at = now
            # It is being replaced, or the service will say that the old one has ended.
            with contextlib.suppress(LocalError):
                self._token = self._read()
        return {"Authorization": f"Bearer {self._token}"}

    def _read(self) -> str:
        try:
            with self._path.open("rb") as file:
                token = file.read(TOKEN_BYTES_MAX + 1).strip()
        except OSError as error:
            raise LocalError(f"token_file {self._path}: {error.strerror or error}") from None
        if not token or len(token) > TOKEN_BYTES_MAX or not token.isascii() or len(token.split()) != 1:
            raise LocalError(f"token_file {self._path}: is no token: one word of at most {TOKEN_BYTES_MAX} characters")
        return token.decode()
