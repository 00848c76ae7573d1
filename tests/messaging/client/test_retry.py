"""How often a call is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest

from fairlead_messaging.client import errors, requests, script
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
    trying = attempts(READ)
    failed = errors.Unreachable("x")
    assert [trying.after(failed), trying.after(failed)] == [1.0, 1.0]
    with pytest.raises(errors.Unreachable):
        trying.after(failed)


def test_retry_after_only_lengthens() -> None:
    assert attempts(READ).after(busy(7)) == 7
    assert attempts(READ).after(busy(0.5)) == 1
    assert attempts(READ).after(errors.TimedOut("x", seconds=30)) == 1


def test_what_is_in_doubt_is_repeated_only_where_that_is_safe() -> None:
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


# --- Performing scripts, with an event loop and without.


Script = Generator[str, Any, list[str]]


def plain(steps: Script, do: Callable[[str], Any]) -> list[str]:
    return script.perform(steps, do)


def awaited(steps: Script, do: Callable[[str], Any]) -> list[str]:
    async def step(what: str) -> Any:
        await asyncio.sleep(0)
        return do(what)

    return asyncio.run(script.perform_async(steps, step))


WAYS = pytest.mark.parametrize("perform", [plain, awaited])


@WAYS
def test_each_step_gets_its_result_back(perform: Callable[..., list[str]]) -> None:
    def steps() -> Script:
        first = yield "a"
        second = yield "b"
        return [first, second]

    assert perform(steps(), str.upper) == ["A", "B"]


@WAYS
def test_a_script_may_undo_what_went_wrong(perform: Callable[..., list[str]]) -> None:
    done: list[str] = []

    def do(step: str) -> None:
        done.append(step)
        if step == "write":
            raise OSError("full")

    def steps() -> Script:
        try:
            yield "write"
        except OSError:
            yield "undo"
            raise
        return []

    with pytest.raises(OSError, match="full"):
        perform(steps(), do)
    assert done == ["write", "undo"]


@WAYS
def test_a_script_without_steps_ends_at_once(perform: Callable[..., list[str]]) -> None:
    def steps() -> Script:
        return ["nothing"]
        yield "never"

    assert perform(steps(), lambda step: None) == ["nothing"]
