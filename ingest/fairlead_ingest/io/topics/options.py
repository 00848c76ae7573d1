"""The options of the ``fairlead`` source and sink, parsed from Spark's texts and checked.

They are documented in ``docs/reference/ingest.md``; defaults are in ``source.batch_size``. The job itself also uses
``contract`` (columns read from bodies), ``setAside`` (messages to make dead letters whatever they contain) and
``ranges`` (the part of a batch to try).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import types

from fairlead_ingest import errors
from fairlead_ingest.rows import envelope
from fairlead_ingest.rows.contract import decode_contract
from fairlead_ingest.source import batch_size, gaps, offsets
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_messaging.client.io.connections import Tls
from fairlead_messaging.client.io.sync_client import BulkClient

FORMATS = ("raw", "envelope")
N = TypeVar("N", int, float)
T = TypeVar("T")

_SPARK_TYPES: dict[Any, types.DataType] = {
    pa.string(): types.StringType(),
    pa.int64(): types.LongType(),
    pa.int32(): types.IntegerType(),
    pa.binary(): types.BinaryType(),
    pa.bool_(): types.BooleanType(),
    envelope.TIMESTAMP: types.TimestampType(),
}


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The source's typed options; pickled for the tasks."""

    url: str
    topics: list[str]
    starting: dict[str, Any]
    format: str
    max_rows_per_batch: int
    max_bytes_per_batch: int
    batch_seconds: float
    page_rows: int
    page_bytes: int
    splits: int
    split_bytes: int
    from_ms: int | None
    until_ms: int | None
    wait_ms: int
    on_expired: str
    on_recreated: str
    checkpoint: str
    up_to: dict[str, str]
    contract: str
    set_aside: dict[str, dict[str, str]]
    ranges: list[OffsetRange] | None
    tls: tuple[str, str, str] | None
    request_seconds: float
    transaction_seconds: float

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse Spark's options. Raises ``Stop`` naming the wrong option."""
        text = {key.lower(): value for key, value in options.items()}
        topics = _topics(_required(text, "topics"))
        ca, cert, key = (text.get(name) for name in ("tlsca", "tlscert", "tlskey"))
        tls = (ca, cert, key) if ca and cert and key else None
        if tls is None and (ca or cert or key):
            raise errors.Stop(errors.BAD_OPTION, "tlsCa, tlsCert and tlsKey must be set together")
        return cls(
            url=_required(text, "url"),
            topics=topics,
            starting=_starting(text.get("startingoffsets", "earliest"), topics),
            format=_one_of(text, "format", FORMATS),
            max_rows_per_batch=_number(text, "maxRowsPerBatch", batch_size.BATCH_ROWS),
            max_bytes_per_batch=_number(text, "maxBytesPerBatch", batch_size.BATCH_BYTES),
            batch_seconds=_number(text, "batchSeconds", 0.0, least=0),
            page_rows=_number(text, "pageRows", batch_size.PAGE_ROWS),
            page_bytes=_number(text, "pageBytes", batch_size.PAGE_BYTES),
            splits=_number(text, "splits", 1),
            split_bytes=_number(text, "splitBytes", batch_size.SPLIT_BYTES),
            from_ms=_moment(text, "from"),
            until_ms=_moment(text, "until"),
            wait_ms=_number(text, "waitMs", batch_size.WAIT_MS, least=0),
            on_expired=_one_of(text, "onExpired", gaps.ON_EXPIRED),
            on_recreated=_one_of(text, "onRecreated", gaps.ON_RECREATED),
            checkpoint=text.get("checkpoint", ""),
            up_to=_decoded(text, "upTo", dict[str, str]) or {},
            contract=text.get("contract", ""),
            set_aside=_decoded(text, "setAside", dict[str, dict[str, str]]) or {},
            ranges=_decoded(text, "ranges", list[OffsetRange]),
            tls=tls,
            request_seconds=_number(text, "requestSeconds", batch_size.REQUEST_SECONDS),
            transaction_seconds=_number(text, "transactionSeconds", batch_size.TRANSACTION_SECONDS),
        )

    @property
    def page_schema(self) -> pa.Schema:
        if self.format == "envelope":
            return envelope.TYPED_PAGE_SCHEMA if self.contract else envelope.PAGE_SCHEMA
        return envelope.SIFTED_RAW_SCHEMA if self.set_aside else envelope.RAW_SCHEMA

    def decoder(self) -> Callable[[str, pa.Array, pa.Array, pa.Array], pa.RecordBatch]:
        """A function from a page of one topic (ids, times, payloads) to rows of ``page_schema``."""
        judge = decode_contract(self.contract).judge() if self.contract else None

        def decode(topic: str, ids: pa.Array, moments: pa.Array, payloads: pa.Array) -> pa.RecordBatch:
            aside = self.set_aside.get(topic, {}) if self.set_aside else {}
            if self.format == "envelope":
                return envelope.page(topic, ids, moments, payloads, judge=judge, set_aside=aside)
            return envelope.raw_page(topic, ids, moments, payloads, set_aside=aside if self.set_aside else None)

        return decode

    def start_of(self, topic: str) -> Any:
        """``earliest``, ``latest``, milliseconds, or an explicit ``{"g", "p"}``."""
        return self.starting.get(topic, "earliest")

    def client(self) -> BulkClient:
        """A new connection to the service; the caller closes it."""
        tls = Tls(ca=self.tls[0], cert=self.tls[1], key=self.tls[2]) if self.tls else None
        return BulkClient(self.url, tls=tls, timeout_seconds=self.request_seconds)


