"""Grants are replaced while the service runs, when ``[[access]]`` in its settings file changed.

file changed ─▶ all settings read and checked ─▶ a table that may replace the one in force ─▶ AccessControl
                        └────── wrong ──────────────────┴──▶ the old grants stay, and a line in the log says why
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fairlead_messaging.server.access import access_model
from fairlead_messaging.server.io.access_control import AccessControl
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_wire.io import logs
from fairlead_wire.io.settings import SettingsError

LOOK_SECONDS: Final = 1.0

_log = logs.get("messaging.access")
_Stamp = tuple[int, int, int, int] | None


class CannotReplace(Exception):
    """For people: why the grants of a file cannot be taken without a restart."""


async def keep_loaded(
    path: Path,
    settings: MessagingSettings,
    access: AccessControl,
    read: Callable[[Path], MessagingSettings],
    *,
    seconds: float = LOOK_SECONDS,
) -> None:
    """Until cancelled.  ``settings``: those in force, as ``read`` gave them from ``path``, perhaps a while ago."""
    last = _stamp(path)
    known: _Stamp | str = "none: the file may have changed between its reading and this first look"
    while True:
        await asyncio.sleep(seconds)
        before, last = last, _stamp(path)
        # Twice the same: half of a file that is being written may say less than is meant, and be right.
        if last == known or last != before:
            continue
        known = last
        try:
            # Ten thousand entries take a while to check: meanwhile the service goes on.
            found = await asyncio.to_thread(read, path)
            changed = found.access != settings.access
            if changed:
                _replace(access, found)
                settings = settings.model_copy(update={"access": found.access})
        except (SettingsError, CannotReplace) as error:
            _log.error("access_kept", reason=str(error), remedy=f"mend {path}; the grants of before count until then")
            continue
        if changed:
            _log.info("access_reloaded", entries=len(found.access), file=str(path))
        if found != settings:
            _log.warning("restart_needed", file=str(path), reason="settings other than [[access]] changed")


def _replace(access: AccessControl, found: MessagingSettings) -> None:
    """Raises ``CannotReplace``."""
    accounts = any(each.entry.subject.kind == "serviceaccount" for each in found.access)
    if accounts and not access.takes_tokens:
        raise CannotReplace("an entry names a ServiceAccount, and no entry did when the service started; restart it")
    access.replace(access_model.table(found.access))


def _stamp(path: Path) -> _Stamp:
    """Of the file that stands there now, also behind the links of a ConfigMap; None: there is none, or it is unread."""
    try:
        found = path.stat()
    except OSError:
        return None
    # Changed, not only modified: a file that could not be read is mended by its mode or its owner.
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
