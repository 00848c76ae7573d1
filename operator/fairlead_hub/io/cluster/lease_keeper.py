"""Takes, renews and releases the Lease in the API server, as ``leadership`` decides."""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from fairlead_hub import leadership
from fairlead_hub.cluster import api_json
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable, UnreadableAnswer
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.leadership import PULSE_SECONDS, HolderPod, Tenure
from fairlead_wire.errors import Malformed
from fairlead_wire.io import logs

RETRY_SECONDS = 1.0
_log = logs.get("hub.lease")


def boot_time() -> float:
    """Seconds since boot, including suspended time (where the system can tell)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class LeaseKeeper:
    """Call ``acquire`` once, then run ``keep`` beside the work.

    ``valid`` and ``seconds_left`` say whether writing is still allowed, ``may_send`` whether anything may be sent to
    nodes.  The callback given to ``subscribe`` is called when nothing may be sent any more: end every connection.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        namespace: str,
        identity: str,
        on_lost: Callable[[str], None],
        clock: Callable[[], float] = boot_time,
        pod: HolderPod | None = None,
    ) -> None:
        """``pod``: the Pod this process runs in, in the cluster of ``kube``."""
        self._kube, self._namespace, self._identity, self._pod = kube, namespace, identity, pod
        self._on_lost = on_lost
        self._doubted: list[Callable[[], None]] = []
        self._clock = clock
        self._tenure = Tenure(clock())
        self._rival = leadership.Rival()
        self._doubt = asyncio.Event()
        self._root = f"apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._current: dict[str, Any] = {}
        self._absurd: set[int] = set()
        self._is_given_back = False
        self.fence = 0

    @property
    def valid(self) -> bool:
        """Whether it was renewed recently enough that no other process can hold it."""
        return self.seconds_left > 0

    @property
    def seconds_left(self) -> float:
        """How long a write may take at most."""
        return self._tenure.seconds_left(self._clock())

    def subscribe(self, doubted: Callable[[], None]) -> None:
        """``doubted`` is called when nothing may be sent to nodes any more."""
        self._doubted.append(doubted)

    def may_send(self) -> bool:
        """Costs one reading of the clock; the first call after a pause detects it."""
        if self._tenure.ran(self._clock()):
            _log.warning("lease_doubted", reason="this process did not run for longer than its Lease lasts")
            self._doubt.set()
            for doubted in self._doubted:
                doubted()
        return not self._tenure.doubted

    async def acquire(self) -> int:
        """Wait for the API server and for another holder to go; returns the fencing number."""
        said = ""
        while True:
            try:
                outcome = await self._try(0)
            except ApiUnavailable as error:
                wait, text = RETRY_SECONDS, f"waiting for the API server: {error}"
            except ApiRefused as error:
                wait, text = RETRY_SECONDS, f"the Lease {self._namespace}/{leadership.NAME} cannot be taken: {error}"
            else:
                if isinstance(outcome, leadership.TakeLease):
                    _log.info("lease_taken", fence=outcome.fence, identity=self._identity)
                    return outcome.fence
                wait, text = min(outcome.seconds, RETRY_SECONDS), f"held by {outcome.holder}"
            if text != said:
                _log.warning("lease_wait", reason=text)
                said = text
            await asyncio.sleep(wait)

    async def raise_to(self, fence: int) -> int:
        """An edge or a record reported a higher number: take the Lease again under a number above it.

        Either a newer hub gave out that number, then the Lease says so and we stop; or the Lease was lost or restored.
        """
        if not leadership.is_believable(fence, self.fence):
            if fence not in self._absurd:
                self._absurd = {fence}
                remedy = "nodes give it up by themselves; at once: fairlead node approve NODE"
                _log.error("fence_absurd", seen=fence, fence=self.fence, remedy=remedy)
            return self.fence
        current = await self._get()
        if current is not None and not leadership.is_ours(current, identity=self._identity, fence=self.fence):
            self._lose()
            return self.fence
        outcome = await self._try(fence)
        if isinstance(outcome, leadership.TakeLease):
            _log.warning("fence_raised", fence=outcome.fence)
        return self.fence

    async def _try(self, at_least: int) -> leadership.TakeLease | leadership.HeldByOther:
        current = await self._get()
        left = 0.0 if current is None else self._rival.seconds_left(current, self._clock())
        if left > 0 and await self._has_ended(current):
            left = 0.0
        outcome = leadership.take(
            current,
            identity=self._identity,
            namespace=self._namespace,
            wall=time.time(),
            seconds_left=left,
            at_least=at_least,
            known=self.fence,
            pod=self._pod,
        )
        if isinstance(outcome, leadership.TakeLease):
            if self._is_given_back:  # meanwhile: nothing here would renew it any more
                return leadership.HeldByOther(holder="", seconds=0.0)
            await self._put(outcome.body, create=current is None)
            self.fence = outcome.fence
        return outcome

    async def _has_ended(self, current: dict[str, Any] | None) -> bool:
        """Whether the Pod of another holder has ended; False if that is unknown or we may not ask."""
        pod = leadership.pod_of_holder(current)
        if pod is None or leadership.holder_of(current) == self._identity:
            return False
        namespace, name = (urllib.parse.quote(each, safe="") for each in (pod.namespace, pod.name))
        try:
            there = api_json.document(
                await self._kube.request("GET", f"api/v1/namespaces/{namespace}/pods/{name}", attempts=1)
            )[0]
        except ApiRefused as error:
            # Check the reason, not only the number: a proxy in front of an API server may answer 404 itself.
            ended = error.status == 404 and error.code == "NotFound"
        except (ApiUnavailable, Malformed):
            ended = False
        else:
            ended = leadership.has_ended(pod, there)
        if ended:
            _log.info("lease_left_behind", holder=leadership.holder_of(current), pod=f"{pod.namespace}/{pod.name}")
        return ended

    async def keep(self) -> None:
        """Run until cancelled, or until the Lease is lost (``on_lost`` is called once with the reason)."""
        pulse = asyncio.create_task(self._pulse())
        try:
            while await self._renew():
                pass
        finally:
            pulse.cancel()

    async def _renew(self) -> bool:
        """Wait for the time to renew, and renew.  Returns False if the Lease is lost."""
        try:
            async with asyncio.timeout(leadership.RENEW_SECONDS):
                await self._doubt.wait()
        except TimeoutError:
            pass
        else:
            self._doubt.clear()
        try:
            if not self.valid:
                # What we remember is too old to be written: another hub may hold the Lease by now.
                self._current = await self._get() or self._current
            body = leadership.renewed(
                self._current, identity=self._identity, wall=time.time(), fence=self.fence, pod=self._pod
            )
            if body is not None:
                await self._put(body, create=False)
            elif leadership.is_ours(self._current, identity=self._identity, fence=self.fence):
                _log.warning("lease_repaired", found=leadership.fence_of(self._current), fence=self.fence + 1)
                await self._try(self.fence + 1)
            else:
                self._lose()
                return False
        except ApiRefused as error:
            if error.status in (404, 409):
                return await self._reread()
            _log.warning("lease_refused", reason=str(error))
        except ApiUnavailable as error:
            # No hub can take over while the API server is away, so edges are still served.
            _log.warning("lease_delayed", reason=str(error))
        return True

    def _lose(self) -> None:
        self._tenure.end()
        self._on_lost("another hub holds the Lease")

    async def _pulse(self) -> None:
        """Detect soon that this process was suspended, even if nothing is to be sent."""
        while True:
            self.may_send()
            await asyncio.sleep(PULSE_SECONDS)

    async def _reread(self) -> bool:
        """The Lease was written since or deleted (both give a conflict).  Returns False if it is lost.

        A deleted Lease is created again, and its number must not start from one.
        """
        try:
            current = await self._get()
            if current is None:
                await self._try(self.fence + 1)
            else:
                self._current = current
                if not leadership.is_ours(current, identity=self._identity, fence=self.fence):
                    self._lose()  # immediately: until the next renewal we would write beside its new holder
                    return False
        except (ApiRefused, ApiUnavailable) as error:
            _log.warning("lease_delayed", reason=str(error))
        return True

    async def release(self) -> None:
        """A clean end: the next hub need not wait.  Nothing may be written afterwards."""
        self._is_given_back = True
        if not self.valid or not leadership.is_ours(self._current, identity=self._identity, fence=self.fence):
            return  # it may be our successor's
        try:
            try:
                await self._free()
            except ApiRefused as error:
                if error.status != 409:
                    raise
                # A renewal whose answer we did not wait for may have arrived; or the Lease is our successor's by now.
                self._current = await self._get() or {}
                if leadership.is_ours(self._current, identity=self._identity, fence=self.fence):
                    await self._free()
        except (ApiRefused, ApiUnavailable) as error:
            _log.warning("lease_not_released", reason=str(error))
        finally:
            self._tenure.end()

    async def _free(self) -> None:
        body, path = leadership.released(self._current), f"{self._root}/{leadership.NAME}"
        await self._kube.request("PUT", path, body, attempts=1, seconds=self.seconds_left)
        _log.info("lease_released", fence=self.fence)

    async def _get(self) -> dict[str, Any] | None:
        try:
            return _lease(await self._kube.get(f"{self._root}/{leadership.NAME}"))
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    async def _put(self, body: dict[str, Any], *, create: bool) -> None:
        started = self._clock()
        if create:
            answer = await self._kube.request("POST", self._root, body, seconds=leadership.LEASE_SECONDS)
        else:
            path = f"{self._root}/{leadership.NAME}"
            answer = await self._kube.request("PUT", path, body, seconds=leadership.LEASE_SECONDS)
        self._current = _lease(answer)
        self._tenure.renewed(started, self._clock())


def _lease(content: bytes) -> dict[str, Any]:
    """Raises ``UnreadableAnswer``: without its version we would overwrite another holder's Lease."""
    try:
        found = api_json.document(content)[0]
        header = api_json.header_of(found)
        if header.name != leadership.NAME or not header.version:
            raise Malformed("it is another document")
    except Malformed as error:
        raise UnreadableAnswer(f"the answer for the Lease {leadership.NAME} cannot be read: {error}") from None
    return found
