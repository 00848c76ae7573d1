"""When a failed key is retried, and when it is given up for now.

    failed ─▶ delay by the delivery policy ─▶ … ─▶ none left: parked for 5 min, one retry, parked for 10 min, …

``KeyFailures`` belongs to one content of one key.  Newer content starts without failures, and so does the next session,
because a disconnect consumes no retry.
"""

from __future__ import annotations

from random import Random  # only ever seeded: same node, key and failure, same schedule

import msgspec

from fairlead_hub.cluster.content import ContentId
from fairlead_hub.settings import NodeDelivery, Reconcile
from fairlead_wire import delivery_policy


class KeyFailures(msgspec.Struct, frozen=True, gc=False):
    """How often this content failed in a row."""

    content_id: ContentId
    retries: int = 0
    """Since the start, or since it was last parked."""
    waited: float = 0.0
    previous: float = 0.0
    """Seconds before the last retry."""
    uniform: delivery_policy.Uniform | None = None
    parkings: int = 0


def retry(
    failures: KeyFailures | None,
    content_id: ContentId,
    policy: NodeDelivery,
    *,
    node: str,
    key: str,
    retry_after: float | None = None,
) -> KeyFailures | None:
    """After another failure: the content is retried after ``previous`` seconds.  None if no retries are left."""
    if failures is None:
        failures = KeyFailures(content_id)
    if failures.parkings:
        return None  # the single attempt that the schedule allowed
    # Seeded by what is sent, so that simulations are reproducible; spread by node, so that nodes do not retry in step.
    uniform = failures.uniform or delivery_policy.generator_of(policy, Random(f"{node}/{key}"))
    delay = delivery_policy.next_delay(
        policy,
        failures.retries,
        uniform=uniform,
        waited_seconds=failures.waited,
        previous_seconds=failures.previous,
        retry_after_seconds=retry_after,
    )
    if delay is None:
        return None
    return KeyFailures(content_id, failures.retries + 1, failures.waited + delay.seconds, delay.seconds, uniform)


def park(failures: KeyFailures | None, content_id: ContentId, reconcile: Reconcile) -> tuple[KeyFailures, float]:
    """Give up for now.  Also returns for how many seconds: twice as long each time, up to a limit."""
    times = failures.parkings if failures is not None else 0
    seconds = min(reconcile.parked_retry_seconds * 2**times, reconcile.parked_retry_max_seconds)
    return KeyFailures(content_id, parkings=times + 1), seconds
