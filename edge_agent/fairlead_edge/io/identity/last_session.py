"""What the node remembers of its last session, in ``<data_dir>/last-session.json``: durable before the session is used.

When a certificate has expired meanwhile, ``storeEpoch`` shows the hub that this disk is the one it spoke with last;
``time`` is the earliest the current time can be (``identity.clock``).
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
    """The last session; None when there was none, or the file cannot be read."""
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
    """Written whole or not at all.  A failure is only logged: a late renewal would then wait for approval."""
    path = data_dir / FILE
    try:
        durable_file.replace(path, msgspec.json.encode(last))
    except OSError as error:
        _log.warning("last_session_unwritten", file=str(path), reason=str(error))
