"""What a pipeline's query is made of: the source's options, the rows as the pipeline wants them, the table's columns.

source ──source_options──▶ rows ──shaped──▶ typed columns, the user's transforms, lineage ──▶ sink

A user's transform is found by name: ``module:function`` on the path, or ``path.py:function`` beside the settings. It is
a function from DataFrame to DataFrame. It may add and drop columns of its own; the row's identity and the passengers
``_error`` and ``_payload`` must still be there afterwards.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from fairlead_ingest import errors
from fairlead_ingest.io import contracts
from fairlead_ingest.io.spark.session import parallelism
from fairlead_ingest.io.table import tables
from fairlead_ingest.rows import transforms
from fairlead_ingest.rows.contract import EVOLVE, Contract, grown
from fairlead_ingest.rows.transforms import PASSENGERS
from fairlead_ingest.settings import IngestSettings, Pipeline
from fairlead_wire.errors import described

Transform = Callable[[DataFrame], DataFrame]
KEPT = ("_topic", "_id", "_published_at")


def load(name: str, *, option: str = "transforms") -> Transform:
    """The function called ``name``, as ``option`` says. Raises ``Stop`` saying what could not be found."""
    place, _, function = name.rpartition(":")
    try:
        module = _file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        found = getattr(module, function)
    except Exception as error:
        if isinstance(error, (ImportError, AttributeError, OSError, SyntaxError)):
            said = str(error)
        else:
            raised = described(error)
            said = f"importing {place} raised {raised}; {place} is imported and {function} is called, nothing is run"
        raise errors.Stop(errors.BAD_OPTION, f"{option}: {name}: {said}") from error
    if not callable(found):
        raise errors.Stop(errors.BAD_OPTION, f"{option}: {name} is no function")
    return cast(Transform, found)


def apply(name: str, rows: DataFrame) -> DataFrame:
    """``rows`` through the transform. Raises ``Stop`` when what must stay is gone."""
    after = load(name)(rows)
    must = [column for column in (*KEPT, *PASSENGERS) if column in rows.columns]
    lost = [column for column in must if column not in getattr(after, "columns", ())]
    if lost:
        raise errors.Stop(errors.BAD_OPTION, f"transforms: {name} lost the column {', '.join(lost)}")
    return after


def _file(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(f"fairlead_transform_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise OSError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# News ends the wait in the service at once; without news this is how often an idle job asks.
IDLE_WAIT_MS = 2000


def source_options(session: SparkSession, settings: IngestSettings, pipeline: Pipeline) -> dict[str, str]:
    """The source's options as the settings say, but for where it starts."""
    limits = settings.limits
    options = {
        "url": settings.messaging_url,
        "topics": json.dumps(pipeline.topics),
        "format": pipeline.format,
        "onExpired": settings.on_expired,
        "onRecreated": settings.on_recreated,
        "maxRowsPerBatch": limits.batch_rows,
        "maxBytesPerBatch": limits.batch_bytes,
        "batchSeconds": batch_seconds(settings),
        "pageRows": limits.page_rows,
        "pageBytes": limits.page_bytes,
        "splits": limits.tasks or parallelism(session),
        "splitBytes": limits.split_bytes,
        "waitMs": IDLE_WAIT_MS,
        "requestSeconds": settings.request_seconds,
    }
    if pipeline.schema_file:
        options["contract"] = contract_now(settings, pipeline).encode()
    if settings.security == "mtls":
        options |= {"tlsCa": settings.tls_ca, "tlsCert": settings.tls_cert, "tlsKey": settings.tls_key}
    return {key: str(value) for key, value in options.items()}


def batch_seconds(settings: IngestSettings) -> float:
    """How long a batch should take beside live topics; 0 where no one waits, or it was not asked for."""
    wanted, trigger = settings.limits.batch_seconds, settings.trigger_seconds
    # A shorter batch would wait for the trigger.
    return max(wanted, trigger) if wanted and trigger is not None else 0.0


def evolves(pipeline: Pipeline) -> bool:
    """The pipeline's table grows by what bodies bring. Raises ``Stop``."""
    return bool(pipeline.schema_file) and contracts.read(Path(str(pipeline.schema_file))).mode == EVOLVE


def judged_by(pipeline: Pipeline) -> str:
    """Name and version of the contract as JSON, for the table's log; empty for a file without. Raises ``Stop``."""
    contract = contracts.read(Path(str(pipeline.schema_file))) if pipeline.schema_file else None
    return json.dumps({"name": contract.name, "version": contract.version}) if contract and contract.name else ""


def contract_now(settings: IngestSettings, pipeline: Pipeline) -> Contract:
    """The schema file's contract, grown by what the table has grown by where it may. Raises ``Stop``."""
    contract = contracts.read(Path(str(pipeline.schema_file)))
    table_format, table = tables.of_pipeline(settings, pipeline), settings.place(pipeline.table)
    held = table_format.dataset(table) if contract.mode == EVOLVE else None
    return contract if held is None else grown(contract, from_arrow_schema(held.schema))


def shaped(rows: DataFrame, settings: IngestSettings, pipeline: Pipeline) -> DataFrame:
    """What the source gave, as the pipeline wants it: typed, the user's transforms, lineage. Raises ``Stop``."""
    if pipeline.schema_file:
        rows = transforms.typed(rows, contract_now(settings, pipeline))
    for name in pipeline.transforms or ():
        rows = apply(name, rows)
    if pipeline.dedupe_seconds and rows.isStreaming:
        rows = transforms.deduplicated(rows, pipeline.dedupe_seconds)
    return transforms.lineage(_lineage_last(rows))


def _lineage_last(rows: DataFrame) -> DataFrame:
    """A transform appends its columns; the contract has lineage after them."""
    last = [name for name in (*KEPT, *transforms.PASSENGERS) if name in rows.columns]
    return rows.select(*[transforms.quoted(name) for name in rows.columns if name not in last], *last)


def table_schema(rows: StructType) -> pa.Schema:
    """The table's columns: what the query gives without passengers, ``_batch`` in its place, all nullable."""
    columns = [StructField(field.name, field.dataType) for field in rows if field.name not in transforms.PASSENGERS]
    columns.insert(len(columns) - 1, StructField("_batch", LongType()))
    return to_arrow_schema(StructType(columns), timezone="UTC")


class RoundRobin:
    """Names in their order, as many at a time as there is time for."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._next = 0

    def take(self, seconds: float) -> Iterator[str]:
        """All of them once, beginning where the last time ended; no further one after ``seconds``."""
        deadline = time.monotonic() + seconds
        for _ in self._names:
            name = self._names[self._next % len(self._names)]
            self._next += 1
            yield name
            if time.monotonic() > deadline:
                return
