"""The node's EdgeRoutes objects once more, beside the store: no message goes nowhere because a disk failed.

A node that lost its routes would answer publishers as one that has none: 200, and no delivery.  Where the store lacks
what the disk damaged, and only there, the routes last used are taken from this copy until the hub sent what is missing.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.objects.metastore import HeldObject

_decoder = msgspec.json.Decoder(list[HeldObject])


class RoutesCopy:
    """The file at ``path``; not flushed, for it is of use only when something else fails as well."""

    def __init__(self, path: Path, access: FileAccess = PLAIN) -> None:
        self._path = path
        self._access = access

    def write(self, held: Iterable[HeldObject]) -> None:
        """These are in use now; a disk that takes nothing keeps the older ones."""
        content = msgspec.json.encode(list(held))
        draft = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            draft.write_bytes(self._access.seal(b"%08x %b" % (zlib.crc32(content), content), self._path.name))
            draft.replace(self._path)

    def read(self) -> list[HeldObject]:
        """What was written last; nothing when that is damaged, too."""
        try:
            crc, content = self._access.unseal(self._path.read_bytes(), self._path.name).split(b" ", 1)
            return _decoder.decode(content) if int(crc, 16) == zlib.crc32(content) else []
        except (OSError, ValueError, RecursionError):
            return []
