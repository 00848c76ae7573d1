"""Checks before the first batch that the executors of a cluster have what the job's tasks need.

    driver    puts a marker into each folder that should be shared
    tasks     (one for each core) look for the markers, open the certificates, contact messaging and the store
    driver    evaluates their reports (``spark_cluster``)

Executors that come later are not checked; their problems appear in the first task that fails there.
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
# How often to repeat the check while executors come one after the other.
CHECKS_MAX: Final = 3
NOT_SHARED: Final = (
    "executors cannot reach the checkpoint's folder: rows are still exactly once, but rolled-back messages will be"
    " counted as expired"
)
_MARKER: Final = ".fairlead-probe-"
_LEFT_SECONDS: Final = 7 * 86_400.0
_REQUEST_SECONDS: Final = 5.0
_EXECUTOR_ID = re.compile(r"[?&]executorId=(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """What each task checks; pickled for the tasks. ``markers`` has the marker file of each folder."""

    markers: dict[str, str]
    files: dict[str, str]
    stores: tuple[StorePath, ...]
    url: str
    topic: str
    tls: Any


def check(session: SparkSession, settings: IngestSettings) -> list[TaskReport]:
    """Check the current executors, after waiting for the first one. Raises ``Stop``."""
    if is_local(session):
        return []
    tables = _folders(settings, "table")
    checkpoints = _folders(settings, "checkpoint")
    with contextlib.ExitStack() as stack:
        markers = {folder: stack.enter_context(_marker(Path(folder))) for folder in (*tables, *checkpoints)}
        request = _check_request(settings, markers)
        with coded():
            reports = _ask(session, request)
    own = distribution.version()
    shared = {folder: "the folder of the table" for folder in tables}
    shared |= {
        str(Path(job.checkpoint).absolute()): "the checkpoint, where dedupe_seconds keeps its state,"
        for job in settings.jobs()
        if job.dedupe_seconds
    }
    if (stop := spark_cluster.unfit(reports, own, shared)) is not None:
        raise stop
    for folder in checkpoints:
        if hosts := spark_cluster.not_shared(reports, folder):
            # Pods share no folder, so this is expected there.
            say = log.info if is_kubernetes(session) else log.warning
            say("checkpoint_not_shared", folder=folder, hosts=hosts, reason=NOT_SHARED)
    elsewhere = sorted({each.host for each in reports} - {socket.gethostname()})
    if elsewhere and any("://" in job.checkpoint for job in settings.jobs()):
        # The checkpoint is copied to a store, but the tasks' notes are only in the temporary folder.
        say = log.info if is_kubernetes(session) else log.warning
        say("checkpoint_not_shared", folder=tempfile.gettempdir(), hosts=elsewhere, reason=NOT_SHARED)
    for sentence in spark_cluster.passing(reports):
        log.warning("executor_cannot_reach", reason=sentence)
    found = sorted({f"{each.executor} on {each.host}" for each in reports})
    log.info("executors", executors=found, cores=parallelism(session))
    return reports


def no_executor(session: SparkSession) -> str:
    """Why there is no executor yet and what to do; empty if there is one that has not answered yet."""
    if connect.is_remote(session):
        return "no executor has answered: the Spark Connect server has no free one, or a slow one; see its log"
    if executors(session):
        return ""
    if is_kubernetes(session):
        return (
            "no executor has started: kubectl describe pod -l spark-role=executor says why; most often no node has room"
            " for the Pod's requests. If there is no such Pod, this log has the API server's answer"
        )
    return "no executor has started: no worker of the cluster has a free core and spark.executor.memory available"


class ExecutorCheck(threading.Thread):
    """Runs ``check`` in a thread, because Spark waits for the first executor without limit."""

    def __init__(self, session: SparkSession, settings: IngestSettings) -> None:
        super().__init__(name="executor-probe", daemon=True)
        self._session = session
        self._settings = settings
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            check(self._session, self._settings)
        except (errors.Wait, errors.Fault) as error:
            # The problem may be gone when the query starts; if not, the query reports it.
            log.warning("executors_not_checked", reason=str(error))
        except Exception as error:  # noqa: BLE001 - ``result`` raises it again
            self._error = error

    def is_over(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the check to end; whether it has ended."""
        self.join(seconds)
        return not self.is_alive()

    def result(self) -> None:
        """Raise the error of ``check``, if any."""
        if self._error is not None:
            raise self._error