def spark_schema(page: pa.Schema) -> types.StructType:
    """Convert one of our page schemas to Spark."""
    return types.StructType([types.StructField(field.name, _SPARK_TYPES[field.type]) for field in page])


def _required(text: Mapping[str, str], name: str) -> str:
    value = text.get(name.lower())
    if not value:
        raise errors.Stop(errors.BAD_OPTION, f"{name} is required")
    return value


def _topics(text: str) -> list[str]:
    try:
        names = msgspec.json.decode(text, type=list[str]) if text.lstrip().startswith("[") else text.split(",")
    except msgspec.DecodeError as error:
        raise errors.Stop(errors.BAD_OPTION, f"topics: {error}") from None
    names = [name.strip() for name in names if name.strip()]
    for name in names:
        if name.count("/") != 1 or name.startswith("/") or name.endswith("/"):
            raise errors.Stop(errors.BAD_OPTION, f"topics: {name!r} is not of the form namespace/name")
    if not names or len(set(names)) != len(names):
        raise errors.Stop(errors.BAD_OPTION, "topics: at least one is required, and none may be repeated")
    return names


def _starting(text: str, topics: list[str]) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text) if text.lstrip().startswith(("{", "-")) or text.isdigit() else text
    except msgspec.DecodeError as error:
        raise errors.Stop(errors.BAD_OPTION, f"startingOffsets: {error}") from None
    starts = value if isinstance(value, dict) else dict.fromkeys(topics, value)
    for topic, start in starts.items():
        explicit = isinstance(start, dict) and {"g", "p"} <= set(start) <= {"g", "p", "n"}
        if not explicit and start not in ("earliest", "latest") and (not isinstance(start, int) or start < 0):
            raise errors.Stop(errors.BAD_OPTION, f"startingOffsets: {topic}: {start!r} is not a position in a topic")
    return starts


def _decoded(text: Mapping[str, str], name: str, wanted: type[T]) -> T | None:
    value = text.get(name.lower())
    try:
        return None if value is None else msgspec.json.decode(value, type=wanted)
    except msgspec.DecodeError as error:
        raise errors.Stop(errors.BAD_OPTION, f"{name}: {error}") from None


def _moment(text: Mapping[str, str], name: str) -> int | None:
    value = text.get(name)
    if value is None:
        return None
    try:
        start = offsets.parse_starting_position(int(value) if value.isdigit() else value)
    except ValueError:
        start = ""
    if isinstance(start, str):
        raise errors.Stop(errors.BAD_OPTION, f"{name}: must be milliseconds since 1970 or an ISO time, not {value!r}")
    return start


def _one_of(text: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """Read a choice; the first allowed value is the default."""
    value = text.get(name.lower(), allowed[0])
    if value not in allowed:
        raise errors.Stop(errors.BAD_OPTION, f"{name}: must be one of {', '.join(allowed)}, not {value!r}")
    return value


def _number(text: Mapping[str, str], name: str, default: N, *, least: float = 1) -> N:
    try:
        value = type(default)(text.get(name.lower(), default))
    except ValueError:
        raise errors.Stop(errors.BAD_OPTION, f"{name}: must be a number, not {text[name.lower()]!r}") from None
    if value < least:
        raise errors.Stop(errors.BAD_OPTION, f"{name}: must be at least {least}, not {value}")
    return value
