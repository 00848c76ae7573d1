"""The day's count on disk: read again, torn, damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_edge.io.data_plan import COUNT_MAX, NAME, SLOT_BYTES, DayFile
from fairlead_edge.outbox.plan.gate import DayCount

FIRST, SECOND = DayCount("2026-11-23", 5.0, 100), DayCount("2026-11-23", 5.0, 200)


def test_what_was_written_last_is_read_again(tmp_path: Path) -> None:
    file = DayFile(tmp_path)
    assert file.read() is None
    file.write(FIRST)
    file.write(SECOND)
    file.flush()
    file.close()
    assert DayFile(tmp_path).read() == SECOND
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("spoiled", [b"", b"\0" * SLOT_BYTES, b"12345678 [1]", b"zz" * 100, b"\xff" * 100])
def test_a_torn_slot_leaves_the_other(tmp_path: Path, spoiled: bytes) -> None:
    file = DayFile(tmp_path)
    file.write(FIRST)  # into the second slot
    file.write(SECOND)
    content = bytearray((tmp_path / NAME).read_bytes())
    content[: len(spoiled)] = spoiled
    (tmp_path / NAME).write_bytes(content)
    assert DayFile(tmp_path).read() in ((FIRST, SECOND) if not spoiled else (FIRST,))
    (tmp_path / NAME).write_bytes(spoiled)
    assert DayFile(tmp_path).read() is None


def test_a_bit_anywhere_never_gives_another_count(tmp_path: Path) -> None:
    DayFile(tmp_path).write(FIRST)
    content = (tmp_path / NAME).read_bytes()
    for place in range(SLOT_BYTES, len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 4
        (tmp_path / NAME).write_bytes(damaged)
        assert DayFile(tmp_path).read() in (None, FIRST)


@pytest.mark.parametrize(
    "count",
    [DayCount("tomorrow", 5.0, 1), DayCount("", 5.0, 1), DayCount("2026-11-23", 5.0, -1),
     DayCount("2026-11-23", 5.0, COUNT_MAX + 1)],
)  # fmt: skip
def test_what_no_agent_counts_is_not_believed(tmp_path: Path, count: DayCount) -> None:
    file = DayFile(tmp_path)
    file.write(FIRST)
    file.write(count)
    assert file.read() == FIRST


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_where_it_cannot_be_opened_the_agent_runs_all_the_same(tmp_path: Path, kind: str) -> None:
    if kind == "folder":
        (tmp_path / NAME).mkdir()
    else:
        (tmp_path / NAME).symlink_to(tmp_path / "no" / "folder")
    file = DayFile(tmp_path)
    file.write(FIRST)
    file.flush()
    assert file.read() is None
    file.close()


def test_after_its_end_it_writes_into_no_file_that_got_its_number(tmp_path: Path) -> None:
    file = DayFile(tmp_path)
    file.close()
    with (tmp_path / "another").open("w+b") as another:
        file.write(FIRST)
        file.flush()
        assert another.read() == b"" and file.read() is None
    file.close()
