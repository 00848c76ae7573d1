"""From what the source fetched to what the table holds: functions from DataFrame to DataFrame.

Everything here is a column expression, so Spark plans it together with the read and the write. A user's own transform
is a function of the same shape. ``_error`` and ``_payload`` travel beside the columns: a row with an error becomes a
dead letter in the sink, and no transform has to know.
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
# Of a number or a text in a body; what a column takes is decided already (``fitting``), other fields may be anything.
_NO_LIMITS = {"maxNumLen": str(2**31 - 1), "maxStringLen": str(2**31 - 1)}
# What the sink takes off again: never columns of the table.
PASSENGERS = ("_error", "_payload")


def quoted(name: str) -> str:
    """A column's name as Spark takes any."""
    return "`" + name.replace("`", "``") + "`"


def typed(rows: DataFrame, contract: Contract) -> DataFrame:
    """Add the contract's columns, read from ``body``; a body that does not fit follows the contract's mode."""
    if not contract.columns.fields:
        return rows.withColumn(RESCUED, F.lit(None).cast("string")).drop(TYPED, MISFIT_SEEN)
    parsing = StructType([*contract.columns.fields, StructField(_BAD, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BAD, **_NO_LIMITS}
    # Only what fits exactly is left to Spark, which would change what does not.
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
    """Drop what one producer sent again, under another message id, within ``seconds`` of publishing.

    The key is the producer's own numbering; rows that are dead letters have none and are all kept.
    """
    producer = F.concat_ws("/", "node", F.col("epoch").cast("string"), "stream", F.col("sequence").cast("string"))
    keyed = rows.withColumn(_KEY, F.when(F.col("_error").isNull(), producer).otherwise(F.concat(F.lit("/"), "_id")))
    timed = keyed.withWatermark("_published_at", f"{seconds} seconds")
    return timed.dropDuplicatesWithinWatermark([_KEY]).drop(_KEY)


def lineage(rows: DataFrame) -> DataFrame:
    """Add when the row was taken in and which day it belongs to (UTC day of publishing)."""
    return rows.withColumn("_ingested_at", F.current_timestamp()).withColumn("_date", F.to_date("_published_at"))


# The traces rows belong to, by the property their messages carry.
_MARK = f'"{TRACEPARENT}":"00-'
_properties = msgspec.json.Decoder(dict[str, str | None])


def find(rows: pa.RecordBatch, now: float, limit: int = LINKS_MAX) -> list[tuple[str, bool]]:
    """Sampled ``traceparent`` of messages, and whether each is late by now: seconds since 1970."""
    # A user's transform may drop these columns, or make something else of them.
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
            continue  # properties that are no text each; the rows are not about them
        if origin is None:
            continue
        micros = rows["enqueued_at"][index].value if is_timed else None  # Spark's only unit
        found.setdefault(str(origin), micros is not None and now - micros / 1e6 > LATE_SECONDS)
        if len(found) == limit:
            break
    return list(found.items())


def _is(rows: pa.RecordBatch, name: str, *kinds: Callable[[pa.DataType], bool]) -> bool:
    return name in rows.schema.names and any(kind(rows.schema.field(name).type) for kind in kinds)
