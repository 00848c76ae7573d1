"""Brings a folder's stores to the state that the settings ask for (called by ``opening`` with the operator's key).

A data key enters the keyring before the first page is encrypted with it, and leaves the keyring after the last such
page is gone: whenever the process ends, the next start can read everything on disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.encryption import conversion, keyring
from fairlead_edge.io.encryption.keyring import DataKey, Keyring
from fairlead_edge.io.encryption.opening import MESSAGES, OBJECTS, Extent, OpenedStores, is_encrypted, name_in_head
from fairlead_edge.io.encryption.sealed_files import SealedFiles, pages_of, small_files_of
from fairlead_edge.io.file_access import (
    KEY_NAME_BYTES,
    PLAIN,
    PLAIN_SCHEMA,
    SEALED_MAGIC,
    SEALED_SCHEMA,
    FileAccess,
    key_name,
)
from fairlead_edge.io.outbox import side_files
from fairlead_edge.outbox import totals
from fairlead_wire.io import logs

_log = logs.get("edge.encryption")
_SCHEMA_HEAD: Final = 12
"""Bytes before the first page in the file with the schema pages: checksum, size and number."""


class _Small(NamedTuple):
    """A small file that consists of slots of equal size."""

    name: str
    slot_bytes: int
    slots: int


_SMALL: Final = {
    OBJECTS: (_Small("routes.copy", 1 << 62, 1),),
    MESSAGES: (
        _Small(f"{MESSAGES}.totals", totals.SLOT_BYTES, 2),
        _Small(f"{MESSAGES}.handed-out", side_files.BYTES_MAX, 1),
    ),
}


def bring(folder: Path, operator_keys: list[bytes], extent: Extent) -> OpenedStores:
    """Convert the stores; the first of ``operator_keys`` is the new one.  Raises ``StoreUnusable`` and ``OSError``."""
    ring = keyring.read(folder, operator_keys)
    operator = operator_keys[:1]
    if ring is None:
        if is_encrypted(folder):
            raise StoreUnusable(
                f"{folder}: its stores are encrypted, and {keyring.FILE_NAME} with their keys is missing: restore it "
                "from a copy of this folder, or move the folder away to start empty; nothing was changed"
            )
        ring = keyring.write(folder, (keyring.new_key(),), operator)
    elif keyring.fingerprint(operator[0]) not in ring.wrapped_by:
        ring = keyring.write(folder, (keyring.new_key(), *ring.keys), operator)
        _log.info("encryption_key_rotated", key=keyring.fingerprint(operator[0]))
    elif len(ring.wrapped_by) > 1:
        ring = keyring.write(folder, ring.keys, operator)
    wanted = {
        OBJECTS: None if extent == "none" else ring.current,
        MESSAGES: ring.current if extent == "all" else None,
    }
    found = {name: _convert(folder / name, ring, key) for name, key in wanted.items()}
    (folder / "routes.new").unlink(missing_ok=True)  # a draft of the copy of the routes
    for name, key in found.items():
        for small in _SMALL[name]:
            _reseal(folder / small.name, small, ring, key)
    used = {key for key in found.values() if key is not None}
    if not used and extent == "none":
        keyring.remove(folder)
        return OpenedStores()
    kept = tuple(key for key in ring.keys if key in used or key == ring.current)
    if kept != ring.keys:
        keyring.write(folder, kept, operator)
    elif not keyring.is_whole(folder):
        _copy_again(folder, ring, operator)
    return OpenedStores(
        _access(found[OBJECTS], OBJECTS), _access(found[MESSAGES], MESSAGES), extent, keyring.fingerprint(operator[0])
    )


def _copy_again(folder: Path, ring: Keyring, operator: list[bytes]) -> None:
    """Restore the second copy of the keyring, so that damage to one copy does not cost the stores.

    Only after the stores were found to match: the other copy could be the matching one.  A full disk is no error.
    """
    try:
        keyring.write(folder, ring.keys, operator)
    except OSError as error:
        _log.warning("encryption_keys_not_copied", reason=str(error), remedy="free some room and start again")
    else:
        _log.warning("encryption_keys_copied", path=str(folder), reason="one of two copies was missing or damaged")


def _access(key: DataKey | None, store: str) -> FileAccess:
    return PLAIN if key is None else SealedFiles(key, store)


def _convert(store: Path, ring: Keyring, wanted: DataKey | None) -> DataKey | None:
    """Convert a store; returns the data key that it has now.

    This is not ``wanted`` if the head of the store is damaged: then the opening salvages it, and the start after that
    converts it.
    """
    plan = conversion.unfinished(store)
    if plan is not None:
        _run(store, _named(store, ring, plan.since), _named(store, ring, plan.until))
    conversion.finish(store)
    path = store if store.exists() else store.with_name(f"{store.name}.salvaging")
    name = name_in_head(path)
    if name is None or (name and ring.of(name) is None):
        kept = _name_kept(store)
        if kept is None or (kept and ring.of(kept) is None):
            if name is None:  # no file, or none of ours
                return wanted
            return _named(store, ring, name)
        return _named(store, ring, kept)
    found = _named(store, ring, name)
    if found != wanted:
        _run(store, found, wanted)
        conversion.finish(store)
    return wanted


def _run(store: Path, since: DataKey | None, until: DataKey | None) -> None:
    _log.info("store_conversion_started", path=str(store), encrypted=until is not None)
    begun = time.monotonic()
    written = conversion.run(store, pages_of(since, store.name), pages_of(until, store.name))
    seconds = round(time.monotonic() - begun, 3)
    _log.info("store_converted", path=str(store), encrypted=until is not None, bytes=written, seconds=seconds)


def _named(store: Path, ring: Keyring, name: str) -> DataKey | None:
    if not name:
        return None
    key = ring.of(name)
    if key is None:
        raise StoreUnusable(
            f"{store}: is encrypted with data key {name}, which is not in {keyring.FILE_NAME}: the two files come from "
            "different copies of the folder; restore both from one copy; nothing was changed"
        )
    return key


def _name_kept(store: Path) -> str | None:
    """The data key named by the schema pages beside the store; needed when the store's own head is damaged."""
    for end in (SEALED_SCHEMA, PLAIN_SCHEMA):
        try:
            with store.with_name(store.name + end).open("rb") as file:
                return key_name(file.read(_SCHEMA_HEAD + 16)[_SCHEMA_HEAD:])
        except FileNotFoundError:
            continue
    return None


