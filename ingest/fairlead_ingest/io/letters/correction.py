"""Chooses the payload that a repair uses for a dead letter, and judges whether it makes a row.

``PlainJudge`` decodes without Spark, for a job that has neither a schema file nor transforms. ``SparkJudge`` runs the
job's own query: its schema file, its transforms, its lineage.
"""

from __future__ import annotations

import contextlib
import datetime
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from fairlead_ingest import dead_letters as lines
from fairlead_ingest.errors import BAD_OPTION, Stop
from fairlead_ingest.io.pipeline import query
from fairlead_ingest.io.pipeline.query import shaped, source_options
from fairlead_ingest.io.sink.task_writer import NO_BATCH
from fairlead_ingest.io.spark.connect import coded
from fairlead_ingest.io.spark.session import activate
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.rows import envelope
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.settings import IngestSettings, Pipeline
from fairlead_wire import errors
from fairlead_wire.errors import LocalError
from fairlead_wire.validation import json_encoding

OPTION: Final = "--with"
SHOWN_BYTES_MAX: Final = 60
"""How much of a payload is shown in an error of the repair function."""


class Unrepaired(Exception):
    """The letter is not repaired; ``str()`` says why."""


class Correction(Protocol):
    """Chooses each letter's payload."""

    @property
    def method(self) -> str:
        """The method recorded in the mark of a repaired letter."""

    @property
    def names(self) -> Mapping[tuple[str, str], int] | None:
        """The letters it has payloads for, by (topic, id); None for all."""

    def payload(self, letter: dict[str, Any]) -> bytes | None:
        """The payload to judge, None to leave the letter alone. Raises ``Unrepaired``."""


class Rejudged:
    """Judges the payload again unchanged, with the current schema and transforms."""

    method = "judged again"
    names = None

    def payload(self, letter: dict[str, Any]) -> bytes | None:
        found: bytes = letter["payload"] or b""
        return found


class ByFunction:
    """Calls a function, named ``module:function`` or ``path.py:function``. Raises ``Stop``.

    The function takes a letter (a dict with ``topic``, ``id``, ``published_at``, ``code``, ``fields``, ``error`` and
    ``payload``, which is bytes) and returns the payload as bytes, str, or a dict to be written as JSON. None leaves
    the letter unchanged. What it prints goes to standard error, because standard output is the command's own.
    """

    names = None

    def __init__(self, name: str) -> None:
        self.method = f"function {name.rpartition('/')[2]}"
        try:
            with contextlib.redirect_stdout(sys.stderr), _staying():
                self._function: Callable[..., Any] = query.load(name, option=OPTION)
        except _CalledExit as error:
            raise Stop(BAD_OPTION, f"{OPTION}: {name}: {error} when it was imported") from None

    def payload(self, letter: dict[str, Any]) -> bytes | None:
        given = {name.removeprefix("_"): value for name, value in letter.items()}
        given["payload"], given["fields"] = letter["payload"] or b"", letter["fields"] or []
        try:
            with contextlib.redirect_stdout(sys.stderr), _staying():
                found = self._function(given)
            if isinstance(found, str):
                return found.encode()
            if isinstance(found, dict):
                return json_encoding.encode(found)
        except json_encoding.NotJson as error:
            raise Unrepaired(f"{OPTION}: {self.method} returned {error}; return None or a number") from None
        except Exception as error:  # noqa: BLE001  (the user's function; only this letter fails)
            what = str(error) if isinstance(error, _CalledExit) else f"raised {errors.described(error)}"
            raised = f"{self.method} {what}"
            raise Unrepaired(f"{OPTION}: {raised}; for the payload {_begin(given['payload'])}") from None
        if found is None or isinstance(found, bytes):
            return found
        text = repr(found)
        begin = text if len(text) <= SHOWN_BYTES_MAX else f"{text[:SHOWN_BYTES_MAX]}…"
        returned = f"{self.method} returned {type(found).__name__} ({begin})"
        raise Unrepaired(f"{OPTION}: {returned}; it must return bytes, str, dict or None")


class _CalledExit(Exception):
    """The user's code called ``sys.exit``."""


@contextlib.contextmanager
def _staying() -> Iterator[None]:
    """A function that ends the program would leave the other letters without a word."""
    try:
        yield
    except SystemExit as error:
        raise _CalledExit(f"called sys.exit({error.code!r})") from None


def _begin(payload: bytes) -> str:
    more = "…" if len(payload) > SHOWN_BYTES_MAX else ""
    return f"{payload[:SHOWN_BYTES_MAX]!r}{more}"


