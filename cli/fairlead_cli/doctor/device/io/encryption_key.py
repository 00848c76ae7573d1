"""Reads the key as the agent would, and tries it on the data keys beside the stores; changes nothing."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from fairlead_cli.doctor.device.encryption import Key
from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.encryption import opening

OTHERS = 0o077


def look(place: str, folder: Path, environ: Mapping[str, str]) -> Key:
    """``place`` is what ``[store] encryption_key`` says."""
    from fairlead_edge.io.encryption import keyring  # it imports cryptography

    try:
        key = opening.read_key("encryption_key", place, environ)
        keyring.read(folder, [key])
        path = opening.key_path("encryption_key", place, environ)
        mode = stat.S_IMODE(path.stat().st_mode)
    except (opening.BadKey, StoreUnusable, OSError) as error:
        return Key(error=str(error))
    is_file = not place.startswith(opening.CREDENTIAL)
    return Key(
        fingerprint=keyring.fingerprint(key),
        readable_by_others=is_file and bool(mode & OTHERS),
        on_the_same_disk=is_file and path.resolve().is_relative_to(folder.resolve()),
    )
