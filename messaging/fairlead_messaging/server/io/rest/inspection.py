"""Looking into a topic over HTTP, consuming nothing."""

from __future__ import annotations

from aiohttp import web

from fairlead_messaging.api import responses
from fairlead_messaging.api.message_id import FIRST
from fairlead_messaging.api.requests import (
    INSPECT_LIMIT_DEFAULT,
    INSPECT_LIMIT_MAX,
)
from fairlead_messaging.server import inspection, validation
from fairlead_messaging.server.io.rest.http import BROKER, json_response
from fairlead_messaging.server.log import topics
from fairlead_messaging.server.store.ordered_kv import Snapshot


async def inspect(request: web.Request) -> web.Response:
    """``after`` (hex), ``limit``: rows with their state, without consuming anything."""
    broker = request.app[BROKER]
    namespace, name = request.match_info["namespace"], request.match_info["topic"]
    after = validation.bound(request.query.get("after"), FIRST)
    asked = request.query.get("limit", str(INSPECT_LIMIT_DEFAULT))
    limit = validation.limit(validation.whole(asked, "limit"), INSPECT_LIMIT_MAX)

    def look(snapshot: Snapshot) -> list[responses.Inspected]:
        topic = topics.lookup(snapshot, namespace, name)
        bytes_max = broker.settings.poll_bytes_max
        return inspection.inspect(
            snapshot, topic, after=after, limit=limit, bytes_max=bytes_max, now_ms=broker.now_ms()
        )

    return json_response(await broker.read(look))
