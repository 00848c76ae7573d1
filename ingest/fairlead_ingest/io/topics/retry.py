"""Requests to the service: repeated while it is busy, and failed with a code if it is unavailable."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from fairlead_ingest import errors
from fairlead_messaging.client.errors import Busy
from fairlead_messaging.client.retry import Waits
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import Temporary

P = ParamSpec("P")
T = TypeVar("T")

# A batch makes a hundred requests and repeats all of them after a failure. If every twentieth is answered 429 or 503,
# the batch would never end unless single requests are retried. Time-outs are not retried here, as each may take
# ``request_seconds``.
NOT_NOW = DeliveryPolicy(
    retries_with_no_delay=0,
    minimum_delay_retries=0,
    minimum_delay=0.1,
    maximum_delay=2,
    backoff_retries=6,
    maximum_delay_retries=14,
    retry_backoff_function="exponential",
    jitter="equal",
    total_seconds_max=15,
)


@contextmanager
def reachable() -> Iterator[None]:
    """Convert the client's ``Temporary`` into ``Wait``, whose code survives Spark's wrapping."""
    try:
        yield
    except Temporary as error:
        raise errors.Wait(errors.UNREACHABLE, str(error)) from error


def ask(question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``question``, repeating it while the service is busy. Raises ``Wait`` and the errors of ``question``."""
    waits = Waits(NOT_NOW, random.random)
    while True:
        try:
            with reachable():
                return question(*args, **kwargs)
        except errors.Wait as error:
            busy = error.__cause__
            seconds = waits.after(busy) if isinstance(busy, Busy) else None
            if seconds is None:
                raise
        time.sleep(seconds)
