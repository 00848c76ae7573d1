"""The sink's two halves, called as Spark calls them."""

from __future__ import annotations

import datetime
import errno
import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from tests.support.messaging_service import upstream_message

from fairlead_ingest import envelope, errors
from fairlead_ingest.io import delta, sink
from fairlead_ingest.io.sink import DeltaSink, DeltaStreamWriter, Written
from fairlead_ingest.offsets import Offsets, Position, Skip

ROWS_SCHEMA = pa.schema(
    [
        *[field for field in envelope.PAGE_SCHEMA if field.name not in ("_error", "_payload")],
        ("_ingested_at", envelope.TIMESTAMP),
        ("_batch", pa.int64()),
        ("_date", pa.date32()),
    ]
)


@pytest.fixture
def writer(tmp_path: Path) -> DeltaStreamWriter:
    delta.ensure(tmp_path / "rows", ROWS_SCHEMA)
    delta.ensure(tmp_path / f"rows{delta.DEAD_LETTERS}", delta.DEAD_LETTERS_SCHEMA)
    delta.ensure(tmp_path / f"rows{delta.GAPS}", delta.GAPS_SCHEMA)
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "q"}')
    return DeltaStreamWriter(table=tmp_path / "rows", checkpoint_path=tmp_path / "checkpoint", on_expired="gap")


def planned(tmp_path: Path, batch: int, position: Position) -> None:
    end = Offsets(service="s", topics={"a/t": position})
    (tmp_path / "checkpoint" / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(end.to_dict())}")


def batches(*payloads: bytes) -> Iterator[pa.RecordBatch]:
    now = datetime.datetime.now(datetime.UTC)
    moments = pa.array([now] * len(payloads), pa.timestamp("us", tz="UTC"))
    ids = pa.array([bytes([number]) * 20 for number in range(len(payloads))], pa.binary())
    page = pa.Table.from_batches([envelope.page("a/t", ids, moments, pa.array(payloads, pa.binary()))])
    page = page.append_column("_ingested_at", moments)
    page = page.append_column("_date", pa.array([now.date()] * len(payloads), pa.date32()))
    yield from page.to_batches()


def count(tmp_path: Path, suffix: str = "") -> int:
    return pl.scan_delta(str(tmp_path / f"rows{suffix}")).collect().height


def test_rows_and_dead_letters_are_committed_once(writer: DeltaStreamWriter, tmp_path: Path) -> None:
    """Trying the batch again changes nothing."""
    planned(tmp_path, 0, Position(g=1, p="0f", fg=1, f="", r=3))
    for _ in range(2):
        written = writer.write(batches(upstream_message(1), b"broken", upstream_message(2)))
        writer.commit([written, None], 0)
    assert (count(tmp_path), count(tmp_path, delta.DEAD_LETTERS)) == (2, 1)


def test_dead_letters_committed_before_a_crash_are_not_committed_again(
    writer: DeltaStreamWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows' commit comes last; what came before it is passed over."""
    planned(tmp_path, 0, Position(g=1, p="0f", fg=1, f="", r=2))
    written = writer.write(batches(upstream_message(1), b"broken"))
    appended = delta.append

    def crash(table: Path, *more: object) -> int:
        if table.name == "rows":
            raise SystemExit
        return appended(table, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(delta, "append", crash)
    with pytest.raises(SystemExit):
        writer.commit([written], 0)
    monkeypatch.undo()
    writer.commit([writer.write(batches(upstream_message(1), b"broken"))], 0)
    assert (count(tmp_path), count(tmp_path, delta.DEAD_LETTERS)) == (1, 1)


def test_abort_leaves_the_files_alone(writer: DeltaStreamWriter, tmp_path: Path) -> None:
    """It is also called after a commit that went through."""
    planned(tmp_path, 0, Position(g=1, p="0f", fg=1, f="", r=1))
    written = writer.write(batches(upstream_message(1)))
    writer.commit([written], 0)
    writer.abort([written], 0)
    assert count(tmp_path) == 1


def test_what_was_promised_and_not_found_had_expired(writer: DeltaStreamWriter, tmp_path: Path) -> None:
    """Counted in the commit."""
    skip = Skip(reason="expired", upto="0a", rows=4)
    planned(tmp_path, 0, Position(g=1, p="0f", fg=1, f="01", r=3, skip=skip))
    writer.commit([writer.write(batches(upstream_message(1), b"broken"))], 0)
    facts = delta.last_entries(tmp_path / "rows", 1)[0]["fairlead"]
    assert (facts["rows"], facts["dead_letters"], facts["expired_unread"]) == (1, 1, 5)
    assert sum(facts["ages"]) == 1


def test_a_jump_leaves_a_gap_row(writer: DeltaStreamWriter, tmp_path: Path) -> None:
    """Under the policy that wants it."""
    planned(tmp_path, 0, Position(g=1, p="0f", fg=1, f="01", skip=Skip(reason="expired", upto="0a", rows=4)))
    writer.commit([Written()], 0)
    gap = pl.scan_delta(str(tmp_path / "rows_gaps")).collect().to_dicts()[0]
    assert (gap["reason"], gap["from_position"], gap["to_position"], gap["rows"]) == ("expired", "01", "0a", 4)


def test_a_full_disk_is_a_reason_to_wait(writer: DeltaStreamWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coded; any other error of the disk is not dressed up."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sink.PartitionedFiles, "add", full)
    with pytest.raises(errors.Wait, match=errors.DISK_FULL):
        writer.write(batches(upstream_message(1)))


def test_raw_rows_have_no_passengers(tmp_path: Path, writer: DeltaStreamWriter) -> None:
    """Nothing to sift."""
    day = pa.array([datetime.date(2026, 11, 20)], pa.date32())
    rows = pa.table({"payload": pa.array([b"x"], pa.binary()), "_id": ["01"], "_topic": ["a/t"], "_date": day})
    written = writer.write(iter(rows.to_batches()))
    assert [file.rows for file in written.rows] == [1]
    assert written.dead == []


@pytest.mark.parametrize("missing", ["table", "checkpoint"])
def test_a_missing_option_is_named(missing: str) -> None:
    """Before anything is written."""
    options = {name: "/x" for name in ("table", "checkpoint") if name != missing}
    with pytest.raises(errors.Stop, match=f"{errors.BAD_OPTION}: {missing}"):
        DeltaSink(options=options).streamWriter(None, False)  # type: ignore[arg-type]
