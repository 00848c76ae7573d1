"""Retries of one call: what may be repeated, after what wait, and what a refusal means the second time.

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
"""For programs that would rather wait than fail: waits for a restarting service, for a minute at most."""


def send(
    asked: ClientRequest[T], policy: DeliveryPolicy | None, uniform: Uniform
) -> Generator[ClientRequest[Any] | Pause, Any, T]:
    """The script of one request: each step is an attempt or a wait, until it is answered or ``policy`` allows no more.

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
    """The attempts of one call.  Without a policy only an idle connection that had died is replaced, once."""

    def __init__(self, asked: ClientRequest[T], policy: DeliveryPolicy | None, uniform: Uniform) -> None:
        self._asked = asked
        self._in_doubt = False
        self._reconnected = False
        self._waits = None if policy is None else Waits(policy, uniform)

    def read(self, answer: Response) -> T:
        """Raises what ``ClientRequest.read`` does."""
        return self._asked.read(answer, in_doubt=self._in_doubt)

    def after(self, failed: Failed) -> float:
        """Seconds to wait before the next attempt.  Raises ``failed`` when there is none.

        It is raised in doubt when any attempt was: that the last one reached no service says nothing about the first.
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
    """Between the attempts of one call; counts them."""

    def __init__(self, policy: DeliveryPolicy, uniform: Uniform) -> None:
        self._policy = policy
        self._uniform = uniform if policy.seed is None else delivery_policy.generator_of(policy)
        self._retries = 0
        self._waited = self._previous = 0.0

    def after(self, failed: Failed) -> float | None:
        """Seconds before the next attempt, never less than the service asked for; None: that was the last one."""
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
