"""The data keys of an agent, each wrapped by the operator's key, in ``encryption.keys`` and a copy of it.

The operator's key encrypts only the data keys, so it can be replaced quickly.  A data key that is no longer used is
dropped; then old pages on the disk cannot be decrypted any more, even with the operator's key.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io import durable_file
from fairlead_edge.io.file_access import KEY_NAME_BYTES

FILE_NAME: Final = "encryption.keys"
COPY_NAME: Final = "encryption.keys.copy"
DATA_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_VERSION: Final = 1


class DataKey(NamedTuple):
    """A key for pages; the head of each encrypted file contains ``name``."""

    name: str
    secret: bytes

    def __repr__(self) -> str:  # keeps the secret out of logs and tracebacks
        return f"DataKey({self.name})"


class _Wrapped(msgspec.Struct, frozen=True):
    name: str
    by: dict[str, str]
    """Nonce and ciphertext in base 64, by the fingerprint of the operator's key."""


class _KeyringDocument(msgspec.Struct, frozen=True):
    version: int
    keys: list[_Wrapped]
    """Newest first."""


_decoder: Final = msgspec.json.Decoder(_KeyringDocument)


def fingerprint(key: bytes) -> str:
    """Identifies an operator's key without revealing anything about it."""
    return hmac.new(key, b"fairlead-edge/1 fingerprint", hashlib.sha256).hexdigest()[:16]


def new_key() -> DataKey:
    return DataKey(secrets.token_hex(KEY_NAME_BYTES // 2), secrets.token_bytes(DATA_KEY_BYTES))


class Keyring(NamedTuple):
    """``keys``: newest first; ``wrapped_by``: fingerprints of the operator's keys that unwrap them."""

    keys: tuple[DataKey, ...]
    wrapped_by: frozenset[str]

    @property
    def current(self) -> DataKey:
        return self.keys[0]

    def of(self, name: str) -> DataKey | None:
        return next((key for key in self.keys if key.name == name), None)


def exists(folder: Path) -> bool:
    return any((folder / name).exists() for name in (FILE_NAME, COPY_NAME))


def read(folder: Path, operator_keys: list[bytes]) -> Keyring | None:
    """The keyring; None if there is none.  Raises ``StoreUnusable``: it is damaged, or these keys do not unwrap it."""
    if not exists(folder):
        return None
    document = _read_either(folder)
    known = {fingerprint(key): key for key in operator_keys}
    opened: list[DataKey] = []
    for wrapped in document.keys:
        ours = [by for by in known if by in wrapped.by]
        if not ours:
            continue
        with contextlib.suppress(InvalidTag, ValueError):
            opened.append(DataKey(wrapped.name, _unwrap(known[ours[0]], wrapped.name, wrapped.by[ours[0]])))
    if len(opened) < len(document.keys):
        asked = sorted({by for wrapped in document.keys for by in wrapped.by})
        raise StoreUnusable(
            f"{folder}: its stores are encrypted with the key of fingerprint {' or '.join(asked)}, and the key given "
            f"has {' and '.join(sorted(known))}: set [store] encryption_key to the file or credential with the key "
            "they were encrypted with; nothing was changed"
        )
    return Keyring(tuple(opened), frozenset(by for wrapped in document.keys for by in wrapped.by))


def write(folder: Path, keys: tuple[DataKey, ...], operator_keys: list[bytes]) -> Keyring:
    """Durably replace the keyring; each of ``operator_keys`` can unwrap it.  Raises ``OSError``."""
    wrapped = [_Wrapped(key.name, {fingerprint(by): _wrap(by, key) for by in operator_keys}) for key in keys]
    content = msgspec.json.format(msgspec.json.encode(_KeyringDocument(_VERSION, wrapped)))
    line = content + b"\n" + hashlib.sha256(content).hexdigest().encode() + b"\n"
    for name in (FILE_NAME, COPY_NAME):
        durable_file.replace(folder / name, line, draft=folder / f"{name}.new")
    return Keyring(keys, frozenset(map(fingerprint, operator_keys)))


def remove(folder: Path) -> None:
    """Remove the keyring, when nothing is encrypted any more."""
    for name in (COPY_NAME, FILE_NAME):
        (folder / name).unlink(missing_ok=True)


def is_whole(folder: Path) -> bool:
    """Whether both copies exist and are equal; otherwise one was not written yet, or was lost or damaged."""
    try:
        return (folder / FILE_NAME).read_bytes() == (folder / COPY_NAME).read_bytes()
    except OSError:
        return False


def _read_either(folder: Path) -> _KeyringDocument:
    wrong = ""
    for name in (FILE_NAME, COPY_NAME):
        try:
            content, sealed, _ = (folder / name).read_bytes().rsplit(b"\n", 2)
            if hashlib.sha256(content).hexdigest().encode() == sealed:
                document = _decoder.decode(content)
                if document.version == _VERSION and document.keys:
                    return document
                wrong = wrong or f"has version {document.version}; this program supports {_VERSION}"
        except (OSError, ValueError, RecursionError) as error:
            wrong = wrong or (error.strerror or "" if isinstance(error, OSError) else "") or "is damaged"
    raise StoreUnusable(
        f"{folder / FILE_NAME}: {wrong or 'is damaged'}, and so is {COPY_NAME}: the stores beside it are encrypted "
        "with the keys it holds; restore it from a copy of this folder, or move the folder away to start without its "
        "content; nothing was changed"
    )


def _wrap(by: bytes, key: DataKey) -> str:
    nonce = os.urandom(_NONCE_BYTES)
    return base64.b64encode(nonce + AESGCM(by).encrypt(nonce, key.secret, _bound(key.name))).decode()


def _unwrap(by: bytes, name: str, wrapped: str) -> bytes:
    content = base64.b64decode(wrapped, validate=True)
    secret = AESGCM(by).decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], _bound(name))
    if len(secret) != DATA_KEY_BYTES:
        raise ValueError("not a data key")
    return secret


def _bound(name: str) -> bytes:
    return f"fairlead-edge/1 data key {name}".encode()
