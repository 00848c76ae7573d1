"""What the first bytes of a store say, and the files of a store that is not encrypted."""

from __future__ import annotations

from pathlib import Path

from fairlead_edge.io import file_access
from fairlead_edge.io.file_access import PLAIN


def test_the_head_of_a_file_names_its_data_key() -> None:
    """A damaged head names none: it must not be taken for a plain file, nor for one of another key."""
    assert file_access.key_name(b"SQLite format 3\0") == ""
    assert file_access.key_name(b"FLseal1:0a1b2c3d") == "0a1b2c3d"
    for damaged in (b"", b"FLseal1:", b"FLseal1:0a1b-c3d", b"FLseal2:0a1b2c3d", bytes(16)):
        assert file_access.key_name(damaged) is None
    assert file_access.is_database(b"FLseal1:0a1b") and not file_access.is_database(b"no database")


def test_plain_files_are_as_they_are(tmp_path: Path) -> None:
    connection = PLAIN.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE t(a)")
    connection.close()
    assert (tmp_path / "a.db").read_bytes().startswith(file_access.SQLITE_MAGIC)
    assert PLAIN.unseal(PLAIN.seal(b"text", "name"), "name") == b"text"