def _reseal(path: Path, small: _Small, ring: Keyring, key: DataKey | None) -> None:
    """Seal a small file with another key, or unseal it.

    Content that is damaged or sealed with a lost key is dropped; it is needed only if a store is damaged.
    """
    try:
        opened = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        size = os.fstat(opened).st_size
        slot_bytes = size if small.slots == 1 else small.slot_bytes
        slots = [os.pread(opened, slot_bytes, number * slot_bytes) for number in range(small.slots)]
        if all(_is_as_wanted(slot, key) for slot in slots):
            return
        name = path.name
        for number, slot in enumerate(slots):
            content = _content(slot, name, ring)
            sealed = small_files_of(key).seal(content, name) if key and content else content
            os.pwrite(opened, sealed.ljust(slot_bytes, b"\0"), number * slot_bytes)
            if small.slots == 1:
                os.ftruncate(opened, len(sealed))
            os.fsync(opened)
    finally:
        os.close(opened)


def _is_as_wanted(slot: bytes, key: DataKey | None) -> bool:
    if key is None:
        return not slot.startswith(SEALED_MAGIC)
    return not slot.strip(b"\0") or slot.startswith(SEALED_MAGIC + key.name.encode())


def _content(slot: bytes, name: str, ring: Keyring) -> bytes:
    if not slot.startswith(SEALED_MAGIC):
        return b"".join(_lines(slot))
    key = ring.of(slot[len(SEALED_MAGIC) : len(SEALED_MAGIC) + KEY_NAME_BYTES].decode(errors="replace"))
    if key is None:
        return b""
    try:
        return small_files_of(key).unseal(slot, name)
    except ValueError:
        return b""


def _lines(slot: bytes) -> Iterable[bytes]:
    """The first line, without older text behind it."""
    line, end, _ = slot.partition(b"\n")
    return line.rstrip(b"\0"), end
