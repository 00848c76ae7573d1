"""Rows for a Delta table in a folder, and the decisions of a batch before it commits them."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa

from fairlead_ingest.io.table import delta
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit
from fairlead_ingest.table.commit import Append

SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])
TOPIC = "a/odd name=%"


def written(table: Path, *ids: str) -> list[WrittenFile]:
    writing = delta.writing(table)
    day = pa.array([datetime.date(2026, 11, 20)] * len(ids), pa.date32())
    writing.add(pa.table({"_id": list(ids), "_topic": [TOPIC] * len(ids), "_date": day}))
    return writing.close()


def decided(table: Path, batch: int, upto: str) -> Append:
    state = delta.state(table, "app")
    held = state.reached.topics.get(TOPIC, TopicOffset.at(1, ""))
    end = Offsets(
        service="s",
        topics={
            TOPIC: TopicOffset(generation=1, position=upto, start_generation=1, start_position=held.position, rows=1)
        },
    )
    found = commit.decide(state, application="app", batch=batch, end=end)
    assert isinstance(found, Append)
    return found