# --- beside the driver


def _ask(session: SparkSession, request: CheckRequest) -> list[TaskReport]:
    reports: list[TaskReport] = []
    for _ in range(CHECKS_MAX):
        tasks = parallelism(session)
        rows = session.range(0, tasks, 1, tasks).mapInArrow(ExecutorReporter(request), "report string").collect()
        reports += [msgspec.json.decode(row["report"], type=TaskReport) for row in rows]
        if connect.is_remote(session) or len({each.executor for each in reports}) >= executors(session):
            break
    return reports


def _check_request(settings: IngestSettings, markers: dict[str, str]) -> CheckRequest:
    jobs = settings.jobs()
    places = [settings.place(job.table) for job in jobs]
    files = {key: getattr(settings, key) for key in ("tls_ca", "tls_cert", "tls_key")}
    buckets = {place.bucket: place for place in places if isinstance(place, StorePath)}
    return CheckRequest(
        markers=markers,
        files={key: path for key, path in files.items() if path},
        stores=tuple(buckets.values()),
        url=settings.messaging_url,
        topic=jobs[0].topics[0],
        tls=tls_of(settings),
    )


def _folders(settings: IngestSettings, key: str) -> list[str]:
    """The absolute paths of this kind that are folders."""
    named = [str(getattr(job, key)) for job in settings.jobs()]
    return [str(Path(each).absolute()) for each in named if "://" not in each]


@contextlib.contextmanager
def _marker(folder: Path) -> Iterator[str]:
    """Create a marker in ``folder``, or in its nearest existing parent, as only the job creates ``folder``."""
    there = next(each for each in (folder, *folder.parents) if each.is_dir())
    _remove_left(there)
    home = there / f"{_MARKER}{secrets.token_hex(8)}"
    try:
        try:
            home.mkdir()
            (home / "driver").touch()
        except OSError as error:
            raise errors.Stop(errors.TABLE_UNFIT, f"{folder}: {error.strerror or error}") from error
        # Outside the ``try``: a lost master also raises ``OSError``, which is not about this folder.
        yield str(home / "driver")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _remove_left(folder: Path) -> None:
    """Delete markers of killed checks; no check waits a week for an executor."""
    for left in folder.glob(f"{_MARKER}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


# --- in the tasks


class ExecutorReporter:
    """The task's part of the check, called by Spark with its rows; pickled by reference to this module."""

    def __init__(self, request: CheckRequest) -> None:
        self._check_request = request

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"report": [msgspec.json.encode(_report(self._check_request)).decode()]})


def _report(request: CheckRequest) -> TaskReport:
    findings = [*_files(request.files), *_found(request.stores, _store), *_found([request], _messaging)]
    return TaskReport(
        executor=_executor(),
        host=socket.gethostname(),
        version=distribution.version(),
        seen={folder: Path(marker).is_file() for folder, marker in request.markers.items()},
        findings=findings,
    )


def _executor() -> str:
    """The executor's number: Spark sets it in a variable on Kubernetes, and inside a URL on its own workers. Otherwise
    the parent process, which all Python processes of an executor share."""
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


def _messaging(request: CheckRequest) -> None:
    if not all(Path(path).is_file() for path in request.files.values()):
        return  # already reported by ``_files``
    client = BulkClient(request.url, tls=request.tls, timeout_seconds=_REQUEST_SECONDS)
    with client, contextlib.suppress(TopicMissing):
        client.offsets(request.topic, "latest")
