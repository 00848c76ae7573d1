"""What can be found wrong with a job before Spark is started: schema files, transforms, certificates' files, stores.

Starting Spark takes seconds, and a mistake of the settings is no reason to try again.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DateType, StringType, StructField, StructType, TimestampType

from fairlead_ingest import errors
from fairlead_ingest.io import contracts
from fairlead_ingest.io.pipeline import query
from fairlead_ingest.io.pipeline.query import RoundRobin, table_schema
from fairlead_ingest.io.service_tls import tls_of
from fairlead_ingest.io.table import object_store, tables
from fairlead_ingest.rows import envelope
from fairlead_ingest.rows.contract import EVOLVE, RESCUED
from fairlead_ingest.settings import IngestSettings, Pipeline
from fairlead_ingest.table.store_path import StorePath
from fairlead_messaging.client import requests
from fairlead_messaging.client.errors import TopicMissing
from fairlead_messaging.client.io.sync_client import BulkClient
from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs
from fairlead_wire.validation import mistakes

log = logs.get("ingest.preflight")
# Asked before Spark starts, no longer than this: a service that is away is the job's to wait for.
ASK_SECONDS_MAX = 5.0
# Topics that are named in one sentence.
TOLD_MAX = 3


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


def check_folders(settings: IngestSettings) -> None:
    """Raises ``Stop`` naming a folder of a table or a checkpoint that this program's user may not write into."""
    for job in settings.jobs():
        table = settings.place(job.table)
        for place in (
            *(table, tables.beside(table, tables.DEAD_LETTERS), tables.beside(table, tables.GAPS)),
            settings.place(job.checkpoint),
        ):
            if isinstance(place, Path):
                _check_folder(place)


def _check_folder(folder: Path) -> None:
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    what = f"{folder}: " if there != folder else ""
    if not there.is_dir():
        raise errors.Stop(errors.TABLE_UNFIT, f"{what}{there} is no folder; move it away, or name another place")
    raise errors.Stop(
        errors.TABLE_UNFIT,
        f"{what}{there} cannot be written to by user {_user()}; give it to that user (chown), or name another place",
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def check_topics(settings: IngestSettings) -> None:
    """Warn of topics that are not there, where an ``available-now`` job would read them. Raises ``Stop`` where none is.

    A job that goes on waits for them (``watchers`` says so); this one would end well, with an empty table. A service
    that does not answer, or refuses, says nothing here: the job asks it again.
    """
    if settings.trigger_seconds is not None:
        return
    names = sorted({topic for job in settings.jobs() for topic in job.topics})
    missing: dict[str, str] = {}
    with BulkClient(settings.messaging_url, tls=tls_of(settings), timeout_seconds=ASK_SECONDS_MAX) as client:
        try:
            for topic in RoundRobin(names).take(ASK_SECONDS_MAX):
                try:
                    client.offsets(topic, "latest")
                except TopicMissing:
                    missing[topic] = _remedy(client, topic)
        except (FairleadError, OSError) as error:
            log.debug("topics_not_asked", reason=str(error))
            return
    if len(missing) == len(names):
        each = "; ".join(f"{topic} does not exist: {remedy}" for topic, remedy in list(missing.items())[:TOLD_MAX])
        more = f"; and {len(missing) - TOLD_MAX} more" if len(missing) > TOLD_MAX else ""
        raise errors.Stop(errors.BAD_OPTION, f"topics: there is nothing to read: {each}{more}")
    for topic, remedy in missing.items():
        log.warning("topic_missing", topic=topic, reason=f"{topic} does not exist; the others are read", remedy=remedy)


def _remedy(client: BulkClient, topic: str) -> str:
    namespace, _, name = topic.partition("/")
    there: list[str] = client.do(requests.topics(namespace))
    near = mistakes.nearest(name, there)
    meant = f"did you mean {namespace}/{near}? " if near else ""
    return f"{meant}correct topics, or create it: fairlead topics create {topic}"


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
