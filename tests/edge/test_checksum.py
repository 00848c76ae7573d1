"""Checksums of rows: the same for the same, another for anything that differs."""

from __future__ import annotations

from fairlead_edge import checksum


def test_a_row_is_its_fields_in_order_and_its_content() -> None:
    assert checksum.of_row("a", 1, content=b"x") != checksum.of_row(1, "a", content=b"x")
    assert checksum.of_row("a", content=b"x") != checksum.of_row("a", content=b"y")
    assert checksum.of_row("\ud800") != checksum.of_row("a")
