"""What a user may set for an ingest job; values only, checked where they are made.

Every limit has its name here. ``pipelines`` is for several tables in one job: each entry inherits what it leaves out.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

import msgspec

from fairlead_ingest.source import data_loss_policy
from fairlead_ingest.table import folders
from fairlead_wire import event, listen_address
from fairlead_wire.file_path import FilePath

AVAILABLE_NOW = "available-now"
FORMATS = ("envelope", "raw")
SINK_DEFAULT = "delta"
SINKS = (SINK_DEFAULT, "parquet")
SECURITY = ("mtls", "insecure")
NAMED_POSITIONS = ("earliest", "latest", "table")
PORT_DEFAULT = 11016
_TOPIC = re.compile(r"[^/\s]+/[^/\s]+")
_TRANSFORM = re.compile(r".+:[A-Za-z_]\w*")


class Pipeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of a job that fills several; a key left out is taken from the job."""

    topics: list[str]
    table: FilePath
    checkpoint: FilePath
    name: str = ""
    format: str | None = None
    # What the tables are made of.
    sink: str | None = None
    schema: FilePath | None = None
    # Any: TOML has times of its own, and a union of text and time cannot be told apart; start_of checks it.
    starting_position: Any = None
    transforms: list[str] | None = None
    dedupe_seconds: float | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much one batch and one request may be."""

    batch_rows: int = 500_000
    batch_bytes: int = 512 * 1024 * 1024
    page_rows: int = 10_000
    page_bytes: int = 8 * 1024 * 1024
    # A range smaller than this is not worth a task of its own.
    split_bytes: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        for key in self.__struct_fields__:
            if getattr(self, key) < 1:
                raise ValueError(f"{key}: must be at least 1")


class Spark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where and how Spark runs; ``conf`` is handed to Spark as it is and wins."""

    master: str = "local[*]"
    driver_memory: str = "1g"
    conf: dict[str, str] = {}


