"""A dataset over files in a store: what is asked for is read, and the process ends well while more is on its way."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
import pytest

from fairlead_ingest.io.table import object_store, store_filesystem
from fairlead_ingest.table import store_path
from fairlead_ingest.table.store_path import Storage, StorePath

ROOT = Path(__file__).resolve().parents[4]
FILES = 12
# Files as a slow store has them; the first rows are taken, and the program ends with others half read.
PROGRAM = """
import sys, time
from pathlib import Path
import pyarrow.dataset as ds
from fairlead_ingest.io.table import object_store, store_filesystem
from fairlead_ingest.table import store_path

def content(path):
    time.sleep(0.2)
    return Path(sys.argv[1], path.name).read_bytes()

object_store.read_tail = lambda path, size: (content(path)[-100:], len(content(path)))
object_store.read_range = lambda path, begin, end: content(path)[begin:end]
below = store_filesystem.below(store_path.parse("s3://tables/rows"))
names = sorted(each.name for each in Path(sys.argv[1]).iterdir())
rows = ds.dataset(names, format="parquet", filesystem=below)
print(next(rows.to_batches()).num_rows, flush=True)
"""


def written(folder: Path) -> list[str]:
    names = [f"{number:02}.parquet" for number in range(FILES)]
    for name in names:
        pq.write_table(pa.table({"name": [name] * 1000}), folder / name)
    return names


@pytest.mark.process
def test_a_process_ends_well_while_files_are_read(tmp_path):
    written(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1000\n", "")


def test_rows_are_read_by_name_and_nothing_is_written(tmp_path, monkeypatch):
    names = written(tmp_path)

    def tail(path: StorePath, size: int) -> tuple[bytes, int]:
        content = (tmp_path / path.name).read_bytes()
        return content[-size:], len(content)

    monkeypatch.setattr(object_store, "read_tail", tail)
    place = store_path.parse("s3://tables/rows", Storage(region="here"))
    below = store_filesystem.below(place)
    rows = ds.dataset(names, format="parquet", filesystem=below)
    assert rows.count_rows() == FILES * 1000
    assert rows.to_table(filter=ds.field("name") == names[3]).num_rows == 1000
    with pytest.raises(io.UnsupportedOperation, match=r"s3://tables/rows: read only"):
        below.delete_file(names[0])


def test_one_for_each_place_and_the_way_to_it():
    """Two places are equal whatever their storage is; their files are not read the same way."""
    here, there = (store_path.parse("s3://tables/rows", Storage(region=region)) for region in ("here", "there"))
    assert store_filesystem.below(here) is store_filesystem.below(here)
    assert store_filesystem.below(here) is not store_filesystem.below(there)
    assert isinstance(store_filesystem.below(here), pa_fs.FileSystem)