class ByFile:
    """Takes payloads from an edited export. Raises ``LocalError`` naming a line that cannot be used.

    Only the positions of the lines are kept in memory, about 150 bytes each; a line is read when it is needed.
    """

    method = "edited"

    def __init__(self, path: Path) -> None:
        self._places: dict[tuple[str, str], int] = {}
        self.names: Mapping[tuple[str, str], int] | None = self._places
        try:
            self._file = path.open("rb")
            self._scan(path)
        except OSError as error:
            raise LocalError(f"--edited {path}: {error.strerror or error}") from None

    def payload(self, letter: dict[str, Any]) -> bytes | None:
        self._file.seek(self._places[letter["_topic"], letter["_id"]])
        try:
            return lines.decode(self._file.readline(lines.LINE_BYTES_MAX)).payload
        except lines.BadLine as error:
            raise Unrepaired(f"--edited: the file has changed since it was read: {error}") from None

    def _scan(self, path: Path) -> None:
        number = 0
        while True:
            place = self._file.tell()
            text = self._file.readline(lines.LINE_BYTES_MAX + 1)
            number += 1
            if not text:
                return
            if len(text) > lines.LINE_BYTES_MAX:
                raise LocalError(f"--edited {path}: line {number}: longer than {lines.LINE_BYTES_MAX} bytes")
            if not text.strip():
                continue
            try:
                found = lines.decode(text)
            except lines.BadLine as error:
                raise LocalError(f"--edited {path}: line {number}: {error}") from None
            if (found.topic, found.id) in self._places:
                raise LocalError(f"--edited {path}: line {number}: {found.topic} {found.id} is in the file twice")
            self._places[found.topic, found.id] = place


Decode = Callable[[str, pa.Array, pa.Array, pa.Array], pa.RecordBatch]
"""Decodes a page of one topic (ids, times, payloads) to rows with ``_error`` and ``_payload``."""


class LetterJudge(Protocol):
    """Applies the job's own rules."""

    def __call__(self, letters: pa.Table) -> pa.Table:
        """The rows the sink would get for ``letters`` (``_topic``, ``_id``, ``_published_at``, ``payload``).

        Raises the errors of the transforms, ``Stop``, ``Wait``.
        """


class PlainJudge:
    """Judges the letters of one pipeline without Spark."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._decode: Decode = envelope.page if pipeline.format == "envelope" else envelope.raw_page

    def __call__(self, letters: pa.Table) -> pa.Table:
        rows = pages(letters, self._decode)
        now = pa.repeat(pa.scalar(datetime.datetime.now(datetime.UTC), TIMESTAMP), rows.num_rows)
        rows = rows.append_column("_ingested_at", now)
        return numbered(rows.append_column("_date", rows["_published_at"].cast(pa.date32())))


def needs_spark(pipeline: Pipeline) -> bool:
    """Whether the pipeline has a schema file or transforms, which need Spark."""
    return bool(pipeline.schema_file or pipeline.transforms)


def pages(letters: pa.Table, decode: Decode) -> pa.Table:
    """Decode letters as the job's source does, as one page for each topic."""
    found = []
    for topic in pc.unique(letters["_topic"]).to_pylist():
        some = letters.filter(pc.equal(letters["_topic"], topic)).combine_chunks()
        ids = pa.array([bytes.fromhex(name) for name in some["_id"].to_pylist()], pa.binary())
        moments, payloads = some["_published_at"].combine_chunks(), some["payload"].combine_chunks()
        found.append(decode(topic, ids, moments, payloads))
    return pa.Table.from_batches(found)


def numbered(rows: pa.Table) -> pa.Table:
    """Add the column ``_batch`` with ``NO_BATCH``, before ``_date``."""
    batch = pa.repeat(pa.scalar(NO_BATCH, pa.int64()), rows.num_rows)
    return rows.add_column(rows.column_names.index("_date"), "_batch", batch)


class SparkJudge:
    """Judges with the pipeline's query; each chunk reads the schema file again, as the table may have new columns."""

    def __init__(self, session: SparkSession, settings: IngestSettings, pipeline: Pipeline) -> None:
        self._session = session
        self._settings = settings
        self._pipeline = pipeline

    def __call__(self, letters: pa.Table) -> pa.Table:
        with coded():
            options = SourceOptions.of(source_options(self._session, self._settings, self._pipeline))
            activate(self._session)
            rows = self._session.createDataFrame(pages(letters, options.decoder()))
            return numbered(shaped(rows, self._settings, self._pipeline).toArrow())
