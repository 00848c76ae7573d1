"""Checks a job before Spark is started: schema files, transforms, certificate files, stores, folders and topics.

Starting Spark takes seconds, and a mistake in the settings should be reported at once.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
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
# How long the topics are asked for before Spark starts; if the service is away, the job waits for it later.
ASK_SECONDS_MAX = 5.0
# How many missing topics one sentence names.
NAMED_MAX = 3


def check(settings: IngestSettings, jobs: list[Pipeline]) -> None:
    """Check files, functions and stores. Raises ``Stop`` with a line for each pipeline that cannot start, and why."""
    if settings.security == "mtls":
        for key in ("tls_ca", "tls_cert", "tls_key"):
            path = Path(getattr(settings, key))
            try:
                path.open("rb").close()
            except OSError as error:
                raise errors.Stop(errors.BAD_OPTION, f"{key}: {path}: {error.strerror}") from None
    away: set[str] = set()
    _each(jobs, lambda job: _check_job(settings, job, away))


def _check_job(settings: IngestSettings, job: Pipeline, away: set[str]) -> None:
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
                # The job waits for it as in any other outage. Probe each bucket once, as it takes ten seconds.
                away.add(place.bucket)
                log.warning("store_away", pipeline=job.name, reason=str(error))
    if job.table_format == tables.ICEBERG:
        _probe_catalog(settings, job)


def _each(jobs: list[Pipeline], check: Callable[[Pipeline], None]) -> None:
    """Check every pipeline, and raise one ``Stop`` with a line for each that is wrong; one job needs no name."""
    wrong: list[tuple[str, errors.Stop]] = []
    for job in jobs:
        try:
            check(job)
        except errors.Stop as error:
            wrong.append((job.name, error))
    if not wrong:
        return
    if len(jobs) == 1:
        raise wrong[0][1]
    lines = [f"{error.code}: pipeline {name}: {error.sentence}" for name, error in wrong]
    raise errors.Stop(wrong[0][1].code, "\n".join(lines).removeprefix(f"{wrong[0][1].code}: "))


def check_folders(settings: IngestSettings) -> None:
    """Raise ``Stop`` if this program's user cannot write into a folder of a table or a checkpoint."""
    _each(settings.jobs(), lambda job: _check_folders_of(settings, job))


def _check_folders_of(settings: IngestSettings, job: Pipeline) -> None:
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
        raise errors.Stop(errors.TABLE_UNFIT, f"{what}{there} is not a folder; move it away, or choose another path")
    raise errors.Stop(
        errors.TABLE_UNFIT,
        f"{what}user {_user()} cannot write to {there}; make that user its owner (chown), or choose another path",
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def check_topics(settings: IngestSettings) -> None:
    """Warn of missing topics of an ``available-now`` job. Raises ``Stop`` if all topics are missing.

    A continuous job waits for missing topics, with a warning (``watchers``), but this one would end successfully with
    an empty table. Nothing is checked if the service does not answer or refuses; the job asks it again.
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
            log.debug("topics_not_checked", reason=str(error))
            return
    if len(missing) == len(names):
        each = "; ".join(f"{topic} does not exist: {remedy}" for topic, remedy in list(missing.items())[:NAMED_MAX])
        more = f"; and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
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
    """Raise ``Stop`` if the rows lack columns of its definition, unless only the start knows the columns."""
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
