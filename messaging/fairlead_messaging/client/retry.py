"""Retries of a call: what may be repeated, after what wait, and what a refusal of a repeat means.

send ─→ Response ─read→ result            (a refusal may mean "done already" after a lost answer)
  └──→ Failed ─after→ seconds to wait, or the failure again: that was the last attempt
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeVar

from fairlead_messaging.client.errors import Disconnected, Failed
from fairlead_messaging.client.request import ClientRequest, Response
from fairlead_messaging.client.script import Pause
from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy, Uniform

T = TypeVar("T")

PATIENT = DeliveryPolicy(
    retries_with_no_delay=0,
    minimum_delay_retries=0,
    minimum_delay=0.1,
    maximum_delay=5,
    backoff_retries=8,
    maximum_delay_retries=100,
    retry_backoff_function="exponential",
    jitter="equal",
    total_seconds_max=60,
)
"""For programs that would rather wait up to a minute for a restarting service than fail."""


def send(
    asked: ClientRequest[T], policy: DeliveryPolicy | None, uniform: Uniform
) -> Generator[ClientRequest[Any] | Pause, Any, T]:
    """The script of a request: attempts and waits, until an attempt is answered or ``policy`` allows no more.

    Raises what ``ClientRequest.read`` does, and ``Failed``.
    """
    attempts = Attempts(asked, policy, uniform)
    while True:
        try:
            response: Response = yield asked
            return attempts.read(response)
        except Failed as failed:
            seconds = attempts.after(failed)
        yield Pause(seconds)


class Attempts(Generic[T]):
    """The attempts of a call.  Without a policy the only repeat is one for an idle connection that had been closed."""

    def __init__(self, asked: ClientRequest[T], policy: DeliveryPolicy | None, uniform: Uniform) -> None:
        self._asked = asked
        self._in_doubt = False
        self._reconnected = False
        self._waits = None if policy is None else Waits(policy, uniform)

    def read(self, answer: Response) -> T:
        """Raises what ``ClientRequest.read`` does."""
        return self._asked.read(answer, in_doubt=self._in_doubt)

    def after(self, failed: Failed) -> float:
        """Seconds to wait before the next attempt.  Raises ``failed`` if there is none.

        The error is in doubt if any attempt was: that the last one never reached the service says nothing about the
        first.
        """
        self._in_doubt = failed.in_doubt = self._in_doubt or failed.in_doubt
        if failed.in_doubt and not self._asked.repeatable:
            raise failed
        if isinstance(failed, Disconnected) and not self._reconnected:
            self._reconnected = True
            return 0.0
        seconds = None if self._waits is None else self._waits.after(failed)
        if seconds is None:
            raise failed
        return seconds


class Waits:
    """The waits between the attempts of a call."""

    def __init__(self, policy: DeliveryPolicy, uniform: Uniform) -> None:
        self._policy = policy
        self._uniform = uniform if policy.seed is None else delivery_policy.generator_of(policy)
        self._retries = 0
        self._waited = self._previous = 0.0

    def after(self, failed: Failed) -> float | None:
        """Seconds before the next attempt, at least what the service requested; None: there is none."""
        wait = delivery_policy.next_delay(
            self._policy,
            self._retries,
            uniform=self._uniform,
            waited_seconds=self._waited,
            previous_seconds=self._previous,
            retry_after_seconds=failed.retry_after_seconds if failed.answered else None,
        )
        if wait is None:
            return None
        self._retries += 1
        self._previous = wait.seconds
        self._waited += wait.seconds
        return wait.seconds
