"""Files in a real store, read in ranges, against the same files read whole."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.store_proxy import StoreProxy

from fairlead_ingest.io.table import object_store, store_filesystem
from fairlead_ingest.table.store_path import StorePath

pytestmark = pytest.mark.process
ROWS, GROUP = 20_000, 5_000


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProxy]:
    folder = tmp_path_factory.mktemp("store")
    with ObjectStore(folder / "store") as store, StoreProxy(store, folder) as running:
        yield running


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    """Each node in one row group, ids in all of them; a body that makes the file large."""
    noise = random.Random(1)
    return pa.table(
        {
            "id": [f"m{(number * 7919) % ROWS:05}" for number in range(ROWS)],
            "node": [f"edge-{number // GROUP}" for number in range(ROWS)],
            "body": [noise.randbytes(100) for _ in range(ROWS)],
        }
    )


@pytest.fixture(scope="module")
def path(proxy: StoreProxy, rows: pa.Table) -> StorePath:
    found = proxy.place("ranged/part.parquet")
    out = io.BytesIO()
    pq.write_table(rows, out, row_group_size=GROUP, compression="zstd")
    object_store.write(found, out.getvalue())
    return found


@pytest.mark.parametrize(
    "filters",
    [
        [("id", "=", "m00042")],
        [("id", "=", "m00042"), ("node", "=", "edge-2")],
        [("id", "=", "m19999"), ("node", "=", "edge-3")],
        [("id", "=", "none")],
        [("node", "=", "edge-9")],
    ],
)
def test_rows_are_those_of_the_file_read_whole(path, rows, filters):
    expected = rows.select(["id", "body"])
    for name, _, value in filters:
        expected = expected.filter(pc.equal(rows.filter(pc.is_in(rows["id"], expected["id"]))[name], value))
    assert store_filesystem.matching(path, ["id", "body"], filters) == expected


def test_what_is_not_asked_for_is_not_read(proxy, path):
    """A node that statistics rule out costs the footer; one that is there costs its own row group's ids."""
    whole = len(object_store.read(path))
    assert whole > 1_000_000
    costs = []
    for node in ("edge-9", "edge-1"):
        before = proxy.requests(), proxy.bytes_read()
        store_filesystem.matching(path, ["id", "node"], [("id", "=", "m00042"), ("node", "=", node)])
        costs.append((proxy.requests() - before[0], proxy.bytes_read() - before[1]))
    (requests, read), (more, ids) = costs
    assert requests == 1 and read == store_filesystem.TAIL_BYTES
    assert more <= 4 and ids < whole / 8, (costs, whole)


@pytest.mark.parametrize(
    "size", [0, 1, store_filesystem.TAIL_BYTES, store_filesystem.TAIL_BYTES + 1, 3 * store_filesystem.TAIL_BYTES]
)
def test_a_file_is_its_bytes_wherever_it_is_read(proxy, tmp_path, size):
    place = proxy.place(f"bytes/{size}")
    content = bytes(number * 31 % 251 for number in range(size))
    object_store.write(place, content)
    if not size:
        assert object_store.read(place) == b""
        return
    file = store_filesystem.RangedFile(place)
    for begin in {0, 1, size // 2, max(0, size - 10), size, size + 5}:
        for length in (0, 1, 100, size, -1):
            file.seek(begin)
            assert file.read(length) == content[begin:][: length if length >= 0 else None]
    assert file.seek(-1, io.SEEK_END) == size - 1 and file.tell() == size - 1
