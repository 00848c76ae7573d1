"""The Kubernetes-style API: lists, single objects, discovery; served from the store, online or offline.

Writes are refused, because objects change only in the cluster; except ``PATCH …/status`` where a SyncRule allows it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from fairlead_edge.io.local_api import connections, operations, status_api
from fairlead_edge.io.local_api.connections import CHUNK_BYTES
from fairlead_edge.io.local_api.responses import respond
from fairlead_edge.io.local_api.watches import Watches, event
from fairlead_edge.objects import kinds
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.metastore import FIRST, HeldObject, Metastore
from fairlead_edge.objects.presentation import api_requests, discovery, listing, table
from fairlead_edge.objects.presentation.api_requests import ApiError
from fairlead_edge.objects.statuses import status_store
from fairlead_edge.objects.statuses.status_store import StatusStore
from fairlead_edge.objects.watch_history import HistoryExpired

HTTP_TOO_MANY: Final = 429
READERS_MAX: Final = 4
"""How many objects, or chunks of lists and watches, are read and encoded at once.  Slow readers hold no such slot."""
READ_METHODS: Final = ("GET", "HEAD")
_JSON: Final = "application/json"
_encode = msgspec.json.encode

AgeOf = Callable[[HeldObject], float]


class ObjectsApi:
    """Handlers below ``/api`` and ``/apis``.

    ``age_of``: the age of a copy in seconds, at most; ``secrets_allowed``: whether a request may read Secrets;
    ``statuses``: the store of reported statuses; ``now``: the current time of its clock.
    """

    def __init__(
        self,
        store: Metastore,
        *,
        agent: str,
        age_of: AgeOf,
        secrets_allowed: Callable[[web.Request], bool],
        statuses: StatusStore | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._statuses, self._now = statuses, now
        self._store = store
        self._reading = asyncio.Semaphore(READERS_MAX)
        self._agent = agent
        self._age_of = age_of
        self._secrets_allowed = secrets_allowed
        self._described: dict[str, discovery.Described] = {}
        self._described_of: tuple[list[Kind], set[Kind]] | None = None
        self.watches = Watches(store.log)

    def add_routes(self, app: web.Application) -> None:
        """Serve below ``/api``, ``/apis``, ``/version`` and ``/openapi``."""
        for root in operations.OBJECT_TREES:
            app.router.add_route("*", root, self._handle)
            app.router.add_route("*", root + "/{rest:.*}", self._handle)
        operations.register(
            app,
            {
                operations.SERVER_VERSION: self._version,
                operations.OPENAPI_V3: self._openapi,
                **dict.fromkeys(operations.OPENAPI_V3_DOCUMENTS, self._openapi),
                operations.OPENAPI_V2: self._openapi_v2,
            },
        )
        app.on_shutdown.append(self._end_watches)

    async def _end_watches(self, _: web.Application) -> None:
        self.watches.end()

    async def _version(self, _: web.Request) -> web.Response:
        return respond(discovery.server_version(self._agent))

    async def _openapi(self, request: web.Request) -> web.Response:
        served = kinds.served(await self._store.kinds())
        reportable = self._reportable(served)
        if (served, reportable) != self._described_of:
            self._described, self._described_of = discovery.describe(served, reportable), (served, reportable)
        found = self._described.get(request.path.removeprefix(discovery.PATH).strip("/"))
        if found is None:
            raise ApiError(404, "the server could not find the requested resource")
        # A URL with the hash names exactly this document, so clients may cache it and fetch only the index.
        is_immutable = request.query.get("hash") == found.hash
        headers = {
            "ETag": f'"{found.hash}"',
            "Cache-Control": "private, immutable, max-age=31536000" if is_immutable else "private, no-cache",
        }
        if any(each.value == found.hash for each in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=found.body, content_type=_JSON, headers=headers)

    async def _openapi_v2(self, _: web.Request) -> web.Response:
        raise ApiError(404, f"the edge serves OpenAPI v3 ({discovery.PATH}), not v2: use kubectl 1.27 or newer")

    def _reportable(self, served: list[Kind]) -> set[Kind]:
        """Kinds whose status may be patched here."""
        known = self._statuses.known if self._statuses is not None else status_store.KnownStatusRules()
        return {each for each in served if status_store.any_of(known, each.group, each.kind)}

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        found = api_requests.parse(request.path)
        if found is None:
            raise ApiError(404, "the server could not find the requested resource")
        patches = self._is_status(found) and request.method == "PATCH"
        if request.method not in READ_METHODS and not patches:
            raise ApiError(405, f"{request.method} is not served at the edge: change the object in the cluster")
        served = kinds.served(await self._store.kinds())
        if isinstance(found, api_requests.DiscoveryRequest):
            return respond(self._document(found, served))
        kind = _kind_of(found, served)
        if (kind.group, kind.plural) == ("", "secrets") and not self._secrets_allowed(request):
            raise ApiError(401, "Secrets need the token from the agent's data folder: Authorization: Bearer …")
        if patches and self._statuses is not None:
            held = await status_api.answer(request, found, kind, self._statuses, self._now())
            return respond(listing.present(held, age_seconds=self._age_of(held)))
        if found.subresource and not self._is_status(found):
            raise ApiError(404, f"the edge serves whole objects, not {found.plural}/{found.subresource}")
        if found.name and not _wants_watch(request):
            return await self._get(request, found, kind)
        scope = listing.ListScope(
            group=kind.group,
            version=kind.version,
            plural=kind.plural,
            namespace=found.namespace,
            selection=listing.read_selection(request.query, kind.group, kind.plural, name=found.name),
        )
        if _wants_watch(request):
            return await self._watch(request, scope, kind)
        return await self._list(request, scope, kind)

    def _is_status(self, found: api_requests.DiscoveryRequest | api_requests.Objects) -> bool:
        if self._statuses is None or not isinstance(found, api_requests.Objects):
            return False
        return bool(found.name) and found.subresource == status_api.SUBRESOURCE

    def _document(self, found: api_requests.DiscoveryRequest, served: list[Kind]) -> dict[str, Any]:
        reportable = self._reportable(served)
        document: dict[str, Any] | None
        if found.version:
            document = discovery.api_resources(found.group, found.version, served, reportable)
        elif found.group:
            document = discovery.api_group(found.group, served)
        else:
            document = discovery.api_versions() if found.legacy else discovery.api_groups(served)
        if document is None:
            raise ApiError(404, "the server could not find the requested resource")
        return document

    async def _get(self, request: web.Request, found: api_requests.Objects, kind: Kind) -> web.Response:
        async with self._reading:
            return await self._object(request, found, kind)

    async def _object(self, request: web.Request, found: api_requests.Objects, kind: Kind) -> web.Response:
        held = await self._store.get(found.group, found.plural, found.namespace or "", found.name)
        if held is None or held.resource.version != found.version:
            raise api_requests.not_found(found.plural, found.group, found.name)
        document = listing.present(held, age_seconds=self._age_of(held))
        if not _wants_table(request):
            return respond(document)
        return respond(_table(request, kind, [document], {"resourceVersion": str(held.local_version)}))

    async def _list(self, request: web.Request, scope: listing.ListScope, kind: Kind) -> web.StreamResponse:
        as_table = _wants_table(request)

        def body(page: listing.ListPage) -> dict[str, Any]:
            documents = [listing.present(held, age_seconds=self._age_of(held)) for held in page.items]
            if as_table:
                return _table(request, kind, documents, {})
            return listing.list_body(kind.kind, kind.api_version, documents, page)

        items = "rows" if as_table else "items"
        parts = self._parts(scope, lambda page: _encode(body(page)[items])[1:-1])
        page, part = await anext(parts)
        # Only one chunk of a long list is in memory at a time, so the continue token is known, and written, at the end.
        rest = {key: value for key, value in body(page).items() if key not in (items, "metadata")}
        head = _encode(rest)[:-1] + f',"{items}":['.encode()
        if page.is_last:
            return web.Response(body=head + part + _tail(page), content_type=_JSON)
        response = web.StreamResponse(headers={"Content-Type": _JSON})
        try:
            await response.prepare(request)
            if request.method != "HEAD":
                await connections.write(request, response, head)
                await connections.write(request, response, part)
                separator = b"," if part else b""
                async for following, part in parts:
                    page = following
                    if part:
                        await connections.write(request, response, separator)
                        await connections.write(request, response, part)
                        separator = b","
                await connections.write(request, response, _tail(page))
            await response.write_eof()
        except HistoryExpired:
            # The status line was sent already, so abort: the client sees a truncated response and retries.
            if request.transport is not None:
                request.transport.abort()
        except ConnectionResetError:
            pass  # the client disconnected or did not read
        finally:
            await parts.aclose()
        return response

    async def _parts(
        self, scope: listing.ListScope, encode: Callable[[listing.ListPage], bytes]
    ) -> AsyncGenerator[tuple[listing.ListPage, bytes], None]:
        """A list as pages (without their objects), each with its encoded part, consistent at one version.

        Each page is a chunk of the store, read when the previous one was consumed.  Raises ``HistoryExpired``.
        """
        selection = scope.selection
        while True:
            async with self._reading:
                page, through = await self._page(msgspec.structs.replace(scope, selection=selection))
                part = encode(page)
                taken = len(page.items)
                page = msgspec.structs.replace(page, items=[])
            yield page, part
            if page.is_last:
                return
            selection = msgspec.structs.replace(
                selection,
                after=through,
                at_version=page.version,
                limit=selection.limit - taken if selection.limit else 0,
            )

    async def _page(self, scope: listing.ListScope) -> tuple[listing.ListPage, tuple[str, str] | None]:
        """A page of one chunk, and the key after which the next chunk begins."""
        chunk = await self._store.select_chunk(
            scope.group, scope.plural, scope.namespace, after=scope.selection.after or FIRST, bytes_max=CHUNK_BYTES
        )
        if not chunk.more:
            covered = [each for each in chunk.objects if scope.covers(each)]
            return listing.page(covered, chunk.version, self._store.log, scope), None
        last = chunk.objects[-1].resource
        through = last.namespace, last.name
        covered = [each for each in chunk.objects if scope.covers(each)]
        page = listing.page(covered, chunk.version, self._store.log, scope, through=through)
        if page.remaining is not None:
            beyond = await self._store.count(scope.group, scope.version, scope.plural, scope.namespace, after=through)
            page = msgspec.structs.replace(page, remaining=page.remaining + beyond)
        return msgspec.structs.replace(page, is_last=bool(page.continue_token)), through

    async def _watch(self, request: web.Request, scope: listing.ListScope, kind: Kind) -> web.StreamResponse:
        from_version = listing.read_number(request.query, "resourceVersion")
        start = from_version or self._store.log.version
        ask_initial = request.query.get("sendInitialEvents")
        as_table = _wants_table(request)
        is_first = True

        def show(held: HeldObject, version: int) -> dict[str, Any]:
            nonlocal is_first
            document = listing.present(held, age_seconds=self._age_of(held), version=version)
            if not as_table:
                return document
            headers, is_first = is_first, False
            return _table(request, kind, [document], {"resourceVersion": str(version)}, headers=headers)

        initial: AsyncGenerator[bytes, None] | None = None
        if ask_initial == "true" or (not from_version and ask_initial is None):
            parts = self._parts(
                scope,
                lambda page: b"".join(event("ADDED", show(held, held.local_version)) for held in page.items),
            )
            ahead = [await anext(parts)]  # errors must be raised before the stream begins
            start = ahead[0][0].version

            async def added() -> AsyncGenerator[bytes, None]:
                yield ahead.pop()[1]
                async for _, part in parts:
                    yield part

            initial = added()
        return await self.watches.serve(
            request,
            scope,
            kind,
            start=start,
            initial=initial,
            show=show,
            mark_initial_end=ask_initial == "true",
        )


@web.middleware
async def speak_kubernetes(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Middleware: refusals and unknown paths below the Kubernetes-style API become ``Status`` objects."""
    try:
        return await handler(request)
    except ApiError as error:
        headers = {"Allow": ", ".join(READ_METHODS)} if error.code == 405 else {}
        if "retryAfterSeconds" in error.details:
            headers["Retry-After"] = str(error.details["retryAfterSeconds"])
        response = respond(api_requests.status(error), code=error.code, headers=headers)
        if error.code == HTTP_TOO_MANY:
            response.force_close()  # the client comes back later and need not hold a connection until then
        return response
    except HistoryExpired as error:
        gone = ApiError(410, f"too old resource version: {error}")
        return respond(api_requests.status(gone), code=410)


