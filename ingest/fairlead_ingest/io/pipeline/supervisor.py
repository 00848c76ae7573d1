"""Keeps one pipeline running: starts its query, restarts it after temporary failures, and notices when it is done.

step ─▶ start ─▶ observe … ─▶ done
          ▲         │ failed
          │         ▼ ``pipeline.failures``
          ├──── wait
          ├──── search for the message that fails the batch, one trial a step
          └──── stopped: tried again after ``STOPPED_SECONDS``
"""

from __future__ import annotations

import datetime

from fairlead_ingest import errors
from fairlead_ingest.io.pipeline.failing_messages import Search
from fairlead_ingest.io.pipeline.job import Job
from fairlead_ingest.io.spark import connect
from fairlead_ingest.pipeline.failures import Failures, Next, TooMany
from fairlead_wire.errors import Permanent, Temporary, described
from fairlead_wire.io import logs

log = logs.get("ingest.supervisor")
# When to retry a stopped pipeline while others run, as its problem may have been fixed.
STOPPED_SECONDS = 300.0
START_SECONDS = 20.0
STARTING = "starting"


class Supervisor:
    """Supervises one job; the main thread calls ``step`` a few times a second. Not thread-safe."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.is_done = False
        self.waiting = STARTING
        self.has_failed = False
        # The error that needs a person; None while the pipeline runs or waits.
        self.stopped: errors.Stop | None = None
        self._next_try = 0.0
        self._failures = Failures()
        self._search: Search | None = None
        self._reason = ""
        self._started = False
        self._started_at = 0.0

    def is_starting(self, now: float) -> bool:
        """Whether its Python processes are still starting; a query silent for ``START_SECONDS`` is taken to work."""
        is_silent = self._started and self.job.is_running and not self.job.is_answering
        return is_silent and now < self._started_at + START_SECONDS

    def stop(self, error: errors.Stop, now: float) -> None:
        """Stop the pipeline; ``step`` retries it after ``STOPPED_SECONDS``, if the program still runs."""
        self.stopped = error
        self.waiting = str(error)
        self.has_failed = True
        self._started = False
        self._search = None
        self._next_try = now + STOPPED_SECONDS
        self._failures = Failures()
        try:
            self.job.finish()
        except Exception as error:
            if connect.is_about_spark(error):
                raise
            log.warning("query_not_ended", pipeline=self.job.name, reason=described(error))

    def step(self, now: float, *, may_start: bool) -> None:
        """Check the pipeline once and act. Raises ``Stop`` if waiting does not help.

        ``may_start``: no other query is starting. Each starts several Python processes, for which Spark waits ten
        seconds. On a small machine, queries that start together would time out together, again and again.
        """
        self.has_failed = False
        if self.is_done or now < self._next_try or not (self._started or may_start):
            return
        try:
            if self._search is not None:
                self._search_on(self._search)
            elif self._started:
                self._observe(now)
            else:
                self._started_at = now
                self.job.start()
                self._started = True
                self.stopped = None
        except errors.Wait as error:
            self._failed(error.code, error.sentence, now)
        except errors.Stop as error:
            if self._failures.renewal_seconds(error.code, now) is None:
                raise
            self._failed(error.code, error.sentence, now)
        except errors.Fault as error:
            self._failed(None, str(error), now)
        except Exception as error:
            if connect.is_about_spark(error):
                raise
            # Nothing else may end the program: whatever it is, the other pipelines go on.
            self._failed(None, f"{described(error)}{errors.line_of(error)}", now)

    def _observe(self, now: float) -> None:
        is_running = self.job.is_running
        if self.job.observe():
            self._failures.progressed()
            self.waiting = ""
        if is_running:
            if self.job.is_answering:
                self._failures.answered()
                self.waiting = ""
                moment = datetime.datetime.now(datetime.UTC)
                self.job.measure_lag(moment)
                if self.job.has_more_executors(moment):
                    self.job.pause()
                    self._started = False
            return
        failure = self.job.failure()
        if failure is None:
            if not self.job.is_latest_settled():
                self.waiting = "all rows are committed; the latest table is being refreshed"
                return
            self.is_done = True
            self.waiting = ""
            return
        self._failed(*failure, now)

    def _failed(self, code: str | None, sentence: str, now: float) -> None:
        left = self._failures.renewal_seconds(code, now)
        if left is not None:
            sentence = f"{sentence}; the credentials worked before, so waiting {round(left)} s for renewed ones"
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
                log.warning("search_postponed", pipeline=self.job.name, code=error.code, reason=error.sentence)
            except errors.Stop:
                raise
            except Exception as error:
                if connect.is_about_spark(error):
                    raise
                log.warning("search_postponed", pipeline=self.job.name, reason=described(error))
            else:
                log.warning("search_started", pipeline=self.job.name, batch=self.job.batch, reason=sentence)

    def _search_on(self, search: Search) -> None:
        try:
            if not search.step():
                self.waiting = f"searching for the failing message, {search.trials} parts tried: {self._reason}"
                return
        except TooMany as error:
            raise errors.Stop(errors.QUERY_FAILED, str(error)) from error
        except (Temporary, Permanent) as error:
            # Most likely the service is away; the query asks it again and reports the outcome.
            log.warning("search_postponed", pipeline=self.job.name, reason=str(error))
        else:
            self.job.put_aside(search.found)
        self._search = None
