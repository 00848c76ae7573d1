"""Requests to the service: repeated while it says "not now", and failed with a code when it is away."""

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

# A batch makes a hundred requests, and all of them again after one has failed: where every twentieth is answered "not
# now" (429, 503), the batch never ends unless that one request waits. A service that does not answer is not waited for
# here: each try may take ``request_seconds``.
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
    """Turns 'try again later' of the client into a coded reason that survives Spark's wrapping."""
    try:
        yield
    except Temporary as error:
        raise errors.Wait(errors.UNREACHABLE, str(error)) from error


def ask(question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """The answer, also of a service that says "not now" for a while. Raises ``Wait``, and what the question does."""
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
