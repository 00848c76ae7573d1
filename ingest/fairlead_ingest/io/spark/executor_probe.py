"""Looks at a cluster before the first batch: do its tasks have what the job needs where they run?

    driver    puts a marker into each folder that should be shared
    tasks     (one for each core) look for it, open the certificates, ask messaging and the store
    driver    reads what they say (``cluster.task_report``)

Executors that come later are not looked at; what they lack is said by the first task that fails there.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from fairlead_ingest import errors, spark_cluster
from fairlead_ingest.io.service_tls import tls_of
from fairlead_ingest.io.spark import connect
from fairlead_ingest.io.spark.connect import coded
from fairlead_ingest.io.spark.session import executors, is_kubernetes, is_local, parallelism
from fairlead_ingest.io.table import object_store
from fairlead_ingest.settings import IngestSettings
from fairlead_ingest.spark_cluster import TaskFinding, TaskReport
from fairlead_ingest.table.store_path import StorePath
from fairlead_messaging.client.errors import TopicMissing
from fairlead_messaging.client.io.sync_client import BulkClient
from fairlead_wire import distribution
from fairlead_wire.errors import Permanent, Temporary
from fairlead_wire.io import logs

log = logs.get("ingest.executors")
# More looks than this are not worth the wait where executors come one after the other.
LOOKS_MAX: Final = 3
NOT_SHARED: Final = (
    "the checkpoint is a folder of this machine alone: rows are exact all the same, but messages that a transaction"
    " rolled back will be counted as expired"
)
_MARKER: Final = ".fairlead-probe-"
_LEFT_SECONDS: Final = 7 * 86_400.0
_REQUEST_SECONDS: Final = 5.0
_EXECUTOR_ID = re.compile(r"[?&]executorId=(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What each task looks at; travels to them. ``markers``: by folder, the file that lies there."""

    markers: dict[str, str]
    files: dict[str, str]
    stores: tuple[StorePath, ...]
    url: str
    topic: str
    tls: Any


def check(session: SparkSession, settings: IngestSettings) -> list[TaskReport]:
    """Look at the executors that are there, at least one; waits until one comes. Raises ``Stop``."""
    if is_local(session):
        return []
    tables = _folders(settings, "table")
    checkpoints = _folders(settings, "checkpoint")
    with contextlib.ExitStack() as stack:
        markers = {folder: stack.enter_context(_marker(Path(folder))) for folder in (*tables, *checkpoints)}
        question = _question(settings, markers)
        with coded():
            reports = _ask(session, question)
    own = distribution.version()
    shared = {folder: "the folder of the table" for folder in tables}
    shared |= {
        str(Path(job.checkpoint).absolute()): "the checkpoint, which dedupe_seconds keeps its memory in,"
        for job in settings.jobs()
        if job.dedupe_seconds
    }
    if (stop := spark_cluster.unfit(reports, own, shared)) is not None:
        raise stop
    for folder in checkpoints:
        if hosts := spark_cluster.not_shared(reports, folder):
            # Pods have no folder in common, so there it is as it must be.
            say = log.info if is_kubernetes(session) else log.warning
            say("checkpoint_not_shared", folder=folder, hosts=hosts, reason=NOT_SHARED)
    elsewhere = sorted({each.host for each in reports} - {socket.gethostname()})
    if elsewhere and any("://" in job.checkpoint for job in settings.jobs()):
        # Its copy lies in the store; what the tasks note lies beside the folder that it is a copy of.
        say = log.info if is_kubernetes(session) else log.warning
        say("checkpoint_not_shared", folder=tempfile.gettempdir(), hosts=elsewhere, reason=NOT_SHARED)
    for sentence in spark_cluster.passing(reports):
        log.warning("executor_cannot_reach", reason=sentence)
    found = sorted({f"{each.executor} on {each.host}" for each in reports})
    log.info("executors", executors=found, cores=parallelism(session))
    return reports


def no_executor(session: SparkSession) -> str:
    """What to do where the look waits for a first executor; empty where one is there and only slow."""
    if connect.is_remote(session):
        return (
            "no executor has answered: the Spark Connect server has none that is free, or a slow one; its log says more"
        )
    if executors(session):
        return ""
    if is_kubernetes(session):
        return (
            "no executor has come: kubectl describe pod -l spark-role=executor says why, most often that no node has"
            " room for what a Pod requests; where there is no such Pod, this log says what the API server answered"
        )
    return "no executor has come: the cluster has no worker with a free core and the memory of spark.executor.memory"


