"""Iceberg tables in a REST catalog (Apache Iceberg's own): killed, and with answers that are lost or made up."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.tables.iceberg_table import SCHEMA, IcebergTable, commit_until_in
from tests.support.tables.rest_catalog import RestCatalog
from tests.support.tables.store_proxy import StoreProxy

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import compaction

pytestmark = [pytest.mark.process, pytest.mark.verify]
BATCHES = 30


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RestCatalog]:
    with RestCatalog(tmp_path) as running:
        yield running


def test_a_catalog_that_loses_answers_and_is_killed_has_each_batch_once(catalog, tmp_path):
    """Also compacted and grown by a column in between; what others read is the same."""
    chosen = random.Random(5)
    with StoreProxy(catalog, tmp_path) as proxy:
        table = IcebergTable(tmp_path, catalog.catalog(proxy.url))
        for batch in range(BATCHES):
            proxy.mishaps([chosen.choice(["", "lost", "503", "409"])])
            commit_until_in(table, batch, 20)
            if batch % 10 == 4:
                proxy.mishaps(["lost"])
                compaction.of(table.format, table.place).compact(target_bytes=1024 * 1024)
            if batch == BATCHES // 2:
                catalog.kill()
                with pytest.raises(errors.Wait, match=errors.CATALOG_AWAY):
                    table.format.state(table.place, "app")
                catalog.start()
                proxy.mishaps([""])
                table.format.ensure(table.place, pa.schema([*SCHEMA, ("warm", pa.float64())]))
        happened = proxy.happened()
        assert happened["lost"] >= 4 and happened["503"] and happened["409"]
    direct = IcebergTable(tmp_path, catalog.catalog())
    assert direct.numbers() == list(range(BATCHES))
    state = direct.format.state(direct.place, "app")
    assert (state.batch, state.commit_sequence, state.totals.rows) == (BATCHES - 1, BATCHES, BATCHES)
