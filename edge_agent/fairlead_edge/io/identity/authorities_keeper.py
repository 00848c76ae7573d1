"""Which authorities this node believes: what it holds, and what the hub says in a session that it should hold.

    authorities ─▶ newest kept ─ read, bounded ─▶ do they vouch for the hub as it is now? ─▶ file, fsync, rename
                                  └─ no: a line in the log, the old ones stay       └─ next dial: a fresh TLS context

Only the file that ``fairlead edge join`` made is written; another belongs to those who put it there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fairlead_edge.io.identity import keys
from fairlead_edge.io.identity.identity_files import IdentityFiles, IdentityFilesError
from fairlead_wire import message
from fairlead_wire.identity import authority_bundle
from fairlead_wire.io import logs

_KEPT: Final = "the authorities before stay"
_log = logs.get("edge.identity")


class AuthoritiesKeeper:
    """``path`` is what ``tls_ca`` names; ``files`` None: it is not the agent's to write."""

    def __init__(self, path: Path, files: IdentityFiles | None) -> None:
        self._path, self._files = path, files
        self._told: tuple[message.Authorities, bytes] | None = None
        self._news = asyncio.Event()
        self._read: tuple[tuple[int, int, int], str] | None = None
        self.counters: Counter[str] = Counter()
        """Bundles that the hub sent: replaced, refused."""

    def held(self) -> str:
        """The digest of what the next dial believes; empty: it cannot be read."""
        try:
            status = self._path.stat()
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            if self._read is None or self._read[0] != stamp:
                with self._path.open("rb") as file:
                    self._read = (stamp, authority_bundle.digest(file.read(authority_bundle.BYTES_MAX + 1)))
        except (OSError, ValueError):
            return ""
        return self._read[1]

    def told(self, header: message.Authorities, content: bytes) -> None:
        """The newest counts, where more come than are written."""
        self._told = (header, content)
        self._news.set()

    async def run(self, changed: Callable[[], None]) -> None:
        """Until cancelled; ``changed`` is called when other authorities are held than before."""
        while True:
            await self._news.wait()
            self._news.clear()
            told, self._told = self._told, None
            if told is not None and await self.take(*told):
                changed()

    async def take(self, header: message.Authorities, content: bytes) -> bool:
        """True: they were written."""
        try:
            wanted = authority_bundle.digest(content)
            if wanted == self.held():
                return False
            if self._files is None:
                raise ValueError(f"{self._path} is not the agent's to write: put the hub's authorities there")
            if not await keys.reaches(header.certificates.encode(), content):
                raise ValueError("the hub's certificate is of none of them: they would lock this node out")
            await asyncio.to_thread(self._files.write_authorities, content)
        except (ValueError, IdentityFilesError, keys.KeyMakerFailed) as error:
            self.counters["authorities_refused"] += 1
            _log.error("authorities_refused", reason=str(error), remedy=f"look at tls_ca of the hub; {_KEPT}")
            return False
        self.counters["authorities_replaced"] += 1
        _log.info("authorities_replaced", digest=wanted, certificates=len(authority_bundle.certificates(content)))
        return True
