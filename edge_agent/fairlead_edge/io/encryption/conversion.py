"""Converts a store's files from one data key to another, or from or to none; in place, so that no old page remains.

Every byte is overwritten: used pages, free pages, the log, and the copies that a salvage set aside.  A journal beside
the store (``X.converting``) records the progress and holds the piece that is being written:

    piece ──▶ journal, flushed ──▶ file, flushed ──▶ next piece

After a crash, the next start rewrites the piece in the journal and continues after it.  The journal has two slots that
are used alternately, so one piece is intact whenever the power fails; no file is touched before the first piece is in
the journal.  The journal has room for two pieces, however large the store is.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io import durable_file
from fairlead_edge.io.encryption.pages import Pages
from fairlead_edge.io.file_access import PAGE_BYTES, PLAIN_SCHEMA, SEALED_SCHEMA
from fairlead_edge.io.sqlite.wal import FRAME_BYTES, FRAME_HEADER_BYTES, HEADER_BYTES

PIECE_PAGES: Final = 256
JOURNAL: Final = ".converting"
_HEAD_BYTES: Final = 4096
_PIECE: Final = struct.Struct("<IQIQI")
"""CRC-32 of everything after it, number of the piece, index of the file, offset, size in bytes."""
_SLOT_BYTES: Final = 4096 + PIECE_PAGES * FRAME_BYTES
_WAL: Final = "-wal"
_GONE: Final = ("-shm", "-journal", ".new", ".new-wal", ".new-shm", ".new-journal", PLAIN_SCHEMA, SEALED_SCHEMA)
"""Files that are removed, because SQLite, a repeated salvage, or the next opening recreates them."""
_DATABASES: Final = ("", ".damaged", ".salvaging")


class ConversionPlan(msgspec.Struct, frozen=True):
    """Names of the old and the new data key ("" for none), and the files in the order of their conversion."""

    since: str
    until: str
    files: list[str]


class _Piece(NamedTuple):
    number: int
    file: int
    at: int
    content: bytes


_plans: Final = msgspec.json.Decoder(ConversionPlan)


def unfinished(store: Path) -> ConversionPlan | None:
    """The plan of an interrupted conversion; None if there is none or no file was touched yet.

    Raises ``OSError`` or ``StoreUnusable`` if the journal exists and cannot be read: the files may be half converted,
    and only the journal records how far.
    """
    path = journal_of(store)
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            is_whole = os.fstat(file.fileno()).st_size > _HEAD_BYTES
    except FileNotFoundError:
        return None
    with contextlib.suppress(ValueError):
        crc, size, rest = head.split(b" ", 2)
        content = rest[: int(size)]
        if int(crc, 16) == zlib.crc32(content):
            return _plans.decode(content)
    if is_whole:
        raise StoreUnusable(
            f"{path}: is damaged, and the store beside it may be half converted: restore both from a copy of the "
            "folder, or remove this file to continue with what a salvage finds; nothing was changed"
        )
    return None


def journal_of(store: Path) -> Path:
    return store.with_name(store.name + JOURNAL)


def run(store: Path, since: Pages, until: Pages) -> int:
    """Convert every SQLite file of ``store``, resuming an interrupted run.  Returns the bytes written.

    No connection may have any of the files open.  Raises ``OSError``: no room for the journal, or the disk fails.
    """
    plan = unfinished(store)
    assert plan is None or (plan.since, plan.until) == (since.name, until.name)
    if plan is None:
        plan = ConversionPlan(since.name, until.name, [path.name for path in _files(store)])
        _begin(store, plan)
    files = [store.with_name(name) for name in plan.files]
    written = 0
    with journal_of(store).open("r+b") as journal:
        last = _last(journal.fileno())
        if last is not None:
            _write(files[last.file], last)
        for piece in _pieces(files, last, since, until):
            _note(journal.fileno(), piece)
            _write(files[piece.file], piece)
            written += len(piece.content)
    for end in _GONE:
        Path(f"{store}{end}").unlink(missing_ok=True)
    durable_file.flush(store.parent)
    return written


def finish(store: Path) -> None:
    """Remove the journal, once the conversion is recorded elsewhere, too."""
    journal_of(store).unlink(missing_ok=True)
    durable_file.flush(store.parent)


def _files(store: Path) -> Iterator[Path]:
    for end in _DATABASES:
        for log in ("", _WAL):
            if (path := Path(f"{store}{end}{log}")).exists():
                yield path


def _begin(store: Path, plan: ConversionPlan) -> None:
    content = msgspec.json.encode(plan)
    path = journal_of(store)
    draft = path.with_name(path.name + ".new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(b"%08x %d %b" % (zlib.crc32(content), len(content), content))
            file.flush()
            os.posix_fallocate(file.fileno(), 0, _HEAD_BYTES + 2 * _SLOT_BYTES)
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)  # frees its room on a full disk
        raise
    durable_file.flush(path.parent)


def _pieces(files: list[Path], last: _Piece | None, since: Pages, until: Pages) -> Iterator[_Piece]:
    number = 0 if last is None else last.number + 1
    for index, path in enumerate(files):
        if last is not None and index < last.file:
            continue
        log = path.name.endswith(_WAL)
        at = HEADER_BYTES if log else 0
        if last is not None and index == last.file:
            at = last.at + len(last.content)
        unit = FRAME_BYTES if log else PAGE_BYTES
        with path.open("rb") as file:
            while True:
                file.seek(at)
                read = file.read(unit * PIECE_PAGES)
                if not read:
                    break
                units = [read[start : start + unit] for start in range(0, len(read), unit)]
                if log:
                    content = b"".join(_frame(each, since, until) for each in units)
                else:
                    first = at // PAGE_BYTES + 1
                    content = b"".join(
                        until.encrypt(page, since.decrypt(page, each)) for page, each in enumerate(units, first)
                    )
                yield _Piece(number, index, at, content)
                number += 1
                at += len(read)


def _frame(frame: bytes, since: Pages, until: Pages) -> bytes:
    """Convert a frame of the log, whose header names the page; a frame of zeros was never used."""
    number = int.from_bytes(frame[:4], "big")
    if not number:
        return frame
    page = frame[FRAME_HEADER_BYTES:]
    return frame[:FRAME_HEADER_BYTES] + until.encrypt(number, since.decrypt(number, page))


def _write(path: Path, piece: _Piece) -> None:
    opened = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        _put(opened, piece.content, piece.at)
        os.fsync(opened)
    finally:
        os.close(opened)


def _put(opened: int, content: bytes, at: int) -> None:
    while content:
        written = os.pwrite(opened, content, at)
        content, at = content[written:], at + written


def _note(journal: int, piece: _Piece) -> None:
    rest = _PIECE.pack(0, piece.number, piece.file, piece.at, len(piece.content))[4:] + piece.content
    at = _HEAD_BYTES + piece.number % 2 * _SLOT_BYTES
    _put(journal, zlib.crc32(rest).to_bytes(4, "little") + rest, at)
    os.fsync(journal)


def _last(journal: int) -> _Piece | None:
    found = []
    for slot in range(2):
        content = os.pread(journal, _SLOT_BYTES, _HEAD_BYTES + slot * _SLOT_BYTES)
        crc, number, file, at, size = _PIECE.unpack_from(content)
        whole = content[: _PIECE.size + size]
        if size and len(whole) == _PIECE.size + size and zlib.crc32(whole[4:]) == crc:
            found.append(_Piece(number, file, at, whole[_PIECE.size :]))
    return max(found, default=None)
