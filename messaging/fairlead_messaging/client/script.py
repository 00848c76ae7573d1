"""Scripts: generators that say what to send and wait for, in which order; and the two ways to perform them.

    script ─step→ perform ─its result, or its error→ script ─→ … ─→ the script's own result

A script yields steps (a ``ClientRequest`` to send, a ``Pause``, or another that its caller knows) and does no I/O, so
the same script serves programs with an event loop (``perform_async``) and without one (``perform``).
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
    """Perform each step and return the script's result; errors of a step are thrown into the script."""
    try:
        step = next(script)
        while True:
            try:
                result = do(step)
            except BaseException as met:  # noqa: BLE001 - the script decides whether to raise it again
                step = script.throw(met)
            else:
                step = script.send(result)
    except StopIteration as end:
        found: T = end.value
        return found


async def perform_async(script: Generator[Step, Any, T], do: Callable[[Step], Awaitable[Any]]) -> T:
    """As ``perform``, awaiting each step."""
    try:
        step = next(script)
        while True:
            try:
                result = await do(step)
            except BaseException as met:  # noqa: BLE001 - the script decides whether to raise it again
                step = script.throw(met)
            else:
                step = script.send(result)
    except StopIteration as end:
        found: T = end.value
        return found