def _tail(page: listing.ListPage) -> bytes:
    return b'],"metadata":' + _encode(listing.list_metadata(page)) + b"}"


def _kind_of(found: api_requests.Objects, served: list[Kind]) -> Kind:
    for kind in served:
        if (kind.group, kind.version, kind.plural) == (found.group, found.version, found.plural):
            if kind.namespaced or found.namespace is None:
                return kind
            break
    raise ApiError(404, "the server could not find the requested resource")


def _wants_watch(request: web.Request) -> bool:
    return request.query.get("watch", "").lower() in ("true", "1")


def _wants_table(request: web.Request) -> bool:
    """Whether the first supported media type that the client accepts is a Table; 406 if it accepts none."""
    header = request.headers.get("Accept", "")
    if not header.strip():
        return False
    for accepted in header.split(","):
        kind, *parameters = [part.strip() for part in accepted.split(";")]
        if kind not in (_JSON, "*/*", "application/*"):
            continue
        shape = next((each for each in parameters if each.startswith("as=")), "")
        if not shape:
            return False
        if shape == "as=Table" and "v=v1" in parameters:
            return True
    raise ApiError(406, "the edge serves application/json, as objects or as a meta.k8s.io/v1 Table")


def _table(
    request: web.Request, kind: Kind, documents: list[dict[str, Any]], metadata: dict[str, Any], *, headers: bool = True
) -> dict[str, Any]:
    include = request.query.get("includeObject", "Metadata")
    return table.table(
        kind.group, kind.plural, documents, metadata=metadata, now=time.time(), include_object=include, headers=headers
    )
