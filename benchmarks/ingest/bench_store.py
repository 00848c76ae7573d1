"""in.s3: the same pipeline into a real object store on this machine and into a folder, turn by turn in one run.

python -m benchmarks.ingest.bench_store [--messages 600000]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.tables.object_store import ObjectStore
from tests.support.topics.messaging_service import MessagingService

from benchmarks.collect import Row
from benchmarks.goals import GOALS
from benchmarks.ingest.bench_ingest import MESSAGES, ROOM, ROUNDS, fill
from benchmarks.ingest.pipelines import Pipelines

NAME = "in.s3"
PART = 0.8
WARM_ROUNDS = 1


def rows(messages: int = MESSAGES) -> Iterator[Row]:
    """One row: rows a second into the store against into the folder."""
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name:
        folder = Path(name)
        with MessagingService(folder / "messaging") as service, ObjectStore(folder / "store") as store:
            fill(service, "default/bench", messages)
            pipelines = Pipelines(folder, service.url, "default/bench", cores=2)
            try:
                runs = [
                    (pipelines.decoded_here().rate, pipelines.decoded_here_to_store(store.place("bench")).rate)
                    for _ in range(WARM_ROUNDS + ROUNDS)
                ][WARM_ROUNDS:]
            finally:
                pipelines.spark.stop()
    disk, in_store = (float(statistics.median(each)) for each in zip(*runs, strict=True))
    ratio = in_store / disk
    unit = "rows/s into an object store on loopback, baseline the local disk"
    yield Row(
        name=NAME, value=in_store, unit=unit, goal=GOALS[ROOM][NAME], met=ratio >= PART, baseline=disk, ratio=ratio
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=MESSAGES)
    for row in rows(parser.parse_args().messages):
        print(row)
