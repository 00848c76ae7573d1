"""The stores on disk: are they intact, of a supported version, and encrypted with the configured key?

A store is read without disturbing an agent that may be using it.  While an agent runs, the doctor is another reader, as
SQLite allows; otherwise it reads the main file alone, because the two files beside it would belong to the user who runs
the doctor and lock out an agent of another user.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw
import msgspec

from fairlead_cli.doctor.examination import Finding, ok, problem, warning
from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.encryption import opening
from fairlead_edge.io.file_access import CLEAR_BYTES, key_name
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.io.sqlite.schema_pages import USER_VERSION

MIB = 1024 * 1024


class StoreFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file.  ``integrity`` is the result of SQLite's check ("ok"), or "" if it ran out of time."""

    what: str
    path: str
    size_bytes: int
    limit_bytes: int
    version: int | None = None
    known_version: int = 0
    integrity: str = ""
    error: str = ""
    unfinished: bool = False
    """A salvage was interrupted; the next start continues it."""
    encrypted: bool = False
    """If encrypted, only the agent can check it, which it does at each start."""
    damaged_copy: str = ""
    """Where an earlier damaged file was moved."""


def judge_store(store: StoreFile | None, what: str) -> Iterator[Finding]:
    """None: the file does not exist yet."""
    check = f"store.{what}"
    if store is None:
        yield ok(check, f"{what}.db does not exist yet; the agent creates it on its first start")
        return
    if store.error or store.integrity not in ("", "ok"):
        text = f"{store.path} cannot be used: {store.error or store.integrity}"
        yield problem(check, text, "restart the agent, which salvages what can be read, and check the disk")
    elif store.version is not None and store.version > store.known_version:
        text = f"{store.path} has version {store.version}, but this program supports up to {store.known_version}"
        yield problem(check, text, "install the newer agent again: an older one must not write to this file")
    else:
        looked = "intact" if store.integrity == "ok" else "intact as far as the check got in its time limit"
        looked = "encrypted (the agent checks it at each start)" if store.encrypted else looked
        size = f"{store.size_bytes // MIB:,} of {store.limit_bytes // MIB:,} MiB"
        yield ok(check, f"{store.path} is {looked}, version {store.version}, {size}")
    if store.unfinished:
        text = f"the salvage of {store.path} was interrupted"
        yield warning(check, text, "start the agent, which continues it; make sure that the disk has free space")
    if store.damaged_copy:
        text = f"{store.damaged_copy} is a damaged store that was set aside"
        yield warning(check, text, "check the disk's health; you can delete this copy")
    if store.limit_bytes and store.size_bytes > store.limit_bytes * 0.9:
        text = f"{store.path} uses {store.size_bytes // MIB:,} of {store.limit_bytes // MIB:,} MiB"
        remedy = "restore the link so that messages can be sent, raise [store] max_bytes, or allow [store] evict"
        yield warning(f"{check}.size", text, remedy)


CHECK_SECONDS: Final = 3.0
BUSY_MILLISECONDS: Final = 1_000
STEPS: Final = 20_000
"""Instructions of SQLite's virtual machine between two checks of the clock: a few milliseconds."""
ENCRYPTION = "encryption"
OTHERS = 0o077


# ── reading a store beside a running agent ────────────────────────────────────────────────────────────────────────────


def read_store(path: Path, what: str, *, limit_bytes: int, known_version: int, in_use: bool) -> StoreFile | None:
    """None if the file does not exist.  ``in_use``: an agent has it open."""
    unfinished = Path(f"{path}.salvaging").exists()
    if not path.exists() and not unfinished:
        return None
    encrypted = _encrypted_version(path) if path.exists() else None
    if encrypted is not None or not path.exists():
        version, integrity, error = encrypted, "", ""
    else:
        version, integrity, error = _check(path, in_use)
    aside = Path(f"{path}.damaged")
    return StoreFile(
        what=what,
        path=str(path),
        size_bytes=sum(each.stat().st_size for each in (path, Path(f"{path}-wal")) if each.exists()),
        limit_bytes=limit_bytes,
        version=version,
        known_version=known_version,
        integrity=integrity,
        error=error,
        unfinished=unfinished,
        encrypted=encrypted is not None,
        damaged_copy=str(aside) if aside.exists() else "",
    )


def _encrypted_version(path: Path) -> int | None:
    """Its version, which is not encrypted; None if the store is not encrypted."""
    with path.open("rb") as file:
        head = file.read(CLEAR_BYTES)
    return int.from_bytes(head[USER_VERSION : USER_VERSION + 4], "big") if key_name(head) else None


def _check(path: Path, in_use: bool) -> tuple[int | None, str, str]:
    version: int | None = None
    try:
        connection = opened(path, in_use)
        try:
            [(version,)] = rows(connection, "PRAGMA user_version")
            until = time.monotonic() + CHECK_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > until, STEPS)
            [(integrity,), *_] = rows(connection, "PRAGMA quick_check(1)")
            return version, str(integrity), ""
        finally:
            connection.close()
    except apsw.InterruptError:
        return version, "", ""
    except (apsw.Error, UnicodeDecodeError) as error:
        return version, "", str(error) or type(error).__name__


def opened(path: Path, in_use: bool) -> apsw.Connection:
    """Opens it read-only.  Raises ``apsw.Error``."""
    query = "mode=ro" if in_use else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{quote(str(path))}?{query}", flags=flags)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    return connection


# ── encryption ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading ``[store] encryption_key``."""

    error: str = ""
    """Why it cannot be read, or does not open the stores."""
    fingerprint: str = ""
    readable_by_others: bool = False
    on_the_same_disk: bool = False
    """It is in the folder of the stores."""


def judge_key(key: Key | None, place: str) -> Iterator[Finding]:
    """None: no key is configured."""
    if key is None:
        yield ok(ENCRYPTION, "the stores are not encrypted; to encrypt them, set [store] encryption_key")
    elif key.error:
        yield problem(ENCRYPTION, key.error, "give the agent the key that its stores were encrypted with")
    else:
        yield ok(ENCRYPTION, f"the key in {place} is usable; its fingerprint is {key.fingerprint}")
    if key is not None and key.readable_by_others:
        yield warning(ENCRYPTION, f"other users can read {place}", f"chmod 600 {place}")
    if key is not None and key.on_the_same_disk:
        text = f"{place} is in the folder of the stores: whoever takes the disk has both"
        yield warning(ENCRYPTION, text, "keep it on another disk, or as a systemd credential")


# ── the key ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_key(place: str, folder: Path, environ: Mapping[str, str]) -> Key:
    """``place`` is the value of ``[store] encryption_key``."""
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
