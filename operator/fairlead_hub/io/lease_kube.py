"""Takes, renews and gives back the Lease in the API server; ``lease`` decides, this acts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from fairlead_hub import lease
from fairlead_hub.io.kube import Kube, Refused, Unavailable
from fairlead_wire.io import logs

RETRY_SECONDS = 1.0
_log = logs.get("hub.lease")


class LeaseKeeper:
    """``acquire`` once, then ``keep`` beside the work; ``valid`` says whether writing is still allowed."""

    def __init__(self, kube: Kube, *, namespace: str, identity: str, on_lost: Callable[[str], None]) -> None:
        self._kube, self._namespace, self._identity = kube, namespace, identity
        self._on_lost = on_lost
        self._root = f"apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._current: dict[str, Any] = {}
        self._renewed_at = 0.0
        self.fence = 0

    @property
    def valid(self) -> bool:
        """Renewed recently enough that nobody else can hold it."""
        return time.monotonic() - self._renewed_at < lease.LEASE_SECONDS

    async def acquire(self) -> int:
        """Waits for the API server and for another holder to go; returns the fencing number."""
        said = ""
        while True:
            try:
                outcome = await self._try(0)
            except Unavailable as error:
                wait, text = RETRY_SECONDS, f"waiting for the API server: {error}"
            except Refused as error:
                wait, text = RETRY_SECONDS, f"the Lease {self._namespace}/{lease.NAME} cannot be taken: {error}"
            else:
                if isinstance(outcome, lease.Taken):
                    _log.info("lease_taken", fence=outcome.fence, identity=self._identity)
                    return outcome.fence
                wait, text = min(outcome.seconds, RETRY_SECONDS), f"held by {outcome.holder}"
            if text != said:
                _log.warning("lease_wait", reason=text)
                said = text
            await asyncio.sleep(wait)

    async def raise_to(self, fence: int) -> int:
        """An edge has obeyed, or a record carries, a higher number: hold the Lease under one above that.

        It is either newer than us, then the Lease says so and we stop; or the Lease was lost or restored.
        """
        if not lease.is_believable(fence, self.fence):
            _log.error("fence_absurd", seen=fence, fence=self.fence)
            return self.fence
        current = await self._get()
        if current is not None and not lease.is_ours(current, identity=self._identity, fence=self.fence):
            self._on_lost("another hub holds the Lease")
            return self.fence
        outcome = await self._try(fence)
        if isinstance(outcome, lease.Taken):
            _log.warning("fence_raised", fence=outcome.fence)
        return self.fence

    async def _try(self, at_least: int) -> lease.Taken | lease.Held:
        current = await self._get()
        outcome = lease.take(
            current, identity=self._identity, namespace=self._namespace, wall=time.time(), at_least=at_least
        )
        if isinstance(outcome, lease.Taken):
            await self._put(outcome.body, create=current is None)
            self.fence = outcome.fence
        return outcome

    async def keep(self) -> None:
        """Until cancelled, or until it is lost (``on_lost`` is told why, once)."""
        while True:
            await asyncio.sleep(lease.RENEW_SECONDS)
            try:
                body = lease.renewed(self._current, identity=self._identity, wall=time.time(), fence=self.fence)
                if body is not None:
                    await self._put(body, create=False)
                elif lease.went_back(self._current, identity=self._identity, fence=self.fence):
                    await self._try(self.fence + 1)
                else:
                    self._on_lost("another hub holds the Lease")
                    return
            except Refused as error:
                if error.status in (404, 409):
                    await self._look_again()
                else:
                    _log.warning("lease_refused", reason=str(error))
            except Unavailable as error:
                # Nobody can take over while the API server is away: edges are served on.
                _log.warning("lease_delayed", reason=str(error))

    async def _look_again(self) -> None:
        """Somebody wrote the Lease since, or deleted it (the API server calls that a conflict too).

        Then it is made again, and the number must not start again from one.
        """
        try:
            current = await self._get()
            if current is None:
                await self._try(self.fence + 1)
            else:
                self._current = current
        except (Refused, Unavailable) as error:
            _log.warning("lease_delayed", reason=str(error))

    async def release(self) -> None:
        """A clean end: the next hub need not wait."""
        try:
            await self._kube.request("PUT", f"{self._root}/{lease.NAME}", lease.released(self._current), attempts=1)
        except (Refused, Unavailable) as error:
            _log.warning("lease_not_released", reason=str(error))

    async def _get(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = msgspec.json.decode(await self._kube.get(f"{self._root}/{lease.NAME}"))
        except Refused as error:
            if error.status == 404:
                return None
            raise
        return found

    async def _put(self, body: dict[str, Any], *, create: bool) -> None:
        started = time.monotonic()
        if create:
            answer = await self._kube.request("POST", self._root, body)
        else:
            answer = await self._kube.request("PUT", f"{self._root}/{lease.NAME}", body)
        self._current = msgspec.json.decode(answer)
        self._renewed_at = started
