"""Named readers over HTTP: how far each has read, and how far it is behind."""

from __future__ import annotations

from aiohttp import web

from fairlead_messaging.api.headers import (
    JSON,
)
from fairlead_messaging.api.message_id import FIRST
from fairlead_messaging.api.requests import (
    NoteReaderRequest,
)
from fairlead_messaging.server import json_bodies, readers, validation
from fairlead_messaging.server.commands import RecordReaderPosition
from fairlead_messaging.server.io.rest.http import BROKER, body, check_content_type, json_response
from fairlead_messaging.server.log import topics


async def note_reader(request: web.Request) -> web.Response:
    broker = request.app[BROKER]
    check_content_type(request, JSON)
    asked = json_bodies.decode(await body(request), NoteReaderRequest)
    command = RecordReaderPosition(
        namespace=request.match_info["namespace"],
        name=request.match_info["topic"],
        reader=request.match_info["reader"],
        position=validation.bound(asked.position, FIRST),
        generation=asked.generation,
    )
    await broker.change(
        await broker.read(
            lambda found: readers.counted(found, topics.lookup(found, command.namespace, command.name), command)
        )
    )
    return web.Response()


async def list_readers(request: web.Request) -> web.Response:
    broker = request.app[BROKER]
    namespace, name = request.match_info["namespace"], request.match_info["topic"]
    found = await broker.read(
        lambda snapshot: readers.every(snapshot, topics.lookup(snapshot, namespace, name), broker.now_ms())
    )
    return json_response(found)
