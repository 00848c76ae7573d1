"""The real edge program with a test hub at the other end of its link, for fault tests and benchmarks.

    with CountingHub() as hub, EdgeProgram(folder, hub.port) as edge:
        edge.publish([...]);  hub.wait_for(n);  edge.kill();  edge.start()

The hub runs in a thread of the calling process.  It gives every new session the EdgeRoutes object, and keeps what it
acknowledged by (epoch, stream, sequence), as the topic does; duplicates are counted, not kept.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

import msgspec
from tests.support.processes import Running, free_ports, start, wait_until
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

UP_SECONDS = 100.0
ROUTES_SECONDS = 100.0
ROUTES_PATH = "apis/fairlead.dev/v1alpha1/edgeroutes/all"
ALL_PRIORITIES = {
    "schemaVersion": "1.1.0",
    "routes": {
        **{
            f"p{priority}": {
                "route": f"FROM /messages/modules/*  WHERE p = '{priority}' INTO $upstream",
                "priority": priority,
            }
            for priority in range(10)
        },
        "rest": "FROM /messages/modules/* WHERE p = 'none' INTO $upstream",
        "short": {
            "route": "FROM /messages/modules/* WHERE p = 'short' INTO $upstream",
            "priority": 5,
            "timeToLiveSecs": 1,
        },
    },
    "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
}
"""Property ``p`` says the priority; ``none`` the default, ``short`` one that expires after a second."""


def edge_routes(spec: dict[str, Any]) -> bytes:
    """The object as the hub delivers it."""
    return msgspec.json.encode(
        {
            "apiVersion": "fairlead.dev/v1alpha1",
            "kind": "EdgeRoutes",
            "metadata": {"name": "all", "uid": "uid-routes"},
            "spec": spec,
        }
    )


class CountingHub:
    """Listens on loopback.  ``cut`` and ``mend`` the link; ``answer`` may replace the acknowledgement of a batch."""

    def __init__(self, *, routes: dict[str, Any] = ALL_PRIORITIES, window: int = 8, port: int = 0) -> None:
        self._routes = edge_routes(routes)
        self._routes_version = 1
        self._window = window
        self.port = port or free_ports(1)[0]
        self.stored: dict[tuple[int, str, int], message.UpstreamMessage] = {}
        """Messages by (epoch, stream, sequence)."""
        self.order: list[tuple[int, str]] = []
        """(priority, id) in the order they were taken for the first time."""
        self.repeated = 0
        self.answer: Callable[[str, list[message.UpstreamMessage]], message.Nack | None] = lambda stream, batch: None
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._cut = threading.Event()
        self._peers: set[ServerConnection] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stop: asyncio.Event | None = None
        self._started: Future[None] = Future()

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(UP_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(UP_SECONDS)

    def cut(self) -> None:
        """Close the session and refuse others."""
        self._cut.set()
        for peer in list(self._peers):
            asyncio.run_coroutine_threadsafe(_abort(peer), self._loop).result(UP_SECONDS)

    def mend(self) -> None:
        self._cut.clear()

    def change_routes(self, routes: dict[str, Any]) -> None:
        """Give these routes to new sessions, and end the open ones."""
        self._routes = edge_routes(routes)
        self._routes_version += 1
        self.cut()
        self.mend()

    def messages(self) -> list[message.UpstreamMessage]:
        """A copy of the messages received so far; more may arrive while it is read."""
        with self._changed:
            return list(self.stored.values())

    def wait_for(self, count: int, seconds: float = 120.0) -> None:
        """Wait until so many different messages were received."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.stored) >= count, seconds):
                raise AssertionError(f"{len(self.stored)} of {count} messages within {seconds:g} s")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        async with serve(
            self._session, "127.0.0.1", self.port, max_size=codec.FRAME_BYTES_MAX, compression=None, ping_interval=None
        ):
            self._started.set_result(None)
            await self._stop.wait()
            for peer in list(self._peers):
                peer.transport.abort()

    async def _session(self, connection: ServerConnection) -> None:
        if self._cut.is_set():
            connection.transport.abort()
            return
        self._peers.add(connection)
        try:
            await self._talk(connection)
        except ConnectionClosed:
            pass  # the edge was killed or the link was cut
        finally:
            self._peers.discard(connection)

    async def _talk(self, connection: ServerConnection) -> None:
        async def say(header: message.FromHub, content: bytes = b"") -> None:
            await connection.send(codec.encode(header, content))

        async for frame in connection:
            assert isinstance(frame, bytes)
            header, content = codec.decode_from_edge(frame)
            match header:
                case message.Hello():
                    await say(
                        message.Welcome(
                            hub="counting",
                            fence=1,
                            session=1,
                            keepalive_seconds=5.0,
                            frame_bytes_max=codec.FRAME_BYTES_MAX,
                            upstream_window=self._window,
                        )
                    )
                    update = message.Update(
                        id=1,
                        resource=ROUTES_PATH,
                        uid="uid-routes",
                        resource_version=str(self._routes_version),
                        digest=digest.content_digest(self._routes),
                    )
                    await say(update, self._routes)
                case message.Upstream():
                    await say(self._take(header, content))
                case message.Keepalive():
                    await say(message.Keepalive())
                case _:
                    pass

    def _take(self, header: message.Upstream, content: bytes) -> message.Ack | message.Nack:
        batch = msgspec.json.decode(codec.unpack(header.encoding, content), type=list[message.UpstreamMessage])
        refusal = self.answer(header.stream, batch)
        if refusal is not None:
            return msgspec.structs.replace(refusal, parent_id=header.id)
        with self._changed:
            for each in batch:
                key = (each.epoch, header.stream, each.sequence)
                if key in self.stored:
                    self.repeated += 1
                else:
                    self.stored[key] = each
                    self.order.append((each.priority, each.id))
            self._changed.notify_all()
        return message.Ack(parent_id=header.id)


