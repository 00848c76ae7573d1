"""The file of module tokens, read at the start and after each change; an invalid file leaves the last tokens in use."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from fairlead_edge import module_tokens
from fairlead_edge.module_tokens import BadTokens, ModuleTokens
from fairlead_wire.io import logs

RELOAD_SECONDS: Final = 1.0
WRITABLE_BY_OTHERS: Final = 0o022

_log = logs.get("edge.module_tokens")


class ModuleTokensFile:
    """The tokens file at ``path``.  Raises ``BadTokens``, with the file's name, if it is invalid at the start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = self._signature()
        self._tokens = self._read()

    def read_tokens(self) -> ModuleTokens:
        """The tokens of the last valid file."""
        return self._tokens

    async def keep_loaded(self) -> None:
        """Check for changes every second; runs until cancelled."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            self.reload()

    def reload(self) -> None:
        """Read the file again if it has changed."""
        seen = self._signature()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._tokens = self._read()
        except BadTokens as error:
            remedy = "the last valid tokens stay in use until the file is fixed"
            _log.error("module_tokens_refused", reason=str(error), remedy=remedy)
        else:
            _log.info("module_tokens_loaded", modules=self._tokens.count)

    def _signature(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError as error:
            return (error.errno or 0,)
        return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode)

    def _read(self) -> ModuleTokens:
        try:
            if self.path.stat().st_mode & WRITABLE_BY_OTHERS:
                raise BadTokens("other users of this machine may write to it: chmod go-w")
            with self.path.open("rb") as file:
                content = file.read(module_tokens.FILE_BYTES_MAX + 1)
            return module_tokens.parse(content.decode())
        except UnicodeDecodeError:
            raise BadTokens(f"{self.path}: is not UTF-8") from None
        except FileNotFoundError:
            made = f"fairlead edge module-token MODULE --tokens-file {self.path}"
            raise BadTokens(f"tokens_file {self.path} does not exist; create it with: {made}") from None
        except OSError as error:
            raise BadTokens(f"{self.path}: {error.strerror}") from None
        except BadTokens as error:
            raise BadTokens(f"{self.path}: {error}") from None
