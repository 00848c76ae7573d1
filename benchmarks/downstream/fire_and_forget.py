"""The baseline without reliability: watch, encode once, write to every socket; no ack is read, nothing is remembered.

It shares the hub's watch, content, codec and socket, so the difference is what queues, windows, acks and accounts cost.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvloop
from tests.support.processes import Running, free_ports, start

from fairlead_hub.cluster import content
from fairlead_hub.cluster.content import ServedKind
from fairlead_hub.io.cluster import api_access
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.cluster.reflector import Reflector
from fairlead_hub.io.link.acceptor import LinkAcceptor, LinkSocket
from fairlead_wire import message
from fairlead_wire.link import codec

if TYPE_CHECKING:
    from benchmarks.downstream.lab import Lab

KIND = ServedKind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
WELCOME = message.Welcome(
    hub="baseline", fence=1, session=1, keepalive_seconds=60, frame_bytes_max=1 << 22, upstream_window=1
)
TICKS = os.sysconf("SC_CLK_TCK")


class _Shout:
    def __init__(self) -> None:
        self.sockets: set[LinkSocket] = set()
        self.number = 0
        self.listed = False

    async def listen(self, port: int) -> None:
        self._acceptor = LinkAcceptor(self._greet, context=None, slots_max=128, seconds_max=10, failed=Counter())
        await self._acceptor.start("127.0.0.1", port)

    def _greet(self, socket: LinkSocket) -> None:
        def hello(frame: bytes | str) -> None:
            if socket not in self.sockets:
                self._acceptor.opened(socket)
                socket.write_frames((codec.encode(WELCOME),))
                self.sockets.add(socket)

        socket.on_message = hello
        socket.on_lost = lambda: self.sockets.discard(socket)

    def on_object(self, raw: msgspec.Raw) -> str:
        live = content.build(raw, KIND)
        if self.listed and live.labels.get("bench"):
            self.number += 1
            header = message.Update(
                id=self.number, resource=live.path, uid=live.uid, resource_version=live.version, digest=live.digest,
                encoding=live.encoding,
            )  # fmt: skip
            frame = codec.encode(header, live.content)
            for socket in self.sockets:
                socket.write_frames((frame,))
        return live.key

    def on_gone(self, raw: msgspec.Raw) -> None: ...

    def on_listed(self, identities: set[str], version: str) -> None:
        self.listed = True

    def on_lost(self, restored: bool) -> None: ...

    def on_unlistable(self, reason: str, *, served: bool) -> None: ...


async def _main(kubeconfig: str, port: int) -> None:
    kube, shout = Kube(api_access.load(kubeconfig)), _Shout()
    await shout.listen(port)
    await Reflector(kube, KIND.root, shout).run()


class Process:
    """It, as a process of its own."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        (self._port,) = free_ports(1)
        self.url = f"ws://127.0.0.1:{self._port}"
        self._running: Running | None = None

    async def __aenter__(self) -> Process:
        command = [
            sys.executable,
            "-m",
            "benchmarks.downstream.fire_and_forget",
            str(self._lab.cluster.kubeconfig),
            str(self._port),
        ]
        self._running = start("fire-and-forget", command, self._lab.folder / "fire.log")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        self._running.kill()

    @property
    def cpu(self) -> float:
        assert self._running is not None
        fields = Path(f"/proc/{self._running.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], int(sys.argv[2])))
