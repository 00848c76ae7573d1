"""The parts of a pipeline's query: the source's options, the shaping of rows, the table's columns.

source ──source_options──▶ rows ──shaped──▶ typed columns, the user's transforms, lineage ──▶ sink

A user's transform is named ``module:function`` (on the Python path) or ``path.py:function``. It is a function from
DataFrame to DataFrame. It may add and drop columns, but must keep the row's identity and the passenger columns
``_error`` and ``_payload``.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from inspect import isfunction
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from fairlead_ingest import errors
from fairlead_ingest.io import contracts
from fairlead_ingest.io.spark import connect
from fairlead_ingest.io.spark.session import parallelism
from fairlead_ingest.io.table import tables
from fairlead_ingest.rows import transforms
from fairlead_ingest.rows.contract import EVOLVE, Contract, grown
from fairlead_ingest.rows.transforms import PASSENGERS
from fairlead_ingest.settings import IngestSettings, Pipeline
from fairlead_wire.errors import FairleadError, described
from fairlead_wire.validation import mistakes

Transform = Callable[[DataFrame], DataFrame]
KEPT = ("_topic", "_id", "_published_at")
# How many functions of a file an error names.
FUNCTIONS_SHOWN_MAX = 5


def load(name: str, *, option: str = "transforms") -> Transform:
    """Load the function ``name``, given in ``option``. Raises ``Stop`` if it cannot be loaded."""
    place, _, function = name.rpartition(":")
    if not place or not function:
        raise errors.Stop(errors.BAD_OPTION, f"{option}: {name} must be module:function or path.py:function")
    try:
        module = _file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:
        if isinstance(error, (ImportError, OSError, SyntaxError)):
            said = str(error)
        else:
            raised = f"{described(error)}{errors.line_of(error)}"
            said = f"importing {place} raised {raised}; it is imported as a module, not run as a script"
        raise errors.Stop(errors.BAD_OPTION, f"{option}: {name}: {said}") from error
    found = getattr(module, function, None)
    if found is None:
        raise errors.Stop(
            errors.BAD_OPTION, f"{option}: {place} has no function {function}; {_functions_of(module, function)}"
        )
    if not callable(found):
        raise errors.Stop(errors.BAD_OPTION, f"{option}: {name} is not a function")
    return cast(Transform, found)


def _functions_of(module: object, wanted: str) -> str:
    """The functions that could be meant: those that the module itself defines."""
    own = getattr(module, "__name__", None)
    found = [name for name, each in vars(module).items() if isfunction(each) and each.__module__ == own]
    if not found:
        return "it defines no function"
    near = mistakes.nearest(wanted, found)
    shown = [near] if near else found[:FUNCTIONS_SHOWN_MAX]
    return f"it has {', '.join(shown)}{', …' if len(found) > len(shown) else ''}"


def apply(name: str, rows: DataFrame) -> DataFrame:
    """Apply the transform ``name``. Raises ``Stop`` or ``Fault`` if it fails or removes a column that must stay."""
    function = load(name)
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    try:
        after: object = function(rows)
    except Exception as error:
        if isinstance(error, FairleadError) or (connect.is_about_spark(error) and _is_from_spark(error)):
            raise
        said = described(error, str(error).strip().partition("\n")[0])
        sentence = f"transforms: {name} raised {said}{errors.line_of(error, file)}"
        if isinstance(error, OSError):  # a file or service that it reads may come back
            raise errors.Fault(sentence) from error
        raise errors.Stop(errors.BAD_OPTION, sentence) from error
    if not isinstance(after, DataFrame):
        returned = "None" if after is None else type(after).__name__
        raise errors.Stop(errors.BAD_OPTION, f"transforms: {name} returned {returned}, not a DataFrame")
    must = [column for column in (*KEPT, *PASSENGERS) if column in rows.columns]
    lost = [column for column in must if column not in after.columns]
    if lost:
        raise errors.Stop(errors.BAD_OPTION, f"transforms: {name} removed the required columns: {', '.join(lost)}")
    return after


def _is_from_spark(error: BaseException) -> bool:
    """Whether Spark raised it, rather than the user's own connection to another service."""
    files = [each.filename for each in traceback.extract_tb(error.__traceback__)]
    is_own = isinstance(error, ConnectionError) and not isinstance(error, connect.SparkAway)
    return not is_own or any("/py4j/" in each or "/pyspark/" in each for each in files)


