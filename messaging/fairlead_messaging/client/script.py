"""Scripts: what is sent and waited for, and in which order, as generators; and the two ways to perform them.

    script ─step→ perform ─its result, or its error→ script ─→ … ─→ the script's own result

A script yields steps (a ``ClientRequest`` to send, a ``Pause``, or what its caller understands) and never acts itself,
so one script serves programs with an event loop (``perform_async``) and without (``perform``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

Step = TypeVar("Step")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


def perform(script: Generator[Step, Any, T], do: Callable[[Step], Any]) -> T:
    """The script's result; errors of a step are thrown into the script, which may undo what was done."""
    try:
        step = next(script)
        while True:
            try:
                result = do(step)
            except BaseException as met:  # noqa: BLE001 - the script raises it again
                step = script.throw(met)
            else:
                step = script.send(result)
    except StopIteration as end:
        found: T = end.value
        return found


async def perform_async(script: Generator[Step, Any, T], do: Callable[[Step], Awaitable[Any]]) -> T:
    """As ``perform``, with steps that are awaited."""
    try:
        step = next(script)
        while True:
            try:
                result = await do(step)
            except BaseException as met:  # noqa: BLE001 - the script raises it again
                step = script.throw(met)
            else:
                step = script.send(result)
    except StopIteration as end:
        found: T = end.value
        return found
