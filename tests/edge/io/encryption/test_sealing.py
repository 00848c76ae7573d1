"""A folder brought to what the settings want: whenever it ends in between, the next start reads everything."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.support.kills.interruptions import Killed, Steps

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.encryption import keyring, sealing
from fairlead_edge.io.encryption.opening import Extent, OpenedStores
from fairlead_edge.io.outbox.side_files import HandedOutFile, TotalsFile
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.outbox.totals import OutboxTotals

FIRST, SECOND = bytes(range(32)), bytes(range(32, 64))
TEXT = "nobody may read this"


def plain(folder: Path) -> None:
    """Two stores with logs that were not folded back, and the small files beside them."""
    folder.mkdir()
    for store in ("objects.db", "outbox.db"):
        connection = apsw.Connection(str(folder / store))
        connection.execute("PRAGMA journal_mode=WAL; CREATE TABLE t(a); PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("INSERT INTO t VALUES(?)", (f"{TEXT} in {store}",))
        copy = {end: (folder / f"{store}{end}").read_bytes() for end in ("", "-wal")}
        connection.close()
        for end, content in copy.items():
            (folder / f"{store}{end}").write_bytes(content)
    totals = TotalsFile(folder / "outbox.db.totals")
    totals.write(OutboxTotals(4, (), None, TEXT))
    totals.write(OutboxTotals(5, (), None, TEXT))
    totals.close()
    handed_out = HandedOutFile(folder / "outbox.db.handed-out")
    handed_out.begin({QueueId(TEXT, 0): 7, QueueId(f"{TEXT} of a longer list", 1): 8})
    handed_out.begin({QueueId(TEXT, 0): 7})  # shorter: older text lies behind its end
    handed_out.close()
    (folder / "routes.copy").write_text(TEXT)


def check(folder: Path, opened: OpenedStores) -> None:
    for store, access in (("objects.db", opened.objects), ("outbox.db", opened.messages)):
        connection = access.connect(folder / store)
        assert connection.execute("SELECT a FROM t").fetchall() == [(f"{TEXT} in {store}",)]
        connection.close()
    totals = TotalsFile(folder / "outbox.db.totals", opened.messages)
    assert totals.read() == OutboxTotals(5, (), None, TEXT)
    totals.close()
    handed_out = HandedOutFile(folder / "outbox.db.handed-out", opened.messages)
    assert handed_out.read() == {QueueId(TEXT, 0): 7}
    handed_out.close()
    assert opened.objects.unseal((folder / "routes.copy").read_bytes(), "routes.copy") == TEXT.encode()


def open_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if TEXT.encode() in path.read_bytes()}


def test_from_each_extent_to_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    plain(folder)
    key = FIRST
    extents: tuple[Extent, ...] = ("secrets", "all", "none", "all", "secrets", "none", "secrets")
    assert len(open_in(folder)) >= 5
    for extent in extents:
        opened = sealing.bring(folder, [key], extent)
        check(folder, opened)
        messages = {"outbox.db", "outbox.db-wal", "outbox.db.totals", "outbox.db.handed-out"}
        objects = {"objects.db", "objects.db-wal", "routes.copy"}
        hidden = {"none": set(), "secrets": objects, "all": objects | messages}[extent]
        assert not open_in(folder) & hidden, extent
        before = sealing.bring(folder, [SECOND, key], extent)
        check(folder, before)
        key = SECOND if extent != "none" else key
        if extent == "none":
            assert not keyring.exists(folder)
        else:
            found = keyring.read(folder, [key])
            assert found is not None and len(found.keys) == 1, "the data key that was used until now is gone"
            with pytest.raises(StoreUnusable):
                sealing.bring(folder, [FIRST if key == SECOND else SECOND], extent)


@pytest.mark.parametrize(
    ("until", "keys"),
    [
        pytest.param("all", [FIRST], id="on", marks=pytest.mark.verify),
        pytest.param("all", [SECOND, FIRST], id="rotated"),
        pytest.param("none", [FIRST], id="off", marks=pytest.mark.verify),
    ],
)
def test_killed_at_any_step_everything_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Extent, keys: list[bytes]
) -> None:
    """Before each write, flush and rename, of the keyring, too; the next start gets the same settings."""
    origin = tmp_path / "origin"
    plain(origin)
    if until == "none" or len(keys) > 1:
        sealing.bring(origin, [FIRST], "all")
    monkeypatch.setattr(os, "fsync", lambda file: None)  # nothing loses power here
    calls = ((os, "pwrite"), (os, "fsync"), (os, "replace"), (Path, "replace"), (Path, "unlink"))
    steps = Steps(monkeypatch, calls)
    number = 0
    while True:
        number += 1
        folder = tmp_path / "data"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(origin, folder)
        steps.end_at(number)
        try:
            sealing.bring(folder, keys, until)
        except Killed:
            steps.end_at(0)
            check(folder, sealing.bring(folder, keys, until))
            continue
        steps.end_at(0)
        break
    assert number > 10


def test_keys_and_stores_of_different_copies_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    plain(folder)
    sealing.bring(folder, [FIRST], "all")
    older = (folder / "outbox.db").read_bytes()
    sealing.bring(folder, [SECOND, FIRST], "all")
    (folder / "outbox.db").write_bytes(older)
    with pytest.raises(StoreUnusable, match="different copies"):
        sealing.bring(folder, [SECOND], "all")
    assert (folder / "outbox.db").read_bytes() == older
    keyring.remove(folder)
    with pytest.raises(StoreUnusable, match="is missing"):
        sealing.bring(folder, [SECOND], "all")


@pytest.mark.parametrize("lost", ["encryption.keys", "encryption.keys.copy"])
def test_a_copy_of_the_keys_that_was_lost_is_made_again(
    tmp_path: Path, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    plain(folder)
    sealing.bring(folder, [FIRST], "all")
    write = keyring.write

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    for damage in (b"", b"garbage"):
        (folder / lost).write_bytes(damage)
        monkeypatch.setattr(keyring, "write", full)
        check(folder, sealing.bring(folder, [FIRST], "all"))
        monkeypatch.setattr(keyring, "write", write)
        check(folder, sealing.bring(folder, [FIRST], "all"))
        for name in ("encryption.keys", "encryption.keys.copy"):
            alone = tmp_path / "alone"
            alone.mkdir()
            (alone / name).write_bytes((folder / name).read_bytes())
            assert keyring.read(alone, [FIRST]) is not None
            shutil.rmtree(alone)


def test_a_refusal_overwrites_no_copy_of_the_keys(tmp_path: Path) -> None:
    """An older one was brought back beside a newer: the newer may be the only one that opens the stores."""
    folder = tmp_path / "data"
    plain(folder)
    sealing.bring(folder, [FIRST], "all")
    older = (folder / "encryption.keys").read_bytes()
    sealing.bring(folder, [SECOND, FIRST], "all")
    newer = (folder / "encryption.keys.copy").read_bytes()
    (folder / "encryption.keys").write_bytes(older)
    with pytest.raises(StoreUnusable, match="different copies"):
        sealing.bring(folder, [FIRST], "all")
    assert (folder / "encryption.keys.copy").read_bytes() == newer
    (folder / "encryption.keys").write_bytes(newer)
    check(folder, sealing.bring(folder, [SECOND], "all"))


def test_a_damaged_head_is_left_to_the_salvage(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    plain(folder)
    opened = sealing.bring(folder, [FIRST], "all")
    page = (folder / "outbox.db").read_bytes()[:4096]
    (folder / "outbox.db.sealed-schema").write_bytes(bytes(12) + page)
    for damage in (b"FLseal1:00000000", b"garbage garbage!"):
        (folder / "outbox.db").write_bytes(damage + (folder / "outbox.db").read_bytes()[16:])
        again = sealing.bring(folder, [FIRST], "all")
        assert again.messages.schema_end == opened.messages.schema_end == ".sealed-schema"
        assert (folder / "outbox.db").read_bytes().startswith(damage)
