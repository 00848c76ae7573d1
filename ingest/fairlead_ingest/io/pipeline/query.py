"""What a pipeline's query is made of: the source's options, the rows as the pipeline wants them, the table's columns.

source ──source_options──▶ rows ──shaped──▶ typed columns, the user's transforms, lineage ──▶ sink
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from fairlead_ingest.io.contracts import files
from fairlead_ingest.io.pipeline import plugins
from fairlead_ingest.io.spark.session import parallelism
from fairlead_ingest.io.table import tables
from fairlead_ingest.rows import schema, transforms
from fairlead_ingest.settings import IngestSettings, Pipeline

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
    return bool(pipeline.schema_file) and files.read(Path(str(pipeline.schema_file))).mode == schema.EVOLVE


def judged_by(pipeline: Pipeline) -> str:
    """Name and version of the contract as JSON, for the table's log; empty for a file without. Raises ``Stop``."""
    contract = files.read(Path(str(pipeline.schema_file))) if pipeline.schema_file else None
    return json.dumps({"name": contract.name, "version": contract.version}) if contract and contract.name else ""


def contract_now(settings: IngestSettings, pipeline: Pipeline) -> schema.Contract:
    """The schema file's contract, grown by what the table has grown by where it may. Raises ``Stop``."""
    contract = files.read(Path(str(pipeline.schema_file)))
    table_format, table = tables.of_pipeline(settings, pipeline), settings.place(pipeline.table)
    held = table_format.dataset(table) if contract.mode == schema.EVOLVE else None
    return contract if held is None else schema.grown(contract, from_arrow_schema(held.schema))


def shaped(rows: DataFrame, settings: IngestSettings, pipeline: Pipeline) -> DataFrame:
    """What the source gave, as the pipeline wants it: typed, the user's transforms, lineage. Raises ``Stop``."""
    if pipeline.schema_file:
        rows = transforms.typed(rows, contract_now(settings, pipeline))
    for name in pipeline.transforms or ():
        rows = plugins.apply(name, rows)
    if pipeline.dedupe_seconds and rows.isStreaming:
        rows = transforms.deduplicated(rows, pipeline.dedupe_seconds)
    return transforms.lineage(_lineage_last(rows))


def _lineage_last(rows: DataFrame) -> DataFrame:
    """A transform appends its columns; the contract has lineage after them."""
    last = [name for name in (*plugins.KEPT, *transforms.PASSENGERS) if name in rows.columns]
    return rows.select(*[transforms.quoted(name) for name in rows.columns if name not in last], *last)


def table_schema(rows: StructType) -> pa.Schema:
    """The table's columns: what the query gives without passengers, ``_batch`` in its place, all nullable."""
    columns = [StructField(field.name, field.dataType) for field in rows if field.name not in transforms.PASSENGERS]
    columns.insert(len(columns) - 1, StructField("_batch", LongType()))
    return to_arrow_schema(StructType(columns), timezone="UTC")
