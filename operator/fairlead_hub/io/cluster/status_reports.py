"""Writes the status that nodes report of objects to the cluster, a few at a time.

report ─judge─▶ room, rate ─▶ apply at the version known ─┬─ 200 ─▶ ack
                                  ▲                       ├─ the object changed: look at it, and again ─┐
              ▲                                   ├─ the object changed: read it and try again ──────┐
              └───────────────────────────────────┼──────────────────────────────────────────────────┘
                                                  ├─ 403, 404, 422, conflict ─▶ nack, permanent
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fairlead_hub import status_from_edge
from fairlead_hub.cluster import api_json
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.hub import Hub
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_hub.io.cluster.kube import REQUEST_SECONDS, Kube
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.session_ref import SessionRef
from fairlead_hub.token_bucket import TokenBucket
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.io import logs
from fairlead_wire.log_limiter import LogLimiter

IN_FLIGHT = 8
"""Parallel requests."""
REPORTS_OF_NODE_MAX = 16
REPORTS_MAX = 2_000
REPORTS_BYTES_MAX = 32 * 1024 * 1024
"""Reports that wait for the API server; further ones are asked to come later."""
PER_SECOND, BURST = 10.0, 50.0
"""Limit per node."""
ATTEMPTS = 5
"""How often others may write the object in between."""
BUSY_RETRY_SECONDS = 5.0
HTTP_INTERNAL_ERROR = 500
REFUSED_LOG_SECONDS = 60.0
_log = logs.get("hub.status_reports")


class StatusReports:
    """Serves all sessions.  ``seconds_left``: for how long this hub may still write."""

    def __init__(
        self,
        hub: Hub,
        kube: Kube,
        *,
        counts: IoCounts,
        clock: Callable[[], float],
        seconds_left: Callable[[], float] = lambda: REQUEST_SECONDS,
    ) -> None:
        self._hub, self._kube, self._counts, self._clock = hub, kube, counts, clock
        self._seconds_left = seconds_left
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self._buckets: dict[str, TokenBucket] = {}
        self._writing: dict[str, dict[str, asyncio.Task[message.Nack | None]]] = {}
        """By node, across its sessions: a newer session's report waits until the older session's is answered."""
        self._count = self._bytes = 0
        self._refusals = LogLimiter(REFUSED_LOG_SECONDS)

    def accept(self, session: SessionRef, report: message.Report, content: bytes) -> None:
        """Answered once the API server has stored or refused it."""
        writing = self._writing.get(session.node, {})
        bucket = self._buckets.setdefault(session.node, TokenBucket(PER_SECOND, BURST))
        now = self._clock()
        if report.resource in writing or len(writing) >= REPORTS_OF_NODE_MAX:
            return self._answer(
                session, status_from_edge.later(report, "busy", "another is being written", BUSY_RETRY_SECONDS)
            )
        if self._count >= REPORTS_MAX or self._bytes + len(content) > REPORTS_BYTES_MAX:
            why = f"{self._count} reports wait for the API server"
            return self._answer(
                session, status_from_edge.later(report, "busy", why, BUSY_RETRY_SECONDS, all_of_them=True)
            )
        if not bucket.has_one(now):
            why = f"more than {PER_SECOND:g} reports a second"
            nack = status_from_edge.later(report, "rate", why, bucket.next_at(now) - now, all_of_them=True)
            return self._answer(session, nack)
        bucket.take(now)
        found = self._hub.sessions.judge_report(session, report, content)
        if isinstance(found, status_from_edge.ReportRefused):
            return self._answer(session, found.nack, found)
        task = asyncio.get_running_loop().create_task(self._write(session, report, found))
        self._writing.setdefault(session.node, {})[report.resource] = task
        self._count, self._bytes = self._count + 1, self._bytes + len(content)
        task.add_done_callback(lambda done: self._written(session, report, found.live, len(content), done))

    async def _write(
        self, session: SessionRef, report: message.Report, accepted: status_from_edge.ReportAccepted
    ) -> message.Nack | None:
        async with self._room:
            try:
                return await self._applied(session, report, accepted)
            except ApiUnavailable as error:
                after = error.retry_after_seconds or BUSY_RETRY_SECONDS
                if status_from_edge.is_of_another_type(error.status, str(error)):
                    return status_from_edge.never(report, "invalid", str(error))
                is_away = error.status != HTTP_INTERNAL_ERROR  # a 500 may concern this report alone
                return status_from_edge.later(report, "api_unavailable", str(error), after, all_of_them=is_away)

    def _written(
        self, session: SessionRef, report: message.Report, live: LiveObject, size: int,
        done: asyncio.Task[message.Nack | None],
    ) -> None:  # fmt: skip
        """Make room for the next one, then answer this one."""
        self._count, self._bytes = self._count - 1, self._bytes - size
        writing = self._writing[session.node]
        del writing[report.resource]
        if not writing:
            del self._writing[session.node]
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            _log.error("status_report_error", node=session.node, **logs.describe_error(error), remedy="report it")
            self._answer(session, status_from_edge.later(report, "error", "the hub failed", BUSY_RETRY_SECONDS))
        elif (nack := done.result()) is not None:
            self._answer(session, nack, status_from_edge.ReportRefused(nack, live))
        else:
            self._counts.reported["written"] += 1
            self._hub.sessions.say(session, message.Ack(parent_id=report.id))

    async def _applied(
        self, session: SessionRef, report: message.Report, accepted: status_from_edge.ReportAccepted
    ) -> message.Nack | None:
        """Returns None if the API server has stored it.  Raises ``ApiUnavailable``."""
        live, version, force = accepted.live, accepted.live.seen_version, report.force == "all"
        for _ in range(ATTEMPTS):
            if self._hub.sessions.of_node(session.node) is not session:
                break  # a newer session's report is newer
            try:
                await self._patch(
                    session.node, live.path, status_from_edge.body(live, version, accepted.status), force=force
                )
                return None
            except ApiRefused as error:
                if error.causes:
                    if force or not status_from_edge.may_force(report.force, error.causes):
                        return status_from_edge.never(report, "conflict", status_from_edge.conflict_text(error.causes))
                    force = True
                    continue
                if error.status not in (409, 422):
                    return status_from_edge.never(report, _CODES.get(error.status, "refused"), str(error))
                refused = error
            try:
                uid, there = await self._current(live.path)
            except ApiRefused as error:
                return status_from_edge.never(report, _CODES.get(error.status, "refused"), str(error))
            if uid != live.uid:
                return status_from_edge.never(report, "uid_changed", f"{live.path} was made anew: its UID is {uid}")
            if refused.status == 422:
                return status_from_edge.never(report, "invalid", str(refused))
            version = there
        return status_from_edge.later(report, "object_busy", "others change the object all the time", None)

    async def _patch(self, node: str, path: str, body: dict[str, Any], *, force: bool) -> None:
        parameters = status_from_edge.parameters(node, force=force)
        await self._kube.request(
            "PATCH", f"{path}/status", body, content_type=status_from_edge.CONTENT_TYPE, params=parameters, attempts=1,
            seconds=min(REQUEST_SECONDS, self._seconds_left()),
        )  # fmt: skip

    async def _current(self, path: str) -> tuple[str, str]:
        """The current UID and version."""
        content = await self._kube.request("GET", path, seconds=min(REQUEST_SECONDS, self._seconds_left()))
        try:
            header = api_json.header_of(api_json.quick_document(content)[0])
        except Malformed as error:
            raise ApiUnavailable(f"{path} cannot be read: {error}") from None
        return header.uid, header.version

    def _answer(
        self, session: SessionRef, nack: message.Nack, refused: status_from_edge.ReportRefused | None = None
    ) -> None:
        self._counts.reported[nack.code] += 1
        if nack.permanent and refused is not None:
            if (times := self._refusals.due((session.node, nack.code), self._clock())) is not None:
                _log.warning(
                    "status_report_refused", node=session.node, code=nack.code, reason=nack.reason, times=times,
                    remedy=_REMEDIES.get(nack.code, "the node shows it: GET /v1/statuses of its agent"),
                )  # fmt: skip
            if refused.live is not None:
                self._hub.sessions.report_refused(session.node, refused.live, nack.code, nack.reason, self._clock())
        self._hub.sessions.say(session, nack)


_CODES = {403: "forbidden", 404: "no_status", 413: "too_large", 422: "invalid"}
_REMEDIES = {
    "forbidden": "let the hub patch the status of this kind: fairlead rbac prints the role",
    "no_status": "the object is gone, or its kind has no status of its own",
    "conflict": "see who else writes this status: kubectl get --show-managed-fields",
}