async def _abort(peer: ServerConnection) -> None:
    peer.transport.abort()


class EdgeProgram:
    """``fairlead edge run`` as a user starts it; stop it by ``with``, ``kill`` it as often as you like."""

    def __init__(
        self,
        folder: Path,
        hub_port: int,
        *,
        node: str = "edge-1",
        max_bytes: int = 8 << 30,
        settings: str = "",
        store: str = "",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self._config = folder / "edge.toml"
        self._config.write_text(
            f'node = "{node}"\nhub_url = "ws://127.0.0.1:{hub_port}"\ndata_dir = "{folder}/data"\n'
            f'http_listen = "127.0.0.1:{self.port}"\nsecurity = "insecure"\n{settings}\n'
            f"[store]\nmax_bytes = {max_bytes}\n{store}"
        )
        self.running: Running | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """SIGTERM, wait."""
        if self.running is not None:
            self.running.stop()

    @property
    def pid(self) -> int:
        assert self.running is not None
        return self.running.pid

    def start(self) -> float:
        """Returns the seconds until it answered a request."""
        program = [sys.executable, "-m", "fairlead_cli.main"]
        began = time.monotonic()
        self.running = running = start(
            "edge", [*program, "edge", "run", "--config", str(self._config)], self.folder / "edge.log"
        )

        def answers() -> bool:
            running.require_alive()
            return bool(self.get("/healthz"))

        wait_until("edge answers", answers, seconds=UP_SECONDS, every=0.01, describe=running.tail)
        return time.monotonic() - began

    def kill(self) -> None:
        """kill -9."""
        assert self.running is not None
        self.running.kill()

    def start_again(self) -> float:
        """kill -9 and start; returns the seconds until it answered."""
        self.kill()
        return self.start()

    def drained(self) -> bool:
        """Whether all queues are empty."""
        return not any(queue["length"] for queue in self.status()["queues"])

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path, timeout=60) as response:
            return bytes(response.read())

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/v1/status"))
        return found

    def publish(self, messages: list[dict[str, Any]], *, key: str = "", seconds: float = 30.0) -> list[str]:
        """Ids of the accepted messages; raises ``OSError`` when there was no answer or it was not 200."""
        content = msgspec.json.encode({"messages": messages})
        request = urllib.request.Request(f"{self.url}/v1/messages", data=content, method="POST")
        if key:
            request.add_header("Idempotency-Key", key)
        with urllib.request.urlopen(request, timeout=seconds) as response:
            return [result["id"] for result in json.loads(response.read())["results"]]

    def await_routes(self) -> None:
        """Wait until the EdgeRoutes object has arrived."""

        def accepts() -> bool:
            request = b'{"messages":[{"source":"/messages/modules/m","body":0}]}'
            try:
                with urllib.request.urlopen(f"{self.url}/v1/messages", data=request, timeout=60) as response:
                    return bool(response.status == 200)
            except urllib.error.HTTPError as error:
                assert error.code == 503, error
                return False

        running = self.running
        assert running is not None
        wait_until("routes arrive", accepts, seconds=ROUTES_SECONDS, every=0.02, describe=running.tail)


def telemetry(priority: int | str, body: Any, **more: Any) -> dict[str, Any]:
    """A message for ``ALL_PRIORITIES``."""
    return {"source": "/messages/modules/m/outputs/o", "properties": {"p": str(priority)}, "body": body, **more}
