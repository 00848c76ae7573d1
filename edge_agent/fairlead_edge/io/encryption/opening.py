"""Before the stores are opened: is the key the right one, and are the files as the settings want them?

    no key given   ──▶ files that are encrypted are refused
    a key given    ──▶ data keys unwrapped ──▶ unfinished conversions end ──▶ each store as wanted ──▶ old data keys go

Where nothing is encrypted nothing of ``cryptography`` is imported.  What is refused is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.encryption import key_file
from fairlead_edge.io.file_access import PLAIN, SEALED_SCHEMA, FileAccess, key_name

Extent = Literal["secrets", "all", "none"]
OBJECTS: Final = "objects.db"
MESSAGES: Final = "outbox.db"
STORES: Final = (OBJECTS, MESSAGES)
KEYRING_FILES: Final = ("encryption.keys", "encryption.keys.copy")
SETTING: Final = "encryption_key"
PREVIOUS: Final = "previous_encryption_key"


class OpenedStores(NamedTuple):
    """How the stores are reached, and what to say of it."""

    objects: FileAccess = PLAIN
    messages: FileAccess = PLAIN
    extent: Extent = "none"
    key: str = ""
    """Fingerprint of the operator's key."""


class EncryptionOptions(NamedTuple):
    """As ``[store]`` says; ``key`` and ``previous`` name a file or a credential."""

    key: str | None
    previous: str | None = None
    extent: Extent | None = None


def prepare(folder: Path, wanted: EncryptionOptions, environ: Mapping[str, str]) -> OpenedStores:
    """Raises ``key_file.BadKey`` (a setting is wrong) and ``StoreUnusable``; then nothing was changed, or it goes on
    at the next start."""
    if wanted.key is None:
        _refuse_encrypted(folder)
        return OpenedStores()
    keys = [key_file.read(SETTING, wanted.key, environ, data_dir=folder)]
    if wanted.previous is not None:
        keys.append(key_file.read(PREVIOUS, wanted.previous, environ))
    extent = wanted.extent or "secrets"
    if extent == "none" and not is_encrypted(folder):
        return OpenedStores()
    from fairlead_edge.io.encryption import sealing

    try:
        return sealing.bring(folder, keys, extent)
    except OSError as error:
        raise StoreUnusable(
            f"{folder}: its encryption cannot be changed: {error.strerror or error}; free some room or look at the "
            "disk: it goes on where it was at the next start"
        ) from error


def is_encrypted(folder: Path) -> bool:
    """Does anything here need a key?"""
    traces = (*KEYRING_FILES, *(f"{store}{SEALED_SCHEMA}" for store in STORES))
    return any((folder / name).exists() for name in traces) or any(
        name_in_head(folder / f"{store}{end}") for store in STORES for end in ("", ".salvaging")
    )


def name_in_head(path: Path) -> str | None:
    """Which data key the file names; "" for none, None where there is no file or its head is damaged."""
    try:
        with path.open("rb") as file:
            return key_name(file.read(16))
    except (FileNotFoundError, IsADirectoryError):
        return None


def _refuse_encrypted(folder: Path) -> None:
    if is_encrypted(folder):
        raise StoreUnusable(
            f"{folder}: its stores are encrypted, and [store] {SETTING} is not set: set it to the file or credential "
            "with the key they were encrypted with; nothing was changed"
        )
