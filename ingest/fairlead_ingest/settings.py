"""The settings of an ingest job, from its file or ``FAIRLEAD_INGEST_*``: keys, defaults, limits.

``pipelines`` is for several tables in one job; each entry inherits missing keys from the job. ``[catalog]`` is for
Iceberg tables. The text below a key is its description on the reference page. Times are in seconds, sizes in bytes.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self

import pydantic
from pydantic import AfterValidator, Field

from fairlead_ingest import spark_cluster
from fairlead_ingest.latest import definition
from fairlead_ingest.latest.definition import LatestSettings
from fairlead_ingest.source import batch_size, offsets
from fairlead_ingest.table import catalog, store_path
from fairlead_ingest.table import catalog as catalogs
from fairlead_ingest.table.catalog import NAME_DEFAULT, Catalog
from fairlead_ingest.table.store_path import Place, Storage
from fairlead_wire import event
from fairlead_wire.traces.model import TracesModel
from fairlead_wire.validation import listen_address, mistakes
from fairlead_wire.validation.file_path import FilePath
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.model import ListenAddress, Model


class CatalogSettings(Model):
    """The catalog of tables with `table_format = "iceberg"`. Secrets are not in this file, but in `password_file`,
    `token_file`, `credential_file`, or the environment variables of the database's client (`PGPASSWORD`)."""

    type: Literal["sql", "rest"] = "sql"
    """`sql`: a database (SQLite on one machine, PostgreSQL for several), `rest`: a service with Iceberg's REST API
    (Polaris, Lakekeeper, Nessie, Gravitino, Unity, …)."""
    uri: str = ""
    """Address of the catalog: `sqlite:////var/lib/fairlead/catalog.db`, `postgresql+psycopg://user@host/database`, or
    the service's `https://` (`http://` only on loopback). Required with `table_format = "iceberg"`."""
    name: str = NAME_DEFAULT
    """Name of a `sql` catalog in its rows; readers must use the same one."""
    namespace: str = NAME_DEFAULT
    """Namespace of the tables in the catalog, created if it is missing. The last part of `table` is the table's
    name."""
    warehouse: str | None = None
    """Warehouse, for a `rest` catalog with several."""
    password_file: FilePath | None = None
    """File with the password of the database user."""
    token_file: FilePath | None = None
    """File with a bearer token for a `rest` catalog, read each time the catalog is opened."""
    credential_file: FilePath | None = None
    """File with `client-id:client-secret` for a `rest` catalog that issues tokens through OAuth2."""
    oauth2_uri: str | None = None
    """Address that issues these tokens. If not set, the catalog itself does."""
    oauth2_scope: str | None = pydantic.Field(default=None, min_length=1, max_length=1024, pattern=r"^[!#-\[\]-~ ]+$")
    """Scope to request with `credential_file`, such as `PRINCIPAL_ROLE:ALL` for Polaris. If not set, `catalog`."""
    tls_ca: FilePath | None = None
    """The authority of a `rest` catalog's certificate, if the system does not trust it."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        mistakes.refuse(list(self._wrong()))
        return self

    def _wrong(self) -> list[Mistake]:
        found = []
        for key, text in (("uri", self.uri), ("oauth2_uri", self.oauth2_uri or "")):
            try:
                if text:
                    catalog.check_uri(self.type if key == "uri" else "rest", text)
            except ValueError as error:
                found.append(Mistake(key, str(error)))
        try:
            catalog.check_namespace(self.namespace)
        except ValueError as error:
            found.append(Mistake("namespace", str(error)))
        of_rest = ("token_file", "credential_file", "oauth2_uri", "oauth2_scope", "warehouse")
        others = ("password_file",) if self.type == "rest" else of_rest
        found += [
            Mistake(key, f'not allowed with type = "{self.type}"') for key in others if getattr(self, key) is not None
        ]
        return found

    def catalog(self) -> Catalog | None:
        """The catalog, None if there is none."""
        return Catalog(**self.model_dump()) if self.uri else None


AVAILABLE_NOW: Final = "available-now"
PORT_DEFAULT: Final = 11016
_TOPIC = re.compile(r"[^/\s]+/[^/\s]+")
_READER = re.compile(r"[A-Za-z0-9._-]{1,128}")
_TRANSFORM = re.compile(r".+:[A-Za-z_]\w*")


def _topic(name: str) -> str:
    if not _TOPIC.fullmatch(name):
        raise ValueError(f"must be namespace/name, is {mistakes.shown(name)}")
    return name


def _table(path: str) -> str:
    if store_path.is_url(path):
        store_path.parse(path)
    return path


def _endpoint(address: str) -> str:
    store_path.check_endpoint(address)
    return address


def _header(text: str) -> str:
    if not store_path.is_header(text):
        raise ValueError("must be printable ASCII without spaces")
    return text


def _transform(name: str) -> str:
    if not _TRANSFORM.fullmatch(name):
        raise ValueError(f"must be module:function or path.py:function, is {mistakes.shown(name)}")
    return name


def _reader(name: str) -> str:
    if not _READER.fullmatch(name):
        raise ValueError(f"must be letters, digits, '.', '_' and '-' only, at most 128, is {mistakes.shown(name)}")
    return name


def _position(position: str | int | datetime.datetime) -> str | int | datetime.datetime:
    offsets.parse_starting_position(position)
    return position


def _trigger(trigger: str | int | float) -> str | int | float:
    try:
        seconds = 0.0 if trigger == AVAILABLE_NOW else float(trigger)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ValueError(f'must be "{AVAILABLE_NOW}" or seconds, is {mistakes.shown(trigger)}')
    return trigger


Topic = Annotated[str, AfterValidator(_topic)]
Table = Annotated[FilePath, AfterValidator(_table)]
Endpoint = Annotated[str, AfterValidator(_endpoint)]
Header = Annotated[str, AfterValidator(_header)]
Transform = Annotated[str, AfterValidator(_transform)]
ConnectAddress = Annotated[str, AfterValidator(spark_cluster.check)]
Position = Annotated[str | int | datetime.datetime, AfterValidator(_position)]
Format = Literal["envelope", "raw"]
TableFormatName = Literal["delta", "iceberg"]
Count = Annotated[int, Field(ge=1)]


class Pipeline(Model):
    """One table of a job that fills several; absent keys are taken from the job."""

    topics: list[Topic]
    """Topics to read, as `namespace/name`."""
    table: Table
    """Folder of the table, or `s3://bucket/path`."""
    checkpoint: Table
    """Folder of the checkpoint, or `s3://bucket/path`."""
    name: str = ""
    """Name in logs and metrics. If not set, `pipeline-1` and so on."""
    format: Format | None = None
    """As `format` of the job."""
    table_format: TableFormatName | None = None
    """As `table_format` of the job."""
    schema_file: FilePath | None = Field(default=None, alias="schema")
    """As `schema` of the job."""
    starting_position: Position | None = None
    """As `starting_position` of the job."""
    transforms: list[Transform] | None = None
    """As `transforms` of the job."""
    dedupe_seconds: Annotated[float, Field(ge=0)] | None = None
    """As `dedupe_seconds` of the job."""
    latest: LatestSettings | None = None


class BatchLimits(Model):
    """Size limits of batches and requests."""

    batch_rows: Count = batch_size.BATCH_ROWS
    """Maximum number of messages in one batch."""
    batch_bytes: Count = batch_size.BATCH_BYTES
    """Maximum total size of their payloads."""
    batch_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = batch_size.BATCH_SECONDS
    """How long a batch should take while some topics are up to date and others are not, or `trigger` if that is longer
    ([why](../howto/size-and-tune.md#live-messages-beside-a-backlog)); 0: only the two keys above apply."""
    page_rows: Count = batch_size.PAGE_ROWS
    """Maximum number of messages in one response of the service."""
    page_bytes: Count = batch_size.PAGE_BYTES
    """Maximum total size of their payloads."""
    split_bytes: Count = batch_size.SPLIT_BYTES
    """A range of offsets smaller than this does not get its own task."""
    tasks: Count | None = None
    """Number of tasks that share a batch of one large topic. If not set, the number of cores of the
    connected executors."""


class Spark(Model):
    """Where and how Spark runs."""

    master: str = "local[*]"
    """Spark's master: `local[*]`, `spark://host:7077`."""
    remote: ConnectAddress | None = None
    """A Spark Connect server, `sc://host:15002`, instead of `master` ([how](../howto/spark-clusters.md))."""
    driver_memory: str = "1g"
    """Memory of the JVM, in Spark's notation."""
    conf: dict[str, str] = Field(default={})
    """Spark settings, passed on unchanged; they override those of the job."""


class StorageSettings(Model):
    """Access to the object store of `s3://` tables. Absent keys are taken from the environment (`AWS_ENDPOINT_URL`,
    `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, web identity) of every process."""

    endpoint_url: Endpoint | None = None
    """Address of the store, `https://`; `http://` only on loopback. If not set, AWS."""
    region: Header | None = None
    """The bucket's region."""
    access_key_id: Header | None = None
    """Id of the key; its secret is never in this file."""
    secret_access_key_file: FilePath | None = None
    """File with the key's secret, at this path on every machine that runs tasks."""
    session_token_file: FilePath | None = None
    """File with the session token, for a temporary key."""


class IngestEvents(Model):
    """Events that the job publishes about its tables."""

    topic: Annotated[str, AfterValidator(event.check_topic)] = event.TOPIC_DEFAULT
    """Topic for events about commits, gaps and stops ([events](events.md)); empty: no events."""


class IngestSettings(Model):
    """The whole file."""

    messaging_url: str
    """Address of the messaging service: `https://` with `mtls`, `http://` with `insecure`."""
    topics: list[Topic] = Field(default=[])
    """Topics to read, as `namespace/name`. The job waits for missing ones and logs them (`topic_missing`); with
    `available-now` it refuses to start if all are missing. Required without `[[pipelines]]`, like the next two."""
    table: Table = ""
    """A folder that every task can reach, or `s3://bucket/path` ([how](../howto/tables-on-object-stores.md));
    `<table>_dead_letters` and `<table>_gaps` are next to it."""
    checkpoint: Table = ""
    """A folder that every task can reach, or `s3://bucket/path` ([how](../howto/tables-on-object-stores.md)). The
    folders of a job must differ, and none may be inside a table, except in a hidden folder."""
    trigger: Annotated[str | int | float, AfterValidator(_trigger)] = 1
    """`"available-now"`: read everything that was stable at startup, then exit 0; or seconds between batches, 0: no
    pause."""
    starting_position: Position = "earliest"
    """`earliest`, `latest`, `table` (where the table ends), an ISO time, or milliseconds since 1970; applies only to
    the first start."""
    format: Format = "envelope"
    """`envelope` (columns below), or `raw` (`payload` and lineage)."""
    table_format: TableFormatName = "delta"
    """Format of the tables: `delta`, or `iceberg` ([how](../howto/iceberg-tables.md))."""
    schema_file: FilePath | None = Field(default=None, alias="schema")
    """Contract with typed columns for the body, see below."""
    transforms: list[Transform] = Field(default=[])
    """Your own functions from DataFrame to DataFrame, `"module:function"` or `"path.py:function"`, in order; they must
    keep `_topic`, `_id`, `_published_at`, `_error`, `_payload`."""
    dedupe_seconds: Annotated[float, Field(ge=0)] = 0
    """Drop messages that a producer sent twice under new ids within this time (by node, epoch, stream, sequence); 0:
    off. Messaging already does this when messages are published."""
    on_expired: Literal["count", "gap", "fail"] = "count"
    """What to do if unread messages expired: `count` counts them and continues, `gap` also writes a gap row, `fail`
    stops."""
    on_recreated: Literal["fail", "restart"] = "fail"
    """What to do if a topic was deleted and recreated: `fail` stops, `restart` reads the new one and writes a gap row
    for the old one."""
    reader: Annotated[str, AfterValidator(_reader)] = "ingest"
    """Reader name under which the service stores the job's position: letters, digits, `.`, `_` and `-`, at most 128."""
    pipelines: list[Pipeline] = Field(default=[])
    """Several tables in one job, each with the keys that differ."""
    security: Literal["mtls", "insecure"] = "mtls"
    """`insecure`: no TLS; `http_listen` must be a loopback address."""
    tls_ca: FilePath | None = None
    """Authority of the service; required with `mtls`, like the next two."""
    tls_cert: FilePath | None = None
    """The job's certificate."""
    tls_key: FilePath | None = None
    """The key of `tls_cert`."""
    http_listen: ListenAddress | None = None
    """Address for `/healthz`, `/readyz` (a 503 names the current step) and `/metrics`; if this and the next key are
    absent, `127.0.0.1:11016`, or a free port if that is taken."""
    health_listen: ListenAddress | None = None
    """The same, instead of `http_listen`, also on other than loopback addresses."""
    receipts: bool = False
    """Also answer `GET /v1/receipts/ID` there, for everyone who can connect, see below."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of log lines."""
    request_seconds: Annotated[float, Field(gt=0)] = batch_size.REQUEST_SECONDS
    """How long a request to a silent service may take before the service counts as down."""
    limits: BatchLimits = BatchLimits()
    spark: Spark = Spark()
    storage: StorageSettings = StorageSettings()
    latest: LatestSettings = LatestSettings()
    catalog: CatalogSettings = CatalogSettings()
    events: IngestEvents = IngestEvents()
    traces: TracesModel = TracesModel()

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        mistakes.refuse(self._wrong())
        return self

    def _wrong(self) -> Iterator[Mistake]:
        scheme = "http://" if self.security == "insecure" else "https://"
        if not self.messaging_url.startswith(scheme):
            yield Mistake("messaging_url", f'must begin with {scheme} with security = "{self.security}"')
        if self.security == "mtls":
            for key in ("tls_ca", "tls_cert", "tls_key"):
                if not getattr(self, key):
                    yield Mistake(key, 'required with security = "mtls"')
        elif self.http_listen and not listen_address.is_loopback(listen_address.parse(self.http_listen)[0]):
            yield Mistake("http_listen", 'must be a loopback address with security = "insecure"')
        if self.spark.remote and {"master", "driver_memory"} & self.spark.model_fields_set:
            yield Mistake("spark.remote", "not allowed with master or driver_memory, which the server sets")
        if self.spark.remote and any("://" in job.checkpoint for job in self.jobs()):
            yield Mistake("checkpoint", "must be a folder shared with the Connect server of spark.remote, not a URL")
        jobs = self.jobs()
        if not jobs:
            yield Mistake("topics", "required, but not set (or give [[pipelines]])")
        names = [job.name for job in jobs]
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                yield Mistake("name", f"two pipelines have the name {mistakes.shown(name)}")
        bad = [each for key, job in self._named_jobs() for each in _wrong_together(key, job)]
        yield from bad
        if not bad:
            try:
                kept = [job.name for job in jobs if job.latest is not None and job.latest.key]
                store_path.check([(job.name, job.table, job.checkpoint) for job in jobs], with_latest=kept)
            except mistakes.Wrong as error:
                yield from error.mistakes
            yield from self._wrong_in_catalog()

    def _wrong_in_catalog(self) -> Iterator[Mistake]:
        used: dict[str, str] = {}
        for key, job in self._named_jobs():
            if job.table_format != "iceberg":
                continue
            if not self.catalog.uri:
                yield Mistake("catalog.uri", 'required with table_format = "iceberg"')
            name = self.place(job.table).name
            try:
                catalogs.check_table_name(name)
            except ValueError as error:
                yield Mistake(mistakes.join(key, "table"), str(error))
            for suffix in ("", store_path.DEAD_LETTERS, store_path.GAPS):
                if used.setdefault(name + suffix, job.name) != job.name:
                    yield Mistake(
                        mistakes.join(key, "table"),
                        f"{used[name + suffix]} also has a table {name + suffix} in the catalog; the names must differ",
                    )

    @property
    def trigger_seconds(self) -> float | None:
        """Seconds between batches; 0 for no pause, None for ``available-now``."""
        return None if self.trigger == AVAILABLE_NOW else float(self.trigger)

    def place(self, table: str) -> Place:
        """The place of a table, with the storage settings. Raises ``ValueError``."""
        return store_path.place(table, Storage(**self.storage.model_dump()))

    def catalog_of(self, table_format: str | None) -> Catalog | None:
        """The catalog of tables of this format (None for the job's); None if the format has no catalog."""
        return self.catalog.catalog() if (table_format or self.table_format) == "iceberg" else None

    def jobs(self) -> list[Pipeline]:
        """The pipelines with inherited settings filled in."""
        return [job for _, job in self._named_jobs()]

    def _named_jobs(self) -> Iterator[tuple[str, Pipeline]]:
        """The pipelines with inherited settings, each with its key in the settings."""
        if self.topics or self.table or self.checkpoint:
            own = {name: getattr(self, name) for name in Pipeline.model_fields if name != "name"}
            yield "", Pipeline.model_construct(name=self.reader, **own)
        for index, pipeline in enumerate(self.pipelines):
            inherited = {name: getattr(self, name) for name in Pipeline.model_fields if getattr(pipeline, name) is None}
            named = {"name": pipeline.name or f"pipeline-{index + 1}"}
            yield f"pipelines[{index}]", pipeline.model_copy(update={**inherited, **named})


def _wrong_together(where: str, job: Pipeline) -> Iterator[Mistake]:
    """The mistakes of a pipeline with inherited settings filled in."""
    for key in ("topics", "table", "checkpoint"):
        if not getattr(job, key):
            yield Mistake(mistakes.join(where, key), mistakes.REQUIRED)
    if job.latest is not None:
        yield from definition.wrong(mistakes.join(where, "latest"), job.latest, str(job.table_format))
    if len(set(job.topics)) != len(job.topics):
        yield Mistake(mistakes.join(where, "topics"), "a topic is repeated")
    if job.format == "raw" and (job.schema_file or job.dedupe_seconds):
        yield Mistake(mistakes.join(where, "format"), '"raw" cannot be used with schema or dedupe_seconds')
