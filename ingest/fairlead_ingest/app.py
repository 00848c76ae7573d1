"""The ingest program: settings, Spark, one query for each pipeline, until told to stop or all is in.

Exit status: 0 stopped or done; 1 stopped because someone has to look (the last log line says why, by code);
2 cannot start as configured. One pipeline that stops does not stop the others; the program ends when none can run.
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
from fairlead_ingest.pipeline.failures import Failures, Next
from fairlead_ingest.pipeline.halving import TooMany
from fairlead_ingest.pipeline.progress_log import Pulse
from fairlead_ingest.settings import PORT_DEFAULT, Settings
from fairlead_wire import listen_address
from fairlead_wire.errors import LocalError, Permanent, Temporary
from fairlead_wire.io import logs
from fairlead_wire.io import settings as settings_file

if TYPE_CHECKING:
    from fairlead_ingest.io.event_publisher import EventPublisher
    from fairlead_ingest.io.http.health import HealthServer
    from fairlead_ingest.io.pipeline.failing_messages import Search
    from fairlead_ingest.io.pipeline.job import Job

log = logs.get("ingest.app")
ROOM = "ingest"
# A pipeline that stopped is looked at again this much later, while others run: somebody may have repaired it.
STOPPED_SECONDS = 300.0
START_SECONDS = 20.0
STARTING = "starting"
WORK_SECONDS = 1.0
# An event is a courtesy: a service that does not answer at once is asked again later.
EVENT_SECONDS = 5.0
_LOOK_SECONDS = 0.2


def run(config: Path | None) -> int:
    """Run the job described by ``config`` and the environment; the exit status."""
    try:
        settings = settings_file.load(ROOM, Settings, config, os.environ)
    except settings_file.SettingsError as error:
        return settings_file.complain(ROOM, error)
    logs.configure(ROOM, settings.log_level)
    settings_file.tell_strange(os.environ)
    try:
        # Spark is imported only now: its absence, or Java's, is a sentence and not a trace.
        from fairlead_ingest.io.pipeline import preflight, session

        session.require_java(os.environ)
        preflight.check(settings, settings.jobs())
    except (LocalError, errors.Stop) as error:
        print(f"fairlead ingest: {error}", file=sys.stderr)
        return settings_file.EXIT_STATUS
    except ImportError as error:
        print(f"fairlead ingest: {error}; install it with: pip install 'fairlead[ingest]'", file=sys.stderr)
        return settings_file.EXIT_STATUS
    return _Program(settings).run()


class _Program:
    def __init__(self, settings: Settings) -> None:
        from fairlead_ingest.io.http.health import Health
        from fairlead_ingest.io.metrics import Metrics

        self._settings = settings
        self._stop = threading.Event()
        self._health = Health(waiting={job.name: "Spark starts" for job in settings.jobs()})
        self._pulses = {job.name: Pulse() for job in settings.jobs()}
        self._look_at: dict[str, float] = {}
        self._doing: dict[str, str] = {}
        self._metrics = Metrics()

    def run(self) -> int:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        server = self._serve()
        if server is None:
            return settings_file.EXIT_STATUS
        try:
            return self._drive()
        except errors.Stop as error:
            log.error("stopped", code=error.code, reason=str(error))
            return 1
        except (Py4JError, ConnectionError) as error:
            if self._stop.is_set():
                # A signal to the whole process group took the JVM first; its checkpoint is whole at any moment.
                return 0
            log.error("spark_died", reason=errors.explain(str(error) or type(error).__name__)[1])
            return 1
        finally:
            server.close()

    def _drive(self) -> int:
        from fairlead_ingest.io.pipeline import session
        from fairlead_ingest.io.pipeline.job import Job

        settings = self._settings
        log.info("starting", master=settings.spark.master, pipelines=[job.name for job in settings.jobs()])
        spark = session.start(
            master=settings.spark.master, driver_memory=settings.spark.driver_memory, conf=settings.spark.conf
        )
        publisher = self._event_publisher()
        drivers = [Driver(Job(spark, settings, pipeline, self._metrics, publisher)) for pipeline in settings.jobs()]
        try:
            while not self._stop.is_set():
                for driver in drivers:
                    now = time.monotonic()
                    self._step(driver, now, not any(other.is_starting(now) for other in drivers), publisher)
                    self._tell(driver)
                if publisher is not None:
                    publisher.send()
                if all(driver.is_done or driver.stopped is not None for driver in drivers):
                    for driver in drivers:
                        if driver.stopped is not None:
                            raise driver.stopped
                    log.info("all_committed")
                    return 0
                self._stop.wait(_LOOK_SECONDS)
            log.info("draining")
            return 0
        finally:
            try:
                for driver in drivers:
                    driver.job.finish()
            finally:
                if publisher is not None:
                    publisher.close()
            spark.stop()

    def _step(self, driver: Driver, now: float, may_start: bool, publisher: EventPublisher | None) -> None:
        try:
            driver.step(now, may_start=may_start)
        except errors.Stop as error:
            name = driver.job.name
            driver.stop(error, now)
            log.error("pipeline_stopped", pipeline=name, code=error.code, reason=str(error))
            if publisher is not None:
                publisher.publish(events.of_stop(error.code, str(error), [name], now=time.time()))

    def _event_publisher(self) -> EventPublisher | None:
        from fairlead_ingest.io.event_publisher import EventPublisher
        from fairlead_ingest.io.pipeline.job import tls_of
        from fairlead_messaging.client.io.sync_client import Client

        settings = self._settings
        if not settings.events.topic:
            return None
        client = Client(
            settings.messaging_url, tls=tls_of(settings), timeout_seconds=EVENT_SECONDS, connect_seconds=EVENT_SECONDS
        )
        source = f"/fairlead/ingest/{settings.reader}"
        return EventPublisher(client, self._metrics, topic=settings.events.topic, source=source)

    def _look(self, driver: Driver, now: float) -> None:
        """Say what a long batch is at; Spark is asked once a second, each answer costs it a millisecond."""
        name = driver.job.name
        if now < self._look_at.get(name, now):
            return
        self._look_at[name] = now + WORK_SECONDS
        batch, at_work, self._doing[name] = driver.job.at_work()
        seconds = self._pulses[name].look(now, batch=batch, at_work=at_work)
        if seconds is not None:
            log.info("batch_at_work", pipeline=name, batch=batch, seconds=round(seconds), doing=self._doing[name])

    def _tell(self, driver: Driver) -> None:
        self._look(driver, time.monotonic())
        if driver.waiting == STARTING:
            self._health.waiting[driver.job.name] = f"{STARTING}: {self._doing.get(driver.job.name, '')}"
        elif driver.waiting:
            self._health.waiting[driver.job.name] = driver.waiting
        else:
            self._health.waiting.pop(driver.job.name, None)
        if driver.has_failed:
            self._metrics.failures.labels(driver.job.name).inc()
        self._metrics.stopped.labels(driver.job.name).set(driver.stopped is not None)

    def _serve(self) -> HealthServer | None:
        from fairlead_ingest.io.http.health import HealthServer
        from fairlead_ingest.io.http.receipts import ReceiptDesk
        from fairlead_ingest.io.table import tables

        settings = self._settings
        asked = settings.health_listen or settings.http_listen
        host, port = listen_address.parse(asked or f"127.0.0.1:{PORT_DEFAULT}")
        desk = None
        if settings.receipts:
            known = [(job.name, tables.of(job.sink or settings.sink), Path(job.table)) for job in settings.jobs()]
            desk = ReceiptDesk(known)
        try:
            server = HealthServer(host, port, self._health, self._metrics.registry, desk)
        except OSError as error:
            if asked:
                key = "health_listen" if settings.health_listen else "http_listen"
                print(f"fairlead ingest: {key}: cannot listen on {asked}: {error.strerror}", file=sys.stderr)
                return None
            # Nobody asked for this port: a second job on the machine takes any free one and says which.
            server = HealthServer(host, 0, self._health, self._metrics.registry, desk)
        log.info("health_listening", host=host, port=server.port)
        return server


class Driver:
    """Keeps one job going: starts it, starts it again after what may heal, and says when it is done."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.is_done = False
        self.waiting = STARTING
        self.has_failed = False
        # Why someone has to look; None while it runs or waits.
        self.stopped: errors.Stop | None = None
        self._next_try = 0.0
        self._failures = Failures()
        self._search: Search | None = None
        self._reason = ""
        self._started = False
        self._started_at = 0.0

    def is_starting(self, now: float) -> bool:
        """Its Python processes come up; a query that says nothing for ``START_SECONDS`` has them, and is at work."""
        is_silent = self._started and self.job.is_running and not self.job.is_answering
        return is_silent and now < self._started_at + START_SECONDS

    def stop(self, error: errors.Stop, now: float) -> None:
        """Take it out of work; ``step`` tries it again after ``STOPPED_SECONDS``, if there still is one then."""
        self.stopped = error
        self.waiting = str(error)
        self.has_failed = True
        self._started = False
        self._search = None
        self._next_try = now + STOPPED_SECONDS
        self._failures = Failures()
        self.job.finish()

    def step(self, now: float, *, may_start: bool) -> None:
        """Look once. Raises ``Stop`` where waiting heals nothing.

        ``may_start``: no other query is starting. Each needs several Python processes, for which Spark waits ten
        seconds; on a small machine all at once never come up, fail together and try again together.
        """
        self.has_failed = False
        if self.is_done or now < self._next_try or not (self._started or may_start):
            return
        try:
            if self._search is not None:
                self._look_for_poison(self._search)
            elif self._started:
                self._watch(now)
            else:
                self._started_at = now
                self.job.start()
                self._started = True
                self.stopped = None
        except errors.Wait as error:
            self._failed(error.code, error.sentence, now)
        except errors.Fault as error:
            self._failed(None, str(error), now)

    def _watch(self, now: float) -> None:
        is_running = self.job.is_running
        if self.job.observe():
            self._failures.progressed()
            self.waiting = ""
        if is_running:
            if self.job.is_answering:
                self.waiting = ""
                self.job.look_behind(datetime.datetime.now(datetime.UTC))
            return
        failure = self.job.failure()
        if failure is None:
            self.is_done = True
            self.waiting = ""
            return
        self._failed(*failure, now)

    def _failed(self, code: str | None, sentence: str, now: float) -> None:
        todo = self._failures.note(code, sentence, self.job.batch, now)
        if todo is Next.STOP:
            raise errors.Stop(code or errors.QUERY_FAILED, sentence)
        delay = self._failures.retry_seconds
        event = "messaging_unreachable" if code == errors.UNREACHABLE else "query_failed"
        log.warning(event, pipeline=self.job.name, code=code, reason=sentence, retry_seconds=delay)
        self.waiting = sentence
        self.has_failed = True
        self._started = False
        self._search = None
        self._next_try = now + delay
        if todo is Next.HALVE and self.job.batch >= 0:
            self._reason = sentence
            try:
                self._search = self.job.search()
            except errors.Wait as error:
                log.warning("search_put_off", pipeline=self.job.name, code=error.code, reason=error.sentence)
            else:
                log.warning("batch_halved", pipeline=self.job.name, batch=self.job.batch, reason=sentence)

    def _look_for_poison(self, search: Search) -> None:
        try:
            if not search.step():
                self.waiting = f"looking for the message that fails, {search.trials} parts tried: {self._reason}"
                return
        except TooMany as error:
            raise errors.Stop(errors.QUERY_FAILED, str(error)) from error
        except (Temporary, Permanent) as error:
            # The service, most likely; the query asks it again and says what it finds.
            log.warning("search_put_off", pipeline=self.job.name, reason=str(error))
        else:
            self.job.put_aside(search.found)
        self._search = None
