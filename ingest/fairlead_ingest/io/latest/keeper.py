"""A thread that keeps a pipeline's latest table up to date. Commits of rows wake it and never wait for it.

note ─▶ wait until it is due ─▶ refresh ─▶ wait …
                                   │ Wait: retried with backoff        Stop: logged once, retried after minutes

Failures here never affect committed rows; a latest table that fell behind catches up.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Final

from deltalake.exceptions import DeltaError

from fairlead_ingest import errors
from fairlead_ingest.io.latest import latest_table
from fairlead_ingest.io.latest.refresh import Refreshed, refresh
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.table import tables
from fairlead_ingest.latest.definition import LatestDefinition, LatestSettings
from fairlead_ingest.settings import Pipeline
from fairlead_ingest.table import store_path
from fairlead_ingest.table.store_path import Place
from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs

log = logs.get("ingest.latest")
PAUSE_TIMES: Final = 4.0
"""After a refresh, pause at least this many times as long as it took, however short ``seconds`` is."""
RECHECK_SECONDS: Final = 60.0
"""How often to check the rows without a commit of ours: others may have deleted or restored some."""
RETRY_SECONDS: Final = (1.0, 60.0)
STOPPED_SECONDS: Final = 300.0
CLOSE_SECONDS: Final = 20.0
PROGRESS_SECONDS: Final = 10.0
VACUUM_COMMITS: Final = 360
"""Vacuum after this many commits: once an hour at a refresh every ten seconds."""
VACUUM_SECONDS: Final = 3600.0
"""Vacuum after this time if commits are rarer; each of them may have rewritten the whole table."""


class _Cancelled(Exception):
    """The job ends during a refresh, which is repeated at the next start."""


def keeper_of(pipeline: Pipeline, rows: Place, metrics: IngestMetrics) -> LatestKeeper | None:
    """The keeper of a pipeline, None if it has no latest table."""
    settings = pipeline.latest
    definition = None if settings is None else settings.definition
    if settings is None or definition is None:
        return None
    return LatestKeeper(pipeline.name, rows, tables.beside(rows, store_path.LATEST), definition, settings, metrics)


class LatestKeeper:
    """Keeps one pipeline's latest table. ``start``, ``note``, ``is_settled`` and ``close`` run on the main thread."""

    def __init__(
        self,
        pipeline: str,
        rows: Place,
        table: Place,
        definition: LatestDefinition,
        settings: LatestSettings,
        metrics: IngestMetrics,
    ) -> None:
        self._pipeline = pipeline
        self._rows = rows
        self._table = table
        self.definition = definition
        self._settings = settings
        self._metrics = metrics
        self._changed = threading.Condition()
        self.thread: threading.Thread | None = None
        # One event per thread: a thread that ``close`` left in a long read must not continue after the next start.
        self._over = threading.Event()
        # Number of refreshes requested, and the last one that is done.
        self._wanted = 0
        self._done = 0
        self._next_at = 0.0
        self._retry = RETRY_SECONDS[0]
        self._stopped: errors.Stop | None = None
        self._said_at = 0.0
        self._vacuum_at = time.monotonic() + VACUUM_SECONDS

    def start(self) -> None:
        """Start or resume; a table that is behind is refreshed at once."""
        with self._changed:
            self._wanted += 1
            self._next_at = 0.0
            self._changed.notify_all()
        if self.thread is None:
            self._over = threading.Event()
            self.thread = threading.Thread(
                target=self._run, args=(self._over,), name=f"latest-{self._pipeline}", daemon=True
            )
            self.thread.start()

    def note(self) -> None:
        """Request a refresh: the rows have a new commit."""
        with self._changed:
            self._wanted += 1
            self._changed.notify_all()

    def is_settled(self) -> bool:
        """Whether the rows of every noted commit are in the table; a pending refresh is done now. Raises ``Stop`` if
        waiting does not help."""
        with self._changed:
            if self._stopped is not None:
                raise self._stopped
            if self._done < self._wanted and self._retry == RETRY_SECONDS[0]:
                self._next_at = 0.0
                self._changed.notify_all()
            return self._done >= self._wanted

    def close(self) -> None:
        """Finish the pending refresh if that takes less than ``CLOSE_SECONDS``, then end. It can be started again."""
        thread, self.thread = self.thread, None
        if thread is None:
            return
        deadline = time.monotonic() + CLOSE_SECONDS
        with self._changed:
            self._next_at = 0.0
            self._changed.notify_all()
            # Do not wait for retries: they may last longer than the job, and the next start catches up.
            while not self._is_at_rest() and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            self._over.set()
            self._changed.notify_all()
        thread.join(CLOSE_SECONDS)

    # --- inside

    def _is_at_rest(self) -> bool:
        return self._done >= self._wanted or self._stopped is not None or self._retry > RETRY_SECONDS[0]

    def _run(self, over: threading.Event) -> None:
        while self._is_due(over):
            with self._changed:
                wanted = self._wanted
            begun = self._said_at = time.monotonic()
            try:
                found = refresh(self._rows, self._table, self.definition, on_rows=partial(self._on_rows, over))
            except _Cancelled:
                return
            except errors.Stop as error:
                self._stop(error)
            except (FairleadError, OSError, DeltaError) as error:
                self._put_off(error)
            except Exception as error:
                # A thread that ended silently would leave a table that only seems up to date.
                log.exception("latest_failed", pipeline=self._pipeline)
                self._put_off(error)
            else:
                self._refreshed(found, wanted, begun)

    def _is_due(self, over: threading.Event) -> bool:
        """Wait for the next refresh; False if the job ends instead."""
        recheck_at = time.monotonic() + RECHECK_SECONDS
        with self._changed:
            while not over.is_set():
                now = time.monotonic()
                due = max(self._next_at, now if self._done < self._wanted else recheck_at)
                if due <= now:
                    return True
                self._changed.wait(due - now)
        return False

    def _refreshed(self, found: Refreshed | None, wanted: int, begun: float) -> None:
        if found is not None:
            self._report(found)
        seconds = time.monotonic() - begun
        with self._changed:
            self._done = wanted
            self._next_at = begun + max(self._settings.seconds, seconds * (1 + PAUSE_TIMES))
            self._retry = RETRY_SECONDS[0]
            self._stopped = None
            self._changed.notify_all()
        if found is None or not found.changed:
            return
        if found.mark.sequence % VACUUM_COMMITS == 0 or time.monotonic() >= self._vacuum_at:
            self._vacuum()
            self._vacuum_at = time.monotonic() + VACUUM_SECONDS

    def _report(self, found: Refreshed) -> None:
        metrics = self._metrics
        metrics.latest_keys.labels(self._pipeline).set(found.mark.keys - found.mark.deleted)
        metrics.latest_refreshed.labels(self._pipeline).set(time.time())
        metrics.latest_seconds.labels(self._pipeline).set(found.seconds)
        metrics.latest_stopped.labels(self._pipeline).set(0)
        if found.rows_read or found.reason:
            log.info(
                "latest_refreshed",
                pipeline=self._pipeline,
                version=found.mark.version,
                keys=found.mark.keys,
                changed=found.changed,
                rows=found.rows_read,
                seconds=round(found.seconds, 3),
                **({"built_because": found.reason} if found.reason else {}),
            )

    def _vacuum(self) -> None:
        try:
            files = latest_table.vacuum(self._table, self._settings.keep_hours)
            log.info("latest_vacuumed", pipeline=self._pipeline, files=files)
        except (FairleadError, OSError, DeltaError) as error:
            log.warning("latest_not_vacuumed", pipeline=self._pipeline, reason=errors.explain(str(error))[1])

    def _stop(self, error: errors.Stop) -> None:
        if self._stopped is None or str(self._stopped) != str(error):
            log.error("latest_stopped", pipeline=self._pipeline, code=error.code, reason=str(error))
        self._metrics.latest_stopped.labels(self._pipeline).set(1)
        with self._changed:
            self._stopped = error
            self._next_at = time.monotonic() + STOPPED_SECONDS
            self._changed.notify_all()

    def _put_off(self, error: Exception) -> None:
        code, reason = errors.explain(str(error) or type(error).__name__)
        log.warning("latest_postponed", pipeline=self._pipeline, code=code, reason=reason, retry_seconds=self._retry)
        self._metrics.latest_failures.labels(self._pipeline).inc()
        with self._changed:
            # Also after a periodic check, which no commit requested.
            self._wanted = max(self._wanted, self._done + 1)
            self._next_at = time.monotonic() + self._retry
            self._retry = min(self._retry * 2, RETRY_SECONDS[1])
            self._changed.notify_all()

    def _on_rows(self, over: threading.Event, rows: int) -> None:
        """Cancel or log between portions of a long refresh."""
        if over.is_set():
            raise _Cancelled
        now = time.monotonic()
        if rows and now >= self._said_at + PROGRESS_SECONDS:
            self._said_at = now
            log.info("latest_refreshing", pipeline=self._pipeline, rows=rows)
