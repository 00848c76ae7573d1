"""Functions from DataFrame to DataFrame that turn the source's rows into the table's.

They are column expressions, so Spark plans them together with the read and the write. Users' transforms have the same
signature. The columns ``_error`` and ``_payload`` are passed along: a row with an error becomes a dead letter in the
sink, without any transform having to know.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from fairlead_ingest.rows.contract import ENVELOPE_COLUMNS, FREEZE, NOTHING_KNOWN, RESCUED, Contract, sentence
from fairlead_ingest.rows.envelope import MISFIT as MISFIT_SEEN
from fairlead_ingest.rows.envelope import TYPED
from fairlead_wire.traces import trace
from fairlead_wire.traces.trace import LATE_SECONDS, LINKS_MAX, TRACEPARENT

_BAD = "_does_not_fit"
_PARSED = "_parsed"
_KEY = "_producer_key"
# Lift Spark's limits on numbers and texts: values of columns are already checked (``fitting``), others do not matter.
_NO_LIMITS = {"maxNumLen": str(2**31 - 1), "maxStringLen": str(2**31 - 1)}
# Columns that the sink removes; they are never columns of the table.
PASSENGERS = ("_error", "_payload")


def quoted(name: str) -> str:
    """Quote a column's name for Spark."""
    return "`" + name.replace("`", "``") + "`"


def typed(rows: DataFrame, contract: Contract) -> DataFrame:
    """Add the contract's columns, read from ``body``; misfits are handled by the contract's mode."""
    if not contract.columns.fields:
        return rows.withColumn(RESCUED, F.lit(None).cast("string")).drop(TYPED, MISFIT_SEEN)
    parsing = StructType([*contract.columns.fields, StructField(_BAD, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BAD, **_NO_LIMITS}
    # Let Spark read only values that fit exactly, because it would change others.
    text = F.coalesce(F.col(TYPED), F.col("body"))
    parsed = rows.withColumn(_PARSED, F.from_json(text, parsing, options))
    is_misfit = F.col(MISFIT_SEEN).isNotNull() | F.col(f"{_PARSED}.{_BAD}").isNotNull()
    misfit = F.when(is_misfit, F.col("body"))
    columns = [F.col(f"{_PARSED}.{quoted(name)}").alias(name) for name in contract.columns.names]
    if contract.mode == FREEZE:
        wrong = F.coalesce(F.col(MISFIT_SEEN), F.lit(NOTHING_KNOWN))
        reason = F.concat(F.lit(f"{sentence(contract)} "), wrong, F.substring(misfit, 1, 200))
        error = F.coalesce(F.col("_error"), F.when(misfit.isNotNull(), reason))
    else:
        columns.append(misfit.alias(RESCUED))
        error = F.col("_error")
    others = ("_topic", "_id", "_published_at")
    return parsed.select(*ENVELOPE_COLUMNS, *columns, *others, error.alias("_error"), "_payload")


def deduplicated(rows: DataFrame, seconds: float) -> DataFrame:
    """Drop messages that a producer sent again under another message id within ``seconds`` of publishing.

    The key is the producer's own numbering; dead letters have none and are all kept.
    """
    producer = F.concat_ws("/", "node", F.col("epoch").cast("string"), "stream", F.col("sequence").cast("string"))
    keyed = rows.withColumn(_KEY, F.when(F.col("_error").isNull(), producer).otherwise(F.concat(F.lit("/"), "_id")))
    timed = keyed.withWatermark("_published_at", f"{seconds} seconds")
    return timed.dropDuplicatesWithinWatermark([_KEY]).drop(_KEY)


def lineage(rows: DataFrame) -> DataFrame:
    """Add the time of ingestion and the date of the row (UTC date of publishing)."""
    return rows.withColumn("_ingested_at", F.current_timestamp()).withColumn("_date", F.to_date("_published_at"))


# How a sampled trace appears in the text of a message's properties.
_MARK = f'"{TRACEPARENT}":"00-'
_properties = msgspec.json.Decoder(dict[str, str | None])


def find(rows: pa.RecordBatch, now: float, limit: int = LINKS_MAX) -> list[tuple[str, bool]]:
    """The sampled ``traceparent`` values of messages, and whether each is late at ``now`` (seconds since 1970)."""
    # Transforms may drop or replace these columns.
    if not _is(rows, "properties", pa.types.is_string, pa.types.is_large_string):
        return []
    properties = rows["properties"]
    marked = pc.fill_null(pc.match_substring(properties, _MARK), False)
    if not pc.any(marked).as_py():
        return []
    is_timed = _is(rows, "enqueued_at", pa.types.is_timestamp)
    found: dict[str, bool] = {}
    for index in pc.indices_nonzero(marked).to_pylist():
        try:
            origin = trace.sampled(_properties.decode(properties[index].as_py()).get(TRACEPARENT))
        except (msgspec.MsgspecError, UnicodeError):
            continue  # not all properties are texts
        if origin is None:
            continue
        micros = rows["enqueued_at"][index].value if is_timed else None  # Spark's only unit
        found.setdefault(str(origin), micros is not None and now - micros / 1e6 > LATE_SECONDS)
        if len(found) == limit:
            break
    return list(found.items())


def _is(rows: pa.RecordBatch, name: str, *kinds: Callable[[pa.DataType], bool]) -> bool:
    return name in rows.schema.names and any(kind(rows.schema.field(name).type) for kind in kinds)
