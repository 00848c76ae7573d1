"""What can be found wrong with a job before Spark is started: schema files, transforms, certificates' files, stores.

Starting Spark takes seconds, and a mistake of the settings is no reason to try again.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DateType, StringType, StructField, StructType, TimestampType

from fairlead_ingest import errors
from fairlead_ingest.io import contracts
from fairlead_ingest.io.pipeline import query
from fairlead_ingest.io.pipeline.query import table_schema
from fairlead_ingest.io.table import object_store, tables
from fairlead_ingest.rows import envelope
from fairlead_ingest.rows.contract import EVOLVE, RESCUED
from fairlead_ingest.settings import IngestSettings, Pipeline
from fairlead_ingest.table.store_path import StorePath
from fairlead_wire.io import logs

log = logs.get("ingest.preflight")


def check(settings: IngestSettings, jobs: list[Pipeline]) -> None:
    """Raises ``Stop`` naming the pipeline's file or function and what is wrong with it."""
    if settings.security == "mtls":
        for key in ("tls_ca", "tls_cert", "tls_key"):
            path = Path(getattr(settings, key))
            try:
                path.open("rb").close()
            except OSError as error:
                raise errors.Stop(errors.BAD_OPTION, f"{key}: {path}: {error.strerror}") from None
    away: set[str] = set()
    for job in jobs:
        if job.schema_file:
            contracts.read(Path(job.schema_file))
        for name in job.transforms or ():
            query.load(name)
        _check_latest(job)
        for place in (settings.place(job.table), settings.place(job.checkpoint)):
            if isinstance(place, StorePath) and place.bucket not in away:
                try:
                    object_store.probe(place)
                except errors.Wait as error:
                    # It may come; the job waits for it as for any other outage. One look takes ten seconds.
                    away.add(place.bucket)
                    log.warning("store_away", pipeline=job.name, reason=str(error))
        if job.table_format == tables.ICEBERG:
            _probe_catalog(settings, job)


def _probe_catalog(settings: IngestSettings, job: Pipeline) -> None:
    table_format = tables.of_pipeline(settings, job)
    try:
        table_format.version(settings.place(job.table))
    except errors.Wait as error:
        log.warning("catalog_away", pipeline=job.name, reason=str(error))


def _check_latest(job: Pipeline) -> None:
    """Raises ``Stop`` where its columns are none of the rows'; those of transforms and bodies are seen at the start."""
    definition = None if job.latest is None else job.latest.definition
    contract = contracts.read(Path(job.schema_file)) if job.schema_file else None
    if definition is None or job.transforms or (contract is not None and contract.mode == EVOLVE):
        return
    page = envelope.RAW_SCHEMA if job.format == "raw" else envelope.PAGE_SCHEMA
    rows = from_arrow_schema(page).fields
    typed = [] if contract is None else contract.columns.fields
    rescued = [StructField(RESCUED, StringType())] if contract is not None else []
    lineage = [StructField("_ingested_at", TimestampType()), StructField("_date", DateType())]
    definition.check(table_schema(StructType([*rows, *typed, *rescued, *lineage])))