class Events(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the job tells of its tables; empty topic: nothing."""

    topic: str = event.TOPIC_DEFAULT

    def __post_init__(self) -> None:
        event.check_topic("topic", self.topic)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole job. Raises ``ValueError("key: reason")`` for values that cannot be meant."""

    messaging_url: str
    topics: list[str] = []
    table: FilePath = ""
    checkpoint: FilePath = ""
    trigger: str | int | float = 1
    starting_position: Any = "earliest"
    format: str = "envelope"
    sink: str = SINK_DEFAULT
    schema: FilePath | None = None
    # Functions from DataFrame to DataFrame, "module:function" or "path.py:function", in this order.
    transforms: list[str] = []
    # Drop what one producer sent twice under new ids within this time; 0 for none. The service does it better.
    dedupe_seconds: float = 0
    on_expired: str = "count"
    on_recreated: str = "fail"
    reader: str = "ingest"
    pipelines: list[Pipeline] = []
    security: str = "mtls"
    tls_ca: FilePath | None = None
    tls_cert: FilePath | None = None
    tls_key: FilePath | None = None
    http_listen: str | None = None
    health_listen: str | None = None
    # Whoever can connect may ask whether a message is in the tables.
    receipts: bool = False
    log_level: str = "info"
    # How long one request to a silent service may take before it counts as down.
    request_seconds: float = 30.0
    limits: Limits = Limits()
    spark: Spark = Spark()
    events: Events = Events()

    def __post_init__(self) -> None:
        scheme = "http://" if self.security == "insecure" else "https://"
        _one_of("security", self.security, SECURITY)
        if not self.messaging_url.startswith(scheme):
            raise ValueError(f'messaging_url: must begin with {scheme} when security = "{self.security}"')
        _one_of("on_expired", self.on_expired, data_loss_policy.ON_EXPIRED)
        _one_of("on_recreated", self.on_recreated, data_loss_policy.ON_RECREATED)
        _one_of("log_level", self.log_level, ("debug", "info", "warning", "error"))
        if self.security == "mtls":
            for key in ("tls_ca", "tls_cert", "tls_key"):
                if not getattr(self, key):
                    raise ValueError(f'{key}: required when security = "mtls"')
        if self.trigger_seconds is not None and self.trigger_seconds < 0:
            raise ValueError("trigger: seconds must not be negative")
        for key in ("http_listen", "health_listen"):
            value = getattr(self, key)
            if value is not None:
                host, _ = listen_address.parse(key, value)
                if key == "http_listen" and self.security == "insecure" and not listen_address.is_loopback(host):
                    raise ValueError('http_listen: security = "insecure" listens on loopback only')
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", self.reader):
            raise ValueError("reader: letters, digits, '.', '_' and '-' only, at most 128")
        if self.request_seconds <= 0:
            raise ValueError("request_seconds: must be more than 0")
        jobs = self.jobs()
        if not jobs:
            raise ValueError("topics: required, but not set (or give [[pipelines]])")
        names = [job.name for job in jobs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"name: two pipelines are called {name!r}")
        folders.check([(job.name, job.table, job.checkpoint) for job in jobs])

    @property
    def trigger_seconds(self) -> float | None:
        """Seconds between batches (0: back to back); None for available-now."""
        if self.trigger == AVAILABLE_NOW:
            return None
        if isinstance(self.trigger, str):
            try:
                return float(self.trigger)
            except ValueError:
                raise ValueError(f'trigger: "{AVAILABLE_NOW}" or seconds, not {self.trigger!r}') from None
        return float(self.trigger)

    def jobs(self) -> list[Pipeline]:
        """The pipelines with everything they inherit filled in and checked."""
        given = [
            msgspec.structs.replace(
                pipeline,
                name=pipeline.name or f"pipeline-{index}",
                format=pipeline.format or self.format,
                sink=pipeline.sink or self.sink,
                schema=pipeline.schema or self.schema,
                transforms=self.transforms if pipeline.transforms is None else pipeline.transforms,
                dedupe_seconds=self.dedupe_seconds if pipeline.dedupe_seconds is None else pipeline.dedupe_seconds,
                starting_position=self.starting_position
                if pipeline.starting_position is None
                else pipeline.starting_position,
            )
            for index, pipeline in enumerate(self.pipelines, 1)
        ]
        if self.topics or self.table or self.checkpoint:
            given.insert(
                0,
                Pipeline(
                    name=self.reader,
                    topics=self.topics,
                    table=self.table,
                    checkpoint=self.checkpoint,
                    format=self.format,
                    sink=self.sink,
                    schema=self.schema,
                    starting_position=self.starting_position,
                    transforms=self.transforms,
                    dedupe_seconds=self.dedupe_seconds,
                ),
            )
        for job in given:
            _check(job)
        return given


def start_of(position: Any) -> str | int:
    """A starting position as the source takes it: a name, or milliseconds since 1970. Raises ``ValueError``."""
    if isinstance(position, str) and position in NAMED_POSITIONS:
        return position
    if isinstance(position, int) and not isinstance(position, bool):
        if position < 0:
            raise ValueError(f"starting_position: milliseconds since 1970, not {position}")
        return position
    moment = position
    if isinstance(position, str):
        try:
            moment = datetime.datetime.fromisoformat(position)
        except ValueError:
            names = ", ".join(NAMED_POSITIONS)
            raise ValueError(f"starting_position: {names} or an ISO time, not {position!r}") from None
    if not isinstance(moment, datetime.datetime):
        raise ValueError(f"starting_position: a name, an ISO time or milliseconds, not {position!r}")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)


def _check(job: Pipeline) -> None:
    if not job.topics:
        raise ValueError("topics: required, but not set")
    for topic in job.topics:
        if not _TOPIC.fullmatch(topic):
            raise ValueError(f"topics: {topic!r} is not of the form namespace/name")
    if len(set(job.topics)) != len(job.topics):
        raise ValueError("topics: one is named twice")
    for key in ("table", "checkpoint"):
        value = getattr(job, key)
        if not value:
            raise ValueError(f"{key}: required, but not set")
        if "://" in value:
            raise ValueError(f"{key}: a folder that every task can reach, not a URL")
    assert job.format is not None
    _one_of("format", job.format, FORMATS)
    _one_of("sink", job.sink, SINKS)
    start_of(job.starting_position)
    for name in job.transforms or ():
        if not _TRANSFORM.fullmatch(name):
            raise ValueError(f"transforms: {name!r} is not of the form module:function or path.py:function")
    if job.dedupe_seconds and job.dedupe_seconds < 0:
        raise ValueError("dedupe_seconds: must not be negative")
    if job.format == "raw" and (job.schema or job.dedupe_seconds):
        raise ValueError('format: "raw" has no body to type and no producer to dedupe by')


def _one_of(key: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{key}: one of {', '.join(allowed)}, not {value!r}")