class Looking(threading.Thread):
    """``check`` beside the caller, who may have to stop: Spark waits for a first executor without an end."""

    def __init__(self, session: SparkSession, settings: IngestSettings) -> None:
        super().__init__(name="executor-probe", daemon=True)
        self._session = session
        self._settings = settings
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            check(self._session, self._settings)
        except (errors.Wait, errors.Fault) as error:
            # It may be over by the time the query starts; if not, the query says it again.
            log.warning("executors_not_checked", reason=str(error))
        except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
            self._error = error

    def is_over(self, seconds: float) -> bool:
        """Wait so long at most."""
        self.join(seconds)
        return not self.is_alive()

    def result(self) -> None:
        """Raises what ``check`` raised."""
        if self._error is not None:
            raise self._error


# --- beside the driver


def _ask(session: SparkSession, question: Question) -> list[TaskReport]:
    reports: list[TaskReport] = []
    for _ in range(LOOKS_MAX):
        tasks = parallelism(session)
        rows = session.range(0, tasks, 1, tasks).mapInArrow(ExecutorLook(question), "report string").collect()
        reports += [msgspec.json.decode(row["report"], type=TaskReport) for row in rows]
        if connect.is_remote(session) or len({each.executor for each in reports}) >= executors(session):
            break
    return reports


def _question(settings: IngestSettings, markers: dict[str, str]) -> Question:
    jobs = settings.jobs()
    places = [settings.place(job.table) for job in jobs]
    files = {key: getattr(settings, key) for key in ("tls_ca", "tls_cert", "tls_key")}
    buckets = {place.bucket: place for place in places if isinstance(place, StorePath)}
    return Question(
        markers=markers,
        files={key: path for key, path in files.items() if path},
        stores=tuple(buckets.values()),
        url=settings.messaging_url,
        topic=jobs[0].topics[0],
        tls=tls_of(settings),
    )


def _folders(settings: IngestSettings, key: str) -> list[str]:
    """Those of this kind that are folders, absolute."""
    named = [str(getattr(job, key)) for job in settings.jobs()]
    return [str(Path(each).absolute()) for each in named if "://" not in each]


@contextlib.contextmanager
def _marker(folder: Path) -> Iterator[str]:
    """A file in ``folder``, or in the nearest folder above it that is there: the job decides when to make one."""
    there = next(each for each in (folder, *folder.parents) if each.is_dir())
    _remove_left(there)
    home = there / f"{_MARKER}{secrets.token_hex(8)}"
    try:
        try:
            home.mkdir()
            (home / "driver").touch()
        except OSError as error:
            raise errors.Stop(errors.TABLE_UNFIT, f"{folder}: {error.strerror or error}") from error
        # What goes wrong meanwhile says nothing about this folder: a master that is gone is an ``OSError``, too.
        yield str(home / "driver")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _remove_left(folder: Path) -> None:
    """Markers of looks that were killed; a week is longer than anyone waits for an executor."""
    for left in folder.glob(f"{_MARKER}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


# --- in the tasks


class ExecutorLook:
    """A task's part, called by Spark with its rows; the class is found there by its name in this package."""

    def __init__(self, question: Question) -> None:
        self._question = question

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"report": [msgspec.json.encode(_report(self._question)).decode()]})


def _report(question: Question) -> TaskReport:
    findings = [*_files(question.files), *_found(question.stores, _store), *_found([question], _messaging)]
    return TaskReport(
        executor=_executor(),
        host=socket.gethostname(),
        version=distribution.version(),
        seen={folder: Path(marker).is_file() for folder, marker in question.markers.items()},
        findings=findings,
    )


def _executor() -> str:
    """Its number, which Spark gives to processes on Kubernetes by name and on its own workers inside an address; else
    what all of its Python processes have in common, their parent."""
    inside = _EXECUTOR_ID.search(os.environ.get("SPARK_LOG_URL_STDERR", ""))
    return os.environ.get("SPARK_EXECUTOR_ID") or (inside[1] if inside else f"of process {os.getppid()}")


def _files(files: dict[str, str]) -> list[TaskFinding]:
    findings = []
    for key, path in files.items():
        try:
            Path(path).open("rb").close()
        except OSError as error:
            findings.append(TaskFinding(errors.WORKER_UNFIT, f"{key}: {path}: {error.strerror}"))
    return findings


def _found(things: Iterable[Any], look: Callable[[Any], None]) -> list[TaskFinding]:
    findings = []
    for each in things:
        try:
            look(each)
        except (errors.Stop, errors.Wait) as error:
            findings.append(TaskFinding(error.code, str(error).partition(": ")[2]))
        except Temporary as error:
            findings.append(TaskFinding(errors.UNREACHABLE, str(error)))
        except (Permanent, OSError) as error:
            findings.append(TaskFinding(errors.WORKER_UNFIT, str(error)))
    return findings


def _store(place: StorePath) -> None:
    object_store.probe(place)


def _messaging(question: Question) -> None:
    if not all(Path(path).is_file() for path in question.files.values()):
        return  # said already
    client = BulkClient(question.url, tls=question.tls, timeout_seconds=_REQUEST_SECONDS)
    with client, contextlib.suppress(TopicMissing):
        client.offsets(question.topic, "latest")
