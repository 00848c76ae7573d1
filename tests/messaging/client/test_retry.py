"""How often a call is sent."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_messaging.client import errors, requests
from fairlead_messaging.client.request import ClientRequest, Response
from fairlead_messaging.client.retry import PATIENT, Attempts
from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy

READ = requests.poll("n", "t")
WRITE = requests.publish("n", "t", [b"a"])
TWO = DeliveryPolicy(
    retries_with_no_delay=0, minimum_delay_retries=2, minimum_delay=1, maximum_delay=1, backoff_retries=0,
    maximum_delay_retries=0,
)  # fmt: skip


def attempts(call: ClientRequest[Any], policy: DeliveryPolicy | None = TWO) -> Attempts[Any]:
    return Attempts(call, policy, lambda: 0.5)


def busy(seconds: float, code: str = "overloaded") -> errors.Busy:
    return errors.Busy("busy", code=code, status=503, retry_after_seconds=seconds)


def test_the_policy_says_how_often_and_when() -> None:
    """Then the failure is the caller's."""
    trying = attempts(READ)
    failed = errors.Unreachable("x")
    assert [trying.after(failed), trying.after(failed)] == [1.0, 1.0]
    with pytest.raises(errors.Unreachable):
        trying.after(failed)


def test_retry_after_only_lengthens() -> None:
    """And only what an answer really asked for counts."""
    assert attempts(READ).after(busy(7)) == 7
    assert attempts(READ).after(busy(0.5)) == 1
    assert attempts(READ).after(errors.TimedOut("x", seconds=30)) == 1


def test_what_is_in_doubt_is_repeated_only_where_that_is_safe() -> None:
    """What surely did not happen may always be repeated."""
    for failed in (errors.TimedOut("x", seconds=1), errors.Disconnected("x"), busy(1, code="storage_failed")):
        attempts(READ).after(failed)
        with pytest.raises(type(failed)):
            attempts(WRITE).after(failed)
    assert attempts(WRITE).after(errors.Unreachable("x")) == 1
    assert attempts(WRITE).after(busy(1)) == 1


def test_a_kept_connection_that_ended_is_replaced_at_once_also_without_a_policy() -> None:
    """Once: the second time it is no accident."""
    trying = attempts(READ, None)
    assert trying.after(errors.Disconnected("x")) == 0
    with pytest.raises(errors.Disconnected):
        trying.after(errors.Disconnected("x"))
    with pytest.raises(errors.TimedOut):
        attempts(READ, None).after(errors.TimedOut("x", seconds=1))


def test_doubt_changes_what_a_refusal_means() -> None:
    """An earlier sending may have done it."""
    gone = Response(status=404, headers={}, body=b'{"error":{"code":"topic_not_found","message":""}}')
    trying = attempts(requests.delete_topic("n", "t"))
    with pytest.raises(errors.TopicMissing):
        trying.read(gone)
    trying.after(errors.Disconnected("x"))
    trying.read(gone)


def test_doubt_stays_until_the_end() -> None:
    """The connection ended, then no service was there any more: the first sending may have been done all the same."""
    trying = attempts(READ, None)
    trying.after(errors.Disconnected("x"))
    with pytest.raises(errors.Unreachable) as raised:
        trying.after(errors.Unreachable("x"))
    assert raised.value.in_doubt


def test_patience_lasts_a_minute() -> None:
    """Long enough for a service to restart, with waits of at most five seconds."""
    waits = delivery_policy.schedule(PATIENT)
    assert 45 <= delivery_policy.total_seconds(waits) <= 60
    assert max(wait.seconds for wait in waits) <= 5
