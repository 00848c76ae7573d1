"""The ingest program: reads settings, starts Spark, and runs one query for each pipeline until a signal or the end.

Exit status: 0 stopped by a signal or everything is committed; 1 stopped by an error that needs a person (the last log
line gives its code); 2 cannot start as configured. A pipeline that stops does not stop the others; the program ends
when none of them can run.
"""

from __future__ import annotations

import datetime
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead_ingest import errors
from fairlead_ingest.pipeline import events
from fairlead_ingest.pipeline.events import ProgressLog
from fairlead_ingest.settings import PORT_DEFAULT, IngestSettings
from fairlead_wire import distribution
from fairlead_wire.errors import LocalError
from fairlead_wire.io import logs
from fairlead_wire.io import settings as settings_file
from fairlead_wire.io.spans import CannotTrace, check_installed
from fairlead_wire.validation import listen_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fairlead_ingest.io.event_publisher import EventPublisher
    from fairlead_ingest.io.http_server import HealthServer
    from fairlead_ingest.io.pipeline.supervisor import Supervisor

log = logs.get("ingest.app")
ROOM = "ingest"
PROGRESS_SECONDS = 1.0
# Time-out of a request that publishes events; if the service does not answer in time, they are sent again later.
EVENT_SECONDS = 5.0
# How often to probe for a Spark Connect server.
AWAY_SECONDS = 5.0
# How often to log that no executor has come yet.
NO_EXECUTOR_LOG_SECONDS = 15.0
# How long to wait for an interrupted executor check to end.
STOP_SECONDS = 10.0
CHECKING_EXECUTORS = "checking executors"
_STEP_SECONDS = 0.2


def run(config: Path | None) -> int:
    """Run the job described by ``config`` and the environment; return the exit status."""
    try:
        settings = settings_file.load(ROOM, IngestSettings, config, os.environ)
    except settings_file.SettingsError as error:
        return settings_file.complain(ROOM, error)
    logs.configure(ROOM, settings.log_level)
    settings_file.warn_unknown_variables(os.environ)
    try:
        # Import Spark only here, so that a missing Spark or Java is reported in one sentence instead of a traceback.
        from fairlead_ingest.io.pipeline import preflight
        from fairlead_ingest.io.spark import session

        check_installed(settings.traces)
        if not settings.spark.remote:
            session.require_java(os.environ)
        preflight.check(settings, settings.jobs())
        preflight.check_folders(settings)
        preflight.check_topics(settings)
    except (LocalError, errors.Stop, CannotTrace) as error:
        for line in str(error).splitlines():
            print(f"fairlead ingest: {line}", file=sys.stderr)
        return settings_file.EXIT_STATUS
    except ImportError as error:
        print(f"fairlead ingest: {error}; install it with: {distribution.install('ingest')}", file=sys.stderr)
        return settings_file.EXIT_STATUS
    return _Program(settings).run()


