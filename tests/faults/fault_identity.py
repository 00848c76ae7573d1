"""Two hubs, one Lease, and devices that join: the admitting hub is stopped (SIGSTOP) or killed in the middle of it.

A proxy in front of the API server holds the write that admits a device, or its answer.  Laws: if two devices use one
token, at a deposed hub and at the leader, only one gets a certificate; a device whose hub was killed after the write
gets the recorded certificate when it asks again, and no second use is written.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from tests.faults.collect import Count
from tests.faults.rivals import TAKE_OVER_SECONDS, Rival, Rivals, define
from tests.support.hubs.hub import until
from tests.support.joining import join_client
from tests.support.joining.join_client import make_token
from tests.support.joining.join_site import TOKENS, Site
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster
from websockets.exceptions import InvalidHandshake

from fairlead_wire import message
from fairlead_wire.identity.join_token import JoinToken

ROOM = "downstream"
KILLS = 8
PAUSE_SECONDS = 30.0
PATIENCE_SECONDS = 120.0
LATER = frozenset(["too_many", "starting", "signer_unavailable", "draining"])
"""Codes after which a device asks again."""

Answer = tuple[message.ToDevice, bytes]


class _Candidate(Rival):
    """One hub behind a door of its own; both have the authorities of one site."""

    def __init__(self, cluster: Cluster, front: ApiFront, folder: Path, beside: Site | None) -> None:
        folder.mkdir()
        self.site = Site(cluster, folder, beside=beside)
        super().__init__(cluster, front, folder, self.site.hub)

    async def join(self, token: JoinToken, key: Any) -> Answer:
        return await join_client.join(self.site.url, token, roots=self.site.roots, key=key)


class _Held:
    """The next write into a token: held before it is passed on, or with its answer already there."""

    def __init__(self, front: ApiFront, token: JoinToken, *, written: bool) -> None:
        self.came, self.goes_on = asyncio.Event(), asyncio.Event()

        async def hold(request: web.Request) -> web.StreamResponse:
            if written:
                answer = await front.pass_on(request)
                self.came.set()
                await self.goes_on.wait()
                return answer
            await request.read()  # who sent it may be gone when it is passed on
            self.came.set()
            await self.goes_on.wait()
            return await front.pass_on(request)

        front.answer_with("PATCH", f"jointokens/{token.id}/status", hold)


class _World:
    def __init__(self, folder: Path, pause_seconds: float) -> None:
        self.pause_seconds = pause_seconds
        self.cluster = Cluster(folder / "cluster")
        self.count = Count(kills=0, acknowledged=0, lost=0, duplicated=0, untrue=0)
        self._folder = folder

    async def run(self, kills: int, progress: Callable[[str], None]) -> Count:
        await asyncio.to_thread(define, self.cluster)
        try:
            async with ApiFront(self.cluster) as one, ApiFront(self.cluster) as two:
                first = _Candidate(self.cluster, one, self._folder / "hub-0", None)
                self._hubs = Rivals(first, _Candidate(self.cluster, two, self._folder / "hub-1", first.site))
                async with self._hubs.running():
                    while self.count["kills"] < kills:
                        await (self._depose() if self.count["kills"] % 2 == 0 else self._kill())
                        progress(f"identity: {self.count}")
        finally:
            await asyncio.to_thread(self.cluster.stop)
        self._hubs.require_no_defects()
        return self.count

    async def _begin(self, leader: _Candidate, *, written: bool) -> tuple[JoinToken, Any, _Held, asyncio.Task[Answer]]:
        """A device joins, and the write that admits it is held."""
        token = await asyncio.to_thread(make_token, self.cluster, node=f"edge-{self.count['kills']}")
        await leader.site.seen(token.id)
        held, key = _Held(leader.front, token, written=written), ec.generate_private_key(ec.SECP256R1())
        joining = asyncio.create_task(leader.join(token, key))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await held.came.wait()
        return token, key, held, joining

    async def _depose(self) -> None:
        """The leader is stopped after its decision; meanwhile the other hub admits another device by the same token."""
        leader, other = await self._hubs.leader()
        token, _, held, joining = await self._begin(leader, written=False)
        os.kill(leader.pid, signal.SIGSTOP)
        self.count["kills"] += 1
        stopped_at = time.monotonic()
        await until("the other takes over", lambda: other.is_ready, seconds=TAKE_OVER_SECONDS)
        issued = await self._patiently(other, token, ec.generate_private_key(ec.SECP256R1()))
        await asyncio.sleep(max(0.0, self.pause_seconds - (time.monotonic() - stopped_at)))
        os.kill(leader.pid, signal.SIGCONT)
        held.goes_on.set()
        late = await asyncio.gather(joining, return_exceptions=True)
        if any(_is_issued(each) for each in late):
            self.count["duplicated"] += 1
            print(f"a hub that was deposed gave a certificate as well: {late}", file=sys.stderr)
        self._hold_against(token, issued)
        await until("it ends", lambda: not leader.is_alive, seconds=120)
        leader.hub.start(ready=False)

    async def _kill(self) -> None:
        """The leader is killed after the write, before its answer; the device gets what was written."""
        leader, _ = await self._hubs.leader()
        token, key, held, joining = await self._begin(leader, written=True)
        await asyncio.to_thread(leader.hub.kill)
        self.count["kills"] += 1
        held.goes_on.set()
        gone = await asyncio.gather(joining, return_exceptions=True)
        if any(_is_issued(each) for each in gone):
            self.count["untrue"] += 1
        leader.hub.start(ready=False)
        now, _ = await self._hubs.leader()
        issued = await self._patiently(now, token, key)
        self._hold_against(token, issued)

    async def _patiently(self, at: _Candidate, token: JoinToken, key: Any) -> message.IssuedCertificates:
        """Ask as ``fairlead edge join`` does: again, if the hub says so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    answer = await at.join(token, key)
                except (join_client.Gone, OSError, InvalidHandshake):
                    await asyncio.sleep(0.5)  # it starts
                    continue
                header = answer[0]
                if not isinstance(header, message.Refuse) or header.code not in LATER:
                    return join_client.certificates(answer)
                await asyncio.sleep(min(header.retry_after or 0.5, 1.0))

    def _hold_against(self, token: JoinToken, issued: message.IssuedCertificates) -> None:
        """One use is written, the one of the certificate that the device got."""
        found = self.cluster.get(f"{TOKENS}/{token.id}")["status"]["uses"]
        leaf = x509.load_pem_x509_certificates(issued.certificates.encode())[0]
        self.count["acknowledged"] += 1
        if len(found) != 1:
            self.count["duplicated"] += 1
        elif int(found[0]["serial"], 16) != leaf.serial_number:
            self.count["untrue"] += 1
        if len(found) != 1 or self.count["untrue"]:
            print(f"certificate {leaf.serial_number:x}, and written is {found}", file=sys.stderr)


def _is_issued(answer: Answer | BaseException) -> bool:
    return not isinstance(answer, BaseException) and isinstance(answer[0], message.Issued)


def run(kills: int, seed: int, progress: Callable[[str], None], *, pause_seconds: float = PAUSE_SECONDS) -> Count:
    """Stop or kill the hub that admits ``kills`` times, in turn, always at the write: nothing is left to ``seed``."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_World(Path(folder), pause_seconds).run(kills, progress))
