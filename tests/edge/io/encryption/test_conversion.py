"""Files converted in place: the whole of them, and goes on after an end at any step."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.kills.interruptions import Killed

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io import file_access
from fairlead_edge.io.encryption import conversion
from fairlead_edge.io.encryption.pages import EncryptedPages, Pages, PlainPages
from fairlead_edge.io.file_access import SQLITE_MAGIC

PLAIN = PlainPages()
FIRST = EncryptedPages(bytes(range(64)), "0a1b2c3d")
SECOND = EncryptedPages(bytes(range(64, 128)), "ffffffff")


def plain_files(folder: Path, seed: int = 1) -> dict[str, bytes]:
    """A database, its log with frames, unused room and a torn end, and a copy a salvage set aside, cut short."""
    random = Random(seed)
    database = SQLITE_MAGIC + random.randbytes(5 * 4096 - 16)
    frames = b"".join((n % 5 + 2).to_bytes(4, "big") + bytes(20) + random.randbytes(4096) for n in range(5))
    files = {
        "a.db": database,
        "a.db-wal": random.randbytes(32) + frames + bytes(2 * 4120) + (3).to_bytes(4, "big") + random.randbytes(216),
        "a.db.damaged": database[: 3 * 4096 + 1000],
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return files


def convert(folder: Path, since: Pages, until: Pages) -> None:
    head = (folder / "a.db").read_bytes()[:16]
    if conversion.unfinished(folder / "a.db") or file_access.key_name(head) == since.name:
        conversion.run(folder / "a.db", since, until)
    conversion.finish(folder / "a.db")


def contents(folder: Path, *names: str) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names}


def test_every_byte_is_written_over_and_comes_back(tmp_path: Path) -> None:
    before = plain_files(tmp_path)
    for name in ("a.db-shm", "a.db.schema", "a.db.new"):
        (tmp_path / name).write_bytes(b"made again")
    convert(tmp_path, PLAIN, FIRST)
    sealed = contents(tmp_path, *before)
    for name, content in before.items():
        assert len(sealed[name]) == len(content)
        assert not [at for at in range(112, len(content) - 300, 32) if content[at : at + 32] in sealed[name]
                    and content[at : at + 32].strip(b"\0")]  # fmt: skip
    convert(tmp_path, FIRST, SECOND)
    assert (tmp_path / "a.db").read_bytes().startswith(b"FLseal1:ffffffff")
    convert(tmp_path, SECOND, PLAIN)
    assert contents(tmp_path, *before) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(before)


@pytest.mark.slow
@pytest.mark.parametrize("torn", [False, True])
def test_killed_at_any_step_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: bool) -> None:
    """Before or in the middle of each write; a second end while it goes on changes nothing."""
    monkeypatch.setattr(conversion, "PIECE_PAGES", 2)
    expected_folder = tmp_path / "expected"
    expected_folder.mkdir()
    names = plain_files(expected_folder)
    convert(expected_folder, PLAIN, FIRST)
    expected = contents(expected_folder, *names)
    left = [0]

    def step(call: Any, tearing: bool) -> Any:
        def stepped(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                if tearing and torn:
                    file, content, at = arguments
                    call(file, content[: len(content) // 2], at)
                raise Killed
            return call(*arguments)

        return stepped

    monkeypatch.setattr(os, "pwrite", step(os.pwrite, tearing=True))
    monkeypatch.setattr(os, "fsync", step(lambda file: None, tearing=False))
    number = 0
    while True:
        number += 1
        folder = tmp_path / f"{number}"
        folder.mkdir()
        plain_files(folder)
        left[0] = number
        try:
            convert(folder, PLAIN, FIRST)
        except Killed:
            left[0] = 3
            with contextlib.suppress(Killed):
                convert(folder, PLAIN, FIRST)
            left[0] = 0
            convert(folder, PLAIN, FIRST)
            assert contents(folder, *names) == expected, f"killed at step {number}"
            assert not list(folder.glob("*.converting*"))
            continue
        break
    assert number > 30


def test_a_journal_that_is_not_whole_was_never_begun(tmp_path: Path) -> None:
    before = plain_files(tmp_path)
    for content in (b"", b"abc", b"00000000 5 {}"):
        (tmp_path / "a.db.converting").write_bytes(content)
        assert conversion.unfinished(tmp_path / "a.db") is None
    convert(tmp_path, PLAIN, FIRST)
    convert(tmp_path, FIRST, PLAIN)
    assert contents(tmp_path, *before) == before


def test_a_journal_that_cannot_be_read_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store may be half converted: without its journal the other half is lost."""
    plain_files(tmp_path)
    journal = conversion.journal_of(tmp_path / "a.db")
    monkeypatch.setattr(conversion, "_write", lambda *_: (_ for _ in ()).throw(Killed))
    with pytest.raises(Killed):
        convert(tmp_path, PLAIN, FIRST)
    whole = journal.read_bytes()

    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", denied)  # as after a start by another user
        with pytest.raises(PermissionError):
            conversion.unfinished(tmp_path / "a.db")
    journal.write_bytes(b"\0" * 512 + whole[512:])  # a sector the disk lost
    with pytest.raises(StoreUnusable, match=r"a\.db.converting: is damaged.*half"):
        conversion.unfinished(tmp_path / "a.db")
    assert journal.exists()


def test_without_room_for_the_journal_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = plain_files(tmp_path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        convert(tmp_path, PLAIN, FIRST)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