class _Program:
    def __init__(self, settings: IngestSettings) -> None:
        from fairlead_ingest.io.http_server import JobHealth
        from fairlead_ingest.io.metrics import IngestMetrics

        self._settings = settings
        self._stop = threading.Event()
        self._health = JobHealth(waiting={job.name: "Spark starts" for job in settings.jobs()})
        self._progress = {job.name: ProgressLog() for job in settings.jobs()}
        self._ask_at: dict[str, float] = {}
        self._doing: dict[str, str] = {}
        self._metrics = IngestMetrics()

    def run(self) -> int:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        server = self._serve()
        if server is None:
            return settings_file.EXIT_STATUS
        try:
            return self._persist()
        except errors.Stop as error:
            log.error("stopped", code=error.code, reason=str(error))
            return 1
        except (Py4JError, ConnectionError) as error:
            if self._stop.is_set():
                # A signal to the process group ended the JVM before us. Its checkpoint is consistent at any moment.
                return 0
            log.error("spark_died", reason=errors.explain(str(error) or type(error).__name__)[1])
            return 1
        finally:
            server.close()

    def _persist(self) -> int:
        """Run the pipelines; when the Spark master or Connect server goes away, wait for it and start again."""
        from fairlead_ingest.io.spark import connect

        while True:
            try:
                return self._supervise()
            except Exception as error:
                away = connect.of(error)
                if away is None:
                    raise
            reason = str(away)
            if not self._stop.is_set():
                log.warning("spark_away", code=errors.SPARK_AWAY, reason=reason, retry_seconds=AWAY_SECONDS)
                self._health.waiting.update({job.name: reason for job in self._settings.jobs()})
            if self._stop.wait(AWAY_SECONDS):
                return 0

    def _supervise(self) -> int:
        from fairlead_ingest.io.spark import executors, session

        settings = self._settings
        where = settings.spark.remote or settings.spark.master
        names = [job.name for job in settings.jobs()]
        log.info("starting", master=where, pipelines=names, doing="starting Spark, which takes up to a minute")
        began = time.monotonic()
        if not settings.spark.remote:
            executors.remove_former_executors(settings.spark.master, settings.spark.conf)
        spark = session.start(**settings.spark.model_dump(), pipelines=len(names))
        log.info("spark_started", seconds=round(time.monotonic() - began), doing=CHECKING_EXECUTORS)
        try:
            return self._work(spark) if self._check_executors(spark) else 0
        finally:
            # Spark would return this session again at the next start.
            self._end(spark)

    def _work(self, spark: SparkSession) -> int:
        from fairlead_ingest.io.pipeline.job import Job
        from fairlead_ingest.io.pipeline.supervisor import Supervisor
        from fairlead_ingest.io.spark.connect import SparkAway
        from fairlead_ingest.io.spark.executors import ExecutorPresence

        settings = self._settings
        publisher = self._event_publisher()
        supervisors = [
            Supervisor(Job(spark, settings, pipeline, self._metrics, publisher)) for pipeline in settings.jobs()
        ]
        presence = ExecutorPresence(spark)
        try:
            while not self._stop.is_set():
                presence.check(datetime.datetime.now(datetime.UTC))
                for supervisor in supervisors:
                    now = time.monotonic()
                    self._step(supervisor, now, not any(other.is_starting(now) for other in supervisors), publisher)
                    self._report(supervisor)
                if publisher is not None:
                    publisher.send()
                if all(supervisor.is_done or supervisor.stopped is not None for supervisor in supervisors):
                    for supervisor in supervisors:
                        if supervisor.stopped is not None:
                            raise supervisor.stopped
                    log.info("all_committed")
                    return 0
                self._stop.wait(_STEP_SECONDS)
            log.info("draining")
            return 0
        except SparkAway:
            # A batch without executors never ends, so end the session without waiting for it.
            self._end(spark)
            raise
        finally:
            try:
                for supervisor in supervisors:
                    self._finish(supervisor)
            finally:
                if publisher is not None:
                    publisher.close()

    def _finish(self, supervisor: Supervisor) -> None:
        from fairlead_ingest.io.spark import connect

        try:
            supervisor.job.close()
        except Exception as error:
            # The query ended with Spark; everything it committed is in the table.
            if connect.of(error) is None:
                raise

    def _end(self, spark: SparkSession) -> None:
        from fairlead_ingest.io.spark import connect

        try:
            spark.stop()
        except Exception as error:
            if connect.of(error) is None:
                raise

    def _check_executors(self, spark: SparkSession) -> bool:
        """Check the executors before the first batch, waiting until there is one; False if the program should stop."""
        from fairlead_ingest.io.spark.executor_probe import ExecutorCheck, no_executor
        from fairlead_ingest.io.spark.executors import GONE_AT_START, ExecutorPresence

        check = ExecutorCheck(spark, self._settings)
        check.start()
        presence = ExecutorPresence(spark, GONE_AT_START)
        began = logged = time.monotonic()
        while not check.is_over(_STEP_SECONDS):
            if self._stop.is_set():
                # Ending the session ends the check, which then removes its files.
                self._end(spark)
                check.is_over(STOP_SECONDS)
                return False
            presence.check(datetime.datetime.now(datetime.UTC))
            if (now := time.monotonic()) >= logged + NO_EXECUTOR_LOG_SECONDS:
                logged = now
                if remedy := no_executor(spark):
                    log.warning("no_executor_yet", seconds=round(now - began), remedy=remedy)
                self._health.waiting.update({job.name: remedy or CHECKING_EXECUTORS for job in self._settings.jobs()})
        check.result()
        return True

    def _step(self, supervisor: Supervisor, now: float, may_start: bool, publisher: EventPublisher | None) -> None:
        try:
            supervisor.step(now, may_start=may_start)
        except errors.Stop as error:
            name = supervisor.job.name
            supervisor.stop(error, now)
            log.error("pipeline_stopped", pipeline=name, code=error.code, reason=str(error))
            if publisher is not None:
                publisher.publish(events.of_stop(error.code, str(error), [name], now=time.time()))

    def _event_publisher(self) -> EventPublisher | None:
        from fairlead_ingest.io.event_publisher import EventPublisher
        from fairlead_ingest.io.service_tls import tls_of
        from fairlead_messaging.client.io.sync_client import Client

        settings = self._settings
        if not settings.events.topic:
            return None
        client = Client(
            settings.messaging_url, tls=tls_of(settings), timeout_seconds=EVENT_SECONDS, connect_seconds=EVENT_SECONDS
        )
        source = f"/fairlead/ingest/{settings.reader}"
        return EventPublisher(client, self._metrics, topic=settings.events.topic, source=source)

    def _log_progress(self, supervisor: Supervisor, now: float) -> None:
        """Log the progress of a long batch; Spark is asked once a second, because each answer costs a millisecond."""
        name = supervisor.job.name
        if now < self._ask_at.get(name, now):
            return
        self._ask_at[name] = now + PROGRESS_SECONDS
        batch, is_running, self._doing[name] = supervisor.job.activity()
        seconds = self._progress[name].due(now, batch=batch, is_running=is_running)
        if seconds is not None:
            log.info("batch_running", pipeline=name, batch=batch, seconds=round(seconds), doing=self._doing[name])

    def _report(self, supervisor: Supervisor) -> None:
        from fairlead_ingest.io.pipeline.supervisor import STARTING

        self._log_progress(supervisor, time.monotonic())
        if supervisor.waiting == STARTING:
            self._health.waiting[supervisor.job.name] = f"{STARTING}: {self._doing.get(supervisor.job.name, '')}"
        elif supervisor.waiting:
            self._health.waiting[supervisor.job.name] = supervisor.waiting
        else:
            self._health.waiting.pop(supervisor.job.name, None)
        if supervisor.has_failed:
            self._metrics.failures.labels(supervisor.job.name).inc()
        self._metrics.stopped.labels(supervisor.job.name).set(supervisor.stopped is not None)

    def _serve(self) -> HealthServer | None:
        from fairlead_ingest.io.http_server import HealthServer, ReceiptsHttp
        from fairlead_ingest.io.table import tables

        settings = self._settings
        asked = settings.health_listen or settings.http_listen
        host, port = listen_address.parse(asked or f"127.0.0.1:{PORT_DEFAULT}")
        receipts = None
        if settings.receipts:
            known = [
                (job.name, tables.of_pipeline(settings, job), settings.place(job.table)) for job in settings.jobs()
            ]
            receipts = ReceiptsHttp(known)
        try:
            server = HealthServer(host, port, self._health, self._metrics.registry, receipts)
        except OSError as error:
            if asked:
                key = "health_listen" if settings.health_listen else "http_listen"
                print(f"fairlead ingest: {key}: cannot listen on {asked}: {error.strerror}", file=sys.stderr)
                return None
            # The default port is taken, perhaps by another job on this machine: use any free one and log it.
            server = HealthServer(host, 0, self._health, self._metrics.registry, receipts)
        log.info("health_listening", host=host, port=server.port)
        return server