def _file(path: Path) -> object:
    if not path.is_file():
        raise OSError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"fairlead_transform_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise OSError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# How long an idle job's request waits in the service, which answers earlier if there are new messages.
IDLE_WAIT_MS = 2000


def source_options(session: SparkSession, settings: IngestSettings, pipeline: Pipeline) -> dict[str, str]:
    """The source's options from the settings, without the starting position."""
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
    """How long a batch of a continuous job should take; 0 if the settings do not limit it."""
    wanted, trigger = settings.limits.batch_seconds, settings.trigger_seconds
    # A shorter batch would wait for the trigger.
    return max(wanted, trigger) if wanted and trigger is not None else 0.0


def evolves(pipeline: Pipeline) -> bool:
    """Whether new fields of bodies add columns to the pipeline's table. Raises ``Stop``."""
    return bool(pipeline.schema_file) and contracts.read(Path(str(pipeline.schema_file))).mode == EVOLVE


def judged_by(pipeline: Pipeline) -> str:
    """The contract's name and version as JSON for the table's log; empty if it has no name. Raises ``Stop``."""
    contract = contracts.read(Path(str(pipeline.schema_file))) if pipeline.schema_file else None
    return json.dumps({"name": contract.name, "version": contract.version}) if contract and contract.name else ""


def contract_now(settings: IngestSettings, pipeline: Pipeline) -> Contract:
    """The schema file's contract, with the columns the table has gained since if it evolves. Raises ``Stop``."""
    contract = contracts.read(Path(str(pipeline.schema_file)))
    table_format, table = tables.of_pipeline(settings, pipeline), settings.place(pipeline.table)
    held = table_format.dataset(table) if contract.mode == EVOLVE else None
    return contract if held is None else grown(contract, from_arrow_schema(held.schema))


def shaped(rows: DataFrame, settings: IngestSettings, pipeline: Pipeline) -> DataFrame:
    """The source's rows with typed columns, the user's transforms and lineage applied. Raises ``Stop``."""
    if pipeline.schema_file:
        rows = transforms.typed(rows, contract_now(settings, pipeline))
    for name in pipeline.transforms or ():
        rows = apply(name, rows)
    if pipeline.dedupe_seconds and rows.isStreaming:
        rows = transforms.deduplicated(rows, pipeline.dedupe_seconds)
    return transforms.lineage(_lineage_last(rows))


def _lineage_last(rows: DataFrame) -> DataFrame:
    """Move the lineage columns behind those that transforms appended."""
    last = [name for name in (*KEPT, *transforms.PASSENGERS) if name in rows.columns]
    return rows.select(*[transforms.quoted(name) for name in rows.columns if name not in last], *last)


def table_schema(rows: StructType) -> pa.Schema:
    """The table's columns: the query's without passengers, with ``_batch`` before ``_date``, all nullable."""
    columns = [StructField(field.name, field.dataType) for field in rows if field.name not in transforms.PASSENGERS]
    columns.insert(len(columns) - 1, StructField("_batch", LongType()))
    return to_arrow_schema(StructType(columns), timezone="UTC")


class RoundRobin:
    """Iterates over names in turn, as many at a time as there is time for."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._next = 0

    def take(self, seconds: float) -> Iterator[str]:
        """Each name once, beginning where the last call ended; none after ``seconds``."""
        deadline = time.monotonic() + seconds
        for _ in self._names:
            name = self._names[self._next % len(self._names)]
            self._next += 1
            yield name
            if time.monotonic() > deadline:
                return
