"""A client of the messaging service for asyncio programs; ``sync_client`` has its counterpart for all others.

    async with AsyncClient("http://127.0.0.1:11015") as client:
        await client.publish("default", "orders", [b"1"])
        async for message in client.messages("default", "orders"): …

When a call returns, its effect is durable; otherwise it raises one of ``fairlead_messaging.client.errors``:
``Temporary`` (repeat it after ``retry_after_seconds``; ``in_doubt`` says whether it may have taken effect) or
``Permanent`` (the same request will be refused again; ``code`` says why).  With ``retries`` the client repeats what is
safe to repeat: requests that the service certainly did not begin, reads, idempotent changes, and publishing with a
producer, whose messages are stored once however often they are sent.

A client belongs to one event loop, whose tasks may share it.  Do not use it after a fork or in another thread: make one
there.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self, TypeVar, Unpack

import aiohttp
from yarl import URL

from fairlead_messaging.api.responses import Message
from fairlead_messaging.client import retry, script, transaction
from fairlead_messaging.client.cursor import Cursor, ReadOptions
from fairlead_messaging.client.errors import Disconnected, NoAnswer, TimedOut, Unreachable
from fairlead_messaging.client.io.connections import (
    ANSWER_BYTES_MAX,
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    Tls,
    check_options,
    check_url,
)
from fairlead_messaging.client.methods import AwaitingClient, Methods
from fairlead_messaging.client.request import ClientRequest, Response
from fairlead_messaging.client.script import Pause
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import LocalError, RemoteError, text_of
from fairlead_wire.io.tls import RELOAD_SECONDS
from fairlead_wire.validation import addresses

T = TypeVar("T")


class AsyncClient(Methods, AwaitingClient):
    """``tls``: files, reloaded when they change; or your own ``ssl_context``, which is never reloaded.

    ``timeout_seconds`` is for one attempt, from the connection to the last byte of the answer (a long poll's wait comes
    on top), ``connect_seconds`` for its connection.  ``retries``: None, or a policy such as ``retry.PATIENT``.
    """

    def __init__(
        self,
        base_url: str,
        *,
        tls: Tls | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout_seconds: float = ANSWER_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
        retries: DeliveryPolicy | None = None,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        check_options(tls, retries)
        self._base_url = check_url(base_url, has_tls=tls is not None or ssl_context is not None)
        self._tls = tls.client() if tls is not None else None
        self._ssl = self._tls.context() if self._tls is not None else ssl_context
        self._token = tls.token() if tls is not None and self._base_url.startswith("https:") else None
        self._files_checked_at = 0.0
        self._timeout_seconds = timeout_seconds
        self._connect_seconds = connect_seconds
        self._retries = retries
        self._answer_bytes_max = answer_bytes_max
        self._session: aiohttp.ClientSession | None = None
        self._answered = False
        self._has_ended = False

    async def __aenter__(self) -> Self:
        self._has_ended = False
        return self

    async def __aexit__(self, *_: object) -> None:
        self._has_ended = True
        await self.close()

    async def close(self) -> None:
        """Close the connections; another call opens new ones, unless ``async with`` has ended."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def messages(self, namespace: str, name: str, **reading: Unpack[ReadOptions]) -> AsyncIterator[Message]:
        """Every message from a start on, page by page; arguments: ``ReadOptions``.

        To continue later, start from the last message's id with ``inclusive=False``.
        """
        cursor = Cursor(namespace, name, **reading)
        while cursor.more:
            for message in cursor.take(await self.do(cursor.ask())):
                yield message

    async def do(self, asked: ClientRequest[T]) -> T:
        """Send any request of ``client.requests``, with the client's ``retries``."""
        return await script.perform_async(retry.send(asked, self._retries, random.random), self._attempt)

    async def commit(self, pointer: int, changes: Sequence[str] = ()) -> None:
        """Commit, and repeat that for half a minute while no answer comes; then raise ``InDoubt``.

        Raises otherwise as ``finish_transaction``.
        """
        await script.perform_async(transaction.commit(pointer, changes), self.take)

    async def take(self, step: ClientRequest[Any] | Pause) -> Any:
        """Perform a step of a script: send the request, or wait."""
        return await (asyncio.sleep(step.seconds) if isinstance(step, Pause) else self.do(step))

    async def _attempt(self, step: ClientRequest[Any] | Pause) -> Any:
        return await (asyncio.sleep(step.seconds) if isinstance(step, Pause) else self._send(step))

    async def _send(self, asked: ClientRequest[Any]) -> Response:
        """Make one attempt.  Raises as ``Connections.exchange`` does."""
        if self._has_ended:
            raise LocalError("the `async with` block of this client has ended: call it inside, or make a new client")
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
            # When a kept connection ends, aiohttp would silently repeat a GET, PUT or DELETE, although the first one
            # may have taken effect. Only ``Attempts`` decides what is repeated.
            self._session._retry_connection = False
        self._reload()
        seconds = self._timeout_seconds + asked.wait_seconds
        try:
            async with self._session.request(
                asked.method,
                URL(self._base_url + asked.path, encoded=True),
                data=asked.body,
                headers={**asked.headers, **(self._token.header() if self._token is not None else {})},
                ssl=self._ssl or True,
                timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=self._connect_seconds),
                allow_redirects=False,
            ) as response:
                self._answered = True
                body = await self._body(asked, response)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Response(status=response.status, headers=headers, body=body, url=self._base_url)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            hint = addresses.scheme_hint(self._base_url, error)
            raise Unreachable(f"{self._base_url} cannot be reached: {text_of(error)}{hint}") from error
        except TimeoutError as error:
            raise TimedOut(
                f"{self._base_url} did not answer {asked.method} {asked.path} within {seconds:g} s", seconds=seconds
            ) from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, ConnectionError) as error:
            hint = addresses.scheme_hint(self._base_url, error, answered=self._answered)
            why = f"{text_of(error)}{hint}"
            raise Disconnected(f"{self._base_url} ended the connection before its answer: {why}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(f"{self._base_url} does not answer: {text_of(error)}") from error

    async def _body(self, asked: ClientRequest[Any], response: aiohttp.ClientResponse) -> bytes:
        limit = self._answer_bytes_max
        if (response.content_length or 0) <= limit:
            pieces, size = [], 0
            async for piece in response.content.iter_any():
                size += len(piece)
                if size > limit:
                    break
                pieces.append(piece)
            else:
                return b"".join(pieces)
        response.close()
        raise RemoteError(f"{asked.path}: the answer is over {limit} bytes")

    def _reload(self) -> None:
        """Load the TLS files again if they were replaced; a new context opens new connections."""
        now = asyncio.get_running_loop().time()
        if self._tls is not None and now - self._files_checked_at >= RELOAD_SECONDS:
            self._files_checked_at = now
            self._ssl = self._tls.context()
