"""Prepares encryption before the stores are opened: reads the key and converts the files to what the settings say.

    no key in the settings ──▶ encrypted files are refused
    a key in the settings  ──▶ unwrap data keys ──▶ finish conversions ──▶ convert each store ──▶ drop old data keys

``[store] encryption_key`` names a file with the operator's key, or ``credential:NAME`` of systemd.  ``cryptography`` is
imported only if something is encrypted.  Refused files are not changed.
"""

from __future__ import annotations

import base64
import contextlib
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.file_access import PLAIN, SEALED_SCHEMA, FileAccess, key_name
from fairlead_wire.errors import LocalError
from fairlead_wire.io import logs

KEY_BYTES: Final = 32
CREDENTIAL: Final = "credential:"
CREDENTIALS_DIRECTORY: Final = "CREDENTIALS_DIRECTORY"
FILE_BYTES_MAX: Final = 4096
DIFFERENT_BYTES_MIN: Final = 8
"""A random key has fewer different bytes with a probability below 2^-100."""
OTHERS: Final = 0o077
HOW: Final = "make one with: openssl rand -hex 32 > FILE"

_log = logs.get("edge.encryption")


Extent = Literal["secrets", "all", "none"]
OBJECTS: Final = "objects.db"
MESSAGES: Final = "outbox.db"
STORES: Final = (OBJECTS, MESSAGES)
KEYRING_FILES: Final = ("encryption.keys", "encryption.keys.copy")
SETTING: Final = "encryption_key"
PREVIOUS: Final = "previous_encryption_key"


class OpenedStores(NamedTuple):
    """Access to the files of both stores, and how they are encrypted, for the status."""

    objects: FileAccess = PLAIN
    messages: FileAccess = PLAIN
    extent: Extent = "none"
    key: str = ""
    """Fingerprint of the operator's key."""


class EncryptionOptions(NamedTuple):
    """The options of ``[store]``; ``key`` and ``previous`` name a file or a credential."""

    key: str | None
    previous: str | None = None
    extent: Extent | None = None


def prepare(folder: Path, wanted: EncryptionOptions, environ: Mapping[str, str]) -> OpenedStores:
    """Bring the stores to the state that the settings ask for.

    Raises ``BadKey`` (a setting is wrong) and ``StoreUnusable``.  Then nothing was changed, or the next start resumes.
    """
    if wanted.key is None:
        _refuse_encrypted(folder)
        return OpenedStores()
    keys = [read_key(SETTING, wanted.key, environ, data_dir=folder)]
    if wanted.previous is not None:
        keys.append(read_key(PREVIOUS, wanted.previous, environ))
    extent = wanted.extent or "secrets"
    if extent == "none" and not is_encrypted(folder):
        return OpenedStores()
    from fairlead_edge.io.encryption import sealing

    try:
        return sealing.bring(folder, keys, extent)
    except OSError as error:
        raise StoreUnusable(
            f"{folder}: its encryption cannot be changed: {error.strerror or error}; free some room or check the "
            "disk; the next start resumes the conversion"
        ) from error


def is_encrypted(folder: Path) -> bool:
    """Whether anything in the folder needs a key."""
    traces = (*KEYRING_FILES, *(f"{store}{SEALED_SCHEMA}" for store in STORES))
    return any((folder / name).exists() for name in traces) or any(
        name_in_head(folder / f"{store}{end}") for store in STORES for end in ("", ".salvaging")
    )


def name_in_head(path: Path) -> str | None:
    """The data key that the file names; "" for none, None if there is no file or its head is damaged."""
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


class BadKey(LocalError):
    """The key is missing or invalid; the text names the setting and a remedy, never the content of the file."""


def read_key(setting: str, value: str, environ: Mapping[str, str], *, data_dir: Path | None = None) -> bytes:
    """The 32 bytes of the key that ``value``, given by ``setting``, names.  Raises ``BadKey``."""
    path = key_path(setting, value, environ)
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
            mode = path.stat().st_mode
    except PermissionError as error:
        # Do not suggest HOW: the file may hold the key that the stores are encrypted with.
        remedy = f"give it to the user that runs the agent: chown USER {path}"
        raise BadKey(f"[store] {setting}: {path}: {error.strerror}; {remedy}") from None
    except OSError as error:
        remedy = HOW if isinstance(error, FileNotFoundError) else "give the path of a file"
        raise BadKey(f"[store] {setting}: {path}: {error.strerror}; {remedy}") from None
    key = _decoded(content)
    if key is None:
        raise BadKey(
            f"[store] {setting}: {path}: holds no key of {KEY_BYTES} bytes (raw, as {2 * KEY_BYTES} hex digits, or "
            f"in base 64); {HOW}"
        )
    if len(set(key)) < DIFFERENT_BYTES_MIN:
        raise BadKey(f"[store] {setting}: {path}: its bytes are not random; {HOW}")
    if stat.S_IMODE(mode) & OTHERS and not value.startswith(CREDENTIAL):
        _log.warning("encryption_key_readable", path=str(path), remedy=f"other users may read it: chmod 600 {path}")
    if data_dir is not None and path.resolve().is_relative_to(data_dir.resolve()):
        remedy = "whoever steals the disk has the key: keep it on another disk, or as a systemd credential"
        _log.warning("encryption_key_beside_store", path=str(path), remedy=remedy)
    return key


def key_path(setting: str, value: str, environ: Mapping[str, str]) -> Path:
    """The file of the key.  Raises ``BadKey`` if systemd passed no credentials."""
    if not value.startswith(CREDENTIAL):
        return Path(value)
    name = value.removeprefix(CREDENTIAL)
    folder = environ.get(CREDENTIALS_DIRECTORY, "")
    if not folder:
        raise BadKey(
            f"[store] {setting}: {value}: systemd passed no credentials to this process; put "
            f"LoadCredential={name}:FILE or LoadCredentialEncrypted={name}:FILE into its unit"
        )
    return Path(folder) / name


def _decoded(content: bytes) -> bytes | None:
    if len(content) == KEY_BYTES and not (content.isascii() and content.decode().isprintable()):
        return content  # random bytes are not all printable: 32 letters are a password, or digits of a shorter key
    text = content.strip()
    with contextlib.suppress(ValueError):
        if len(text) == 2 * KEY_BYTES:
            return bytes.fromhex(text.decode("ascii"))
    with contextlib.suppress(ValueError):
        padded = text + b"=" * (-len(text) % 4)
        decoded = base64.b64decode(padded.replace(b"-", b"+").replace(b"_", b"/"), validate=True)
        if len(decoded) == KEY_BYTES:
            return decoded
    return None
