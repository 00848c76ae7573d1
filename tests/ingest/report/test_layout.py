"""Files by size, and what small ones cost."""

from __future__ import annotations

from fairlead_ingest.report import facts
from fairlead_ingest.report.facts import MIB, FileSize


def files(*sizes: int, topic: str = "a/t", date: str = "2026-11-20") -> list[FileSize]:
    return [FileSize(topic=topic, date=date, bytes=size) for size in sizes]


def test_files_are_counted_by_size_and_day():
    found = facts.file_layout([*files(10, MIB, MIB + 1), *files(200 * MIB, date="2026-11-21")])
    assert [(each.up_to, each.files) for each in found.classes] == [
        (MIB, 2),
        (8 * MIB, 1),
        (32 * MIB, 0),
        (128 * MIB, 0),
        (None, 1),
    ]
    assert (found.files, found.bytes) == (4, 202 * MIB + 11)
    assert found.by_day == [("2026-11-20", 3), ("2026-11-21", 1)]


def test_a_compaction_leaves_a_file_for_each_128_mib_of_a_partition():
    """And one at least: files of two topics or days are never joined."""
    found = facts.file_layout([*files(100 * MIB, 100 * MIB), *files(1, 1, topic="b/t"), *files(1, date="2026-11-21")])
    assert found.compacted == 2 + 1 + 1


def test_the_cost_is_said_with_its_remedy():
    said = facts.read_cost(facts.file_layout(files(*[1] * 5000), open_seconds=0.004, opened=20))
    assert "4 ms here (median of 20)" in said and "20 s of one thread's time on opening 5,000 files" in said
    assert "`fairlead ingest compact` there would be 1: 0.00 s" in said


def test_where_nothing_is_to_gain_no_remedy_is_said():
    said = facts.read_cost(facts.file_layout(files(100 * MIB), open_seconds=0.004, opened=1))
    assert "compact`" not in said and "A compaction would leave nearly as many" in said


def test_what_is_not_known_is_not_said():
    assert facts.read_cost(facts.file_layout([])) == "There are no files yet."
    assert "opens 1 files; a compaction would leave 1" in facts.read_cost(facts.file_layout(files(1)))


def test_sizes_for_people():
    sizes = (0, 1023, 1536, 5 * MIB, 3 * 1024 * MIB, 2 * 1024**2 * MIB)
    assert [facts.size_text(each) for each in sizes] == ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB", "2.0 TiB"]
