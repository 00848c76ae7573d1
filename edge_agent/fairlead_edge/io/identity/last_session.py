"""The record of the last session, ``<data_dir>/last-session.json``, written before the session is used.

When the certificate has expired, ``storeEpoch`` shows the hub that this is the disk of the last session; ``time`` is a
lower bound of the current time (``identity.clock``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from fairlead_edge.identity.clock import Anchor
from fairlead_edge.io import durable_file
from fairlead_wire.io import logs

FILE: Final = "last-session.json"
BYTES_MAX: Final = 64 * 1024
_log = logs.get("edge.identity")


class LastSession(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    store_epoch: int
    time: Anchor


_decoder = msgspec.json.Decoder(LastSession)


def read(data_dir: Path) -> LastSession | None:
    """The last session; None if there was none, or the file cannot be read."""
    path = data_dir / FILE
    try:
        with path.open("rb") as file:
            return _decoder.decode(file.read(BYTES_MAX))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("last_session_unreadable", file=str(path), reason=str(error))
        return None


def write(data_dir: Path, last: LastSession) -> None:
    """Atomically replace the record.  Failures are only logged: a late renewal would then need an approval."""
    path = data_dir / FILE
    try:
        durable_file.replace(path, msgspec.json.encode(last))
    except OSError as error:
        _log.warning("last_session_unwritten", file=str(path), reason=str(error))
