"""Patience with one node: how long until a failed key is tried again, and when it is given up for now.

    failed ─▶ delay by the delivery policy ─▶ … ─▶ none left: parked for 5 min, then once more, for 10 min, …

Forgotten when something newer is wanted, when a send succeeds, and with the session: a disconnect consumes no retry.
"""

from __future__ import annotations

from random import Random  # only ever seeded: same node, key and failure, same schedule

import msgspec

from fairlead_hub.cluster.content import ContentId
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.settings import Delivery, Reconcile
from fairlead_wire import delivery


class _Try(msgspec.Struct):
    """How often one key failed in a row, and what failed last."""

    retries: int
    waited: float
    previous: float
    uniform: delivery.Uniform
    failed_as: ContentId | None = None


class Backoff:
    """See the module.  Costs a few empty dicts while nothing fails."""

    __slots__ = ("_node", "_parkings", "_reconcile", "_tries", "parked")

    def __init__(self, node: str, reconcile: Reconcile) -> None:
        self.parked: dict[str, Parked] = {}
        self._node = node
        self._reconcile = reconcile
        self._tries: dict[str, _Try] = {}
        self._parkings: dict[str, int] = {}
        """How often each key was parked in a row."""

    def failed(self, key: str, policy: Delivery, content: ContentId, retry_after: float | None) -> float | None:
        """Seconds until it is tried again; None: it has been tried often enough.  ``content`` names what failed."""
        if key in self._parkings:
            return None  # the one try that the schedule allowed
        tried = self._tries.get(key)
        if tried is None:
            # Seeded by what is sent, so that a simulation replays; spread by node, so that nodes do not march in step.
            generator = Random(f"{self._node}/{key}")
            tried = self._tries[key] = _Try(0, 0.0, 0.0, delivery.generator_of(policy, generator))
        delay = delivery.next_delay(
            policy,
            tried.retries,
            uniform=tried.uniform,
            waited_seconds=tried.waited,
            previous_seconds=tried.previous,
            retry_after_seconds=retry_after,
        )
        if delay is None:
            return None
        tried.retries += 1
        tried.waited += delay.seconds
        tried.previous = delay.seconds
        tried.failed_as = content
        return delay.seconds

    def retries(self, key: str) -> int:
        tried = self._tries.get(key)
        return 0 if tried is None else tried.retries

    def is_retrying(self, key: str, content: ContentId | None) -> bool:
        """Did exactly this fail last?"""
        tried = self._tries.get(key)
        return tried is not None and tried.failed_as == content

    def park(self, parked: Parked, now: float) -> Parked:
        """Give it up for now; returns it with the time of the next try."""
        times = self._parkings.get(parked.key, 0)
        self._parkings[parked.key] = times + 1
        wait = min(self._reconcile.parked_retry_seconds * 2**times, self._reconcile.parked_retry_max_seconds)
        self._tries.pop(parked.key, None)
        self.parked[parked.key] = parked = msgspec.structs.replace(parked, next_retry_at=now + wait)
        return parked

    def unpark(self, key: str, *, scheduled: bool) -> Parked:
        """It is tried again: once when that is by schedule, with all its retries when something changed."""
        if not scheduled:
            self._parkings.pop(key, None)
        return self.parked.pop(key)

    def renew(self, key: str) -> None:
        """What failed is not what is wanted any more: all retries again."""
        self._tries.pop(key, None)

    def forget(self, key: str) -> None:
        """It succeeded, or nothing is to be done for it."""
        self._tries.pop(key, None)
        self._parkings.pop(key, None)

    def due(self, now: float) -> list[str]:
        """Parked keys whose time has come."""
        return [key for key, parked in self.parked.items() if parked.next_retry_at <= now]

    def next_due(self) -> float | None:
        return min((parked.next_retry_at for parked in self.parked.values()), default=None)
