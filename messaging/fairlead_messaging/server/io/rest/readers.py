"""Named readers over HTTP: how far each has read, and how far it is behind."""

from __future__ import annotations

from aiohttp import web

from fairlead_messaging.api.headers import GENERATION, JSON, SERVICE
from fairlead_messaging.api.message_id import FIRST
from fairlead_messaging.api.requests import NoteReaderRequest, TableNote
from fairlead_messaging.api.responses import Reader, Table
from fairlead_messaging.server import json_bodies, readers, validation
from fairlead_messaging.server.commands import RecordReaderPosition
from fairlead_messaging.server.io.rest.http import BROKER, body, check_content_type, json_response
from fairlead_messaging.server.log import topics
from fairlead_messaging.server.store.ordered_kv import Snapshot


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
        table=None if asked.table is None else _table(asked.table),
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

    def read(snapshot: Snapshot) -> tuple[int, list[Reader]]:
        living = topics.lookup(snapshot, namespace, name)
        return living.generation, readers.every(snapshot, living, broker.now_ms())

    generation, found = await broker.read(read)
    return json_response(found, headers={SERVICE: broker.service_id, GENERATION: str(generation)})


def _table(noted: TableNote) -> Table:
    """Raises: Refused for a start that is no position."""
    start = validation.bound(noted.start, FIRST)
    return Table(
        name=noted.name,
        application=noted.application,
        start="" if start == FIRST else start.hex(),
        batch=noted.batch,
        version=noted.version,
        rowless=noted.rowless,
    )
