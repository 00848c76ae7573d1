"""``PATCH …/status`` and ``GET /v1/statuses``: statuses that programs on this node report of objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from fairlead_edge.io.local_api import operations, publish_api
from fairlead_edge.io.local_api.bodies import ReportedStatus, ReportedStatuses
from fairlead_edge.io.local_api.responses import respond
from fairlead_edge.io.status_sender import StatusSender
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.presentation import api_requests
from fairlead_edge.objects.presentation.api_requests import ApiError
from fairlead_edge.objects.statuses import patch
from fairlead_edge.objects.statuses.patch import PatchRefused
from fairlead_edge.objects.statuses.status_store import StatusStore, StatusSummary
from fairlead_edge.outbox.publishing import RequestRefused
from fairlead_wire.errors import Temporary

SUBRESOURCE: Final = "status"


async def answer(
    request: web.Request, found: api_requests.Objects, kind: Kind, statuses: StatusStore, now: float
) -> HeldObject:
    """Store a reported status durably; returns the object with it.  Raises ``ApiError``."""
    try:
        body = await publish_api.read_body(request, patch.BODY_BYTES_MAX)
        # In a thread: parsing YAML of the permitted length takes seconds and would block the event loop.
        asked = await asyncio.to_thread(
            patch.read,
            request.headers.get("Content-Type", ""), body, request.query, request.headers.get("User-Agent", ""),
        )  # fmt: skip
        key = found.group, found.plural, found.namespace or "", found.name
        return await statuses.patch(key, found.version, kind, asked, now)
    except RequestRefused as error:
        raise ApiError(413 if error.code == "too_large" else 400, str(error)) from None
    except PatchRefused as error:
        details: dict[str, Any] = {"name": found.name, "kind": found.plural}
        if found.group:
            details |= {"group": found.group}
        if error.retry_after is not None:
            details |= {"retryAfterSeconds": error.retry_after}
        if error.status == HTTPStatus.UNPROCESSABLE_ENTITY:  # kubectl prints only the causes of these
            field, separator, text = str(error).partition(": ")
            cause = {"field": field, "message": text} if separator else {"field": SUBRESOURCE, "message": field}
            details |= {"causes": [{"reason": "FieldValueInvalid", **cause}]}
        raise ApiError(error.status, str(error), details={**details, **error.details}) from None
    except Temporary as error:
        seconds = max(1, round(error.retry_after_seconds or 1))
        raise ApiError(503, str(error), details={"retryAfterSeconds": seconds}) from None


def add_routes(app: web.Application, sender: StatusSender, now: Callable[[], float]) -> None:
    """Serve ``GET /v1/statuses`` on ``app``."""

    async def statuses(_: web.Request) -> web.Response:
        lines = [_shown(line, now()) for line in sender.lines]
        return respond(ReportedStatuses(statuses=lines))

    operations.register(app, {operations.STATUSES: statuses})


def _shown(line: StatusSummary, now: float) -> ReportedStatus:
    group, plural, namespace, name = line.key
    return ReportedStatus(
        group=group, plural=plural, namespace=namespace, name=name, uid=line.uid, state=line.state,
        age_seconds=round(max(0.0, now - line.at), 1), code=line.code, reason=line.reason,
    )  # fmt: skip
