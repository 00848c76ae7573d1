"""The frame: what its checksum covers."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_messaging.server import backup
from fairlead_messaging.server.backup import BackupHeader, BadBackup, ChunkReader, Decoder, Rows, TeeSource


def test_the_checksum_is_of_kind_and_content() -> None:
    rows, end = backup.framed(backup.ROWS, b"x"), backup.framed(backup.END, b"x")
    assert backup.HEAD.unpack_from(rows)[1:2] == (1,) and rows[backup.HEAD.size :] == b"x"
    assert backup.HEAD.unpack_from(rows)[2] != backup.HEAD.unpack_from(end)[2]


# --- Bytes come in the sizes they are asked for.


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 30), min_size=1))
def test_pieces_are_read_in_other_sizes(pieces: list[bytes], sizes: list[int]) -> None:
    source, whole = ChunkReader(iter(pieces)), io.BytesIO(b"".join(pieces))
    for size in sizes:
        assert source.read(size) == whole.read(size)


def test_what_is_read_is_copied() -> None:
    sink = io.BytesIO()
    source = TeeSource(io.BytesIO(b"abcdef"), sink)
    assert (source.read(4), sink.getvalue()) == (b"abcd", b"abcd")
    assert (source.read(4), source.read(4), sink.getvalue()) == (b"ef", b"", b"abcdef")


def pieces(sizes: list[int]) -> list[int]:
    rows = [(b"%04d" % number, bytes(size)) for number, size in enumerate(sizes)]
    return [held for _, held in backup.encode(rows, program="", service="", taken_ms=0)]


@pytest.mark.parametrize(
    ("sizes", "held"),
    [
        ([], [0, 0]),
        ([10], [0, 1, 0]),
        ([40, 40, 40, 40, 40], [0, 3, 2, 0]),
        ([1000, 10, 1000], [0, 1, 2, 0]),
    ],
)
def test_a_block_ends_with_the_row_that_fills_it(
    sizes: list[int], held: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is never larger than its limit and one row."""
    monkeypatch.setattr(backup, "BLOCK_BYTES", 120)
    assert pieces(sizes) == held


def test_rows_are_taken_as_they_are_needed() -> None:
    taken = 0

    def rows() -> object:
        nonlocal taken
        for number in range(10**9):
            taken += 1
            yield b"%012d" % number, bytes(100_000)

    found = backup.encode(rows(), program="", service="", taken_ms=0)  # type: ignore[arg-type]
    next(found)
    next(found)
    assert 10 <= taken <= 12
    found.close()


# --- A backup gives back the rows it was made of, or says that it cannot; it never gives fewer, or others.

ROWS = [(b"M%03d" % number, b"value %d" % number * number) for number in range(40)]


def made(rows: Rows, taken_ms: int = 7) -> bytes:
    return b"".join(data for data, _ in backup.encode(rows, program="0.1.0", service="s-1", taken_ms=taken_ms))


def read(data: bytes) -> Rows:
    decoder = Decoder(io.BytesIO(data))
    found: Rows = []
    while (rows := decoder.next_block()) is not None:
        found += rows
    return found


@given(st.dictionaries(st.binary(min_size=1, max_size=20), st.binary(max_size=300)), st.integers(1, 400))
def test_what_went_in_comes_out(rows: dict[bytes, bytes], block_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backup, "BLOCK_BYTES", block_bytes)
        assert read(made(sorted(rows.items()))) == sorted(rows.items())


def test_the_header_says_of_what_it_is() -> None:
    assert Decoder(io.BytesIO(made([], 1_800_000_000_000))).header == BackupHeader(
        format=1, program="0.1.0", service="s-1", taken_ms=1_800_000_000_000
    )


def test_every_cut_is_noticed() -> None:
    whole = made(ROWS)
    for end in range(len(whole)):
        with pytest.raises(BadBackup):
            read(whole[:end])
    with pytest.raises(BadBackup, match="something follows"):
        read(whole + b"\0")


def test_every_flipped_bit_is_noticed() -> None:
    whole = bytearray(made(ROWS[:8]))
    for at in range(len(whole) * 8):
        whole[at // 8] ^= 1 << at % 8
        with pytest.raises(BadBackup):
            read(bytes(whole))
        whole[at // 8] ^= 1 << at % 8
    assert read(bytes(whole)) == ROWS[:8]


def test_a_missing_block_is_noticed() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backup, "BLOCK_BYTES", 100)
        pieces = [data for data, _ in backup.encode(ROWS, program="", service="", taken_ms=0)]
    assert len(pieces) > 6
    for left_out in range(1, len(pieces) - 1):
        with pytest.raises(BadBackup, match="rows"):
            read(b"".join(pieces[:left_out] + pieces[left_out + 1 :]))
    with pytest.raises(BadBackup, match="not in order"):
        read(b"".join([pieces[0], pieces[2], pieces[1], *pieces[3:]]))


BEFORE_END = next(data for data, _ in backup.encode([], program="", service="", taken_ms=0))


def block(content: bytes) -> bytes:
    return BEFORE_END + backup.framed(backup.ROWS, content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"not packed", "cannot be unpacked"),
        (zlib.compress(b"\0\0\0"), "inside a row"),
        (zlib.compress(struct.pack(">II", 5, 5) + b"short"), "inside a row"),
        (zlib.compress(b"")[:-1], "not as long"),
        (zlib.compress(b"") + b"more", "not as long"),
    ],
)
def test_a_block_that_is_none_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(BadBackup, match=reason):
        read(block(content))


def test_sizes_are_bounded_before_they_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadBackup, match="above the limit"):
        read(BEFORE_END + backup.HEAD.pack(backup.ROWS, 2**32 - 1, 0))
    monkeypatch.setattr("fairlead_messaging.server.backup.FRAME_BYTES_MAX", 10_000)
    with pytest.raises(BadBackup, match="not as long"):
        read(block(zlib.compress(bytes(1_000_000))))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not begin"),
        (b"SQLite format 3\0" * 10, "does not begin"),
        (backup.MAGIC + backup.framed(b"R", b""), "header is missing"),
        (backup.MAGIC + backup.framed(b"H", b"[]"), "header cannot be read"),
        (backup.MAGIC + backup.framed(b"H", b'{"format":2,"program":"","service":"","taken_ms":0}'), "format 2"),
        (backup.MAGIC + backup.framed(b"H", b'{"format":1,"program":"","service":"","taken_ms":-1}'), "names no time"),
        (BEFORE_END + backup.framed(b"?", b""), "unknown kind"),
    ],
)
def test_what_is_no_backup_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(BadBackup, match=reason):
        read(data)
