"""Performing scripts, with an event loop and without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest

from fairlead_messaging.client import script

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
    """And the script's result is the caller's."""

    def steps() -> Script:
        first = yield "a"
        second = yield "b"
        return [first, second]

    assert perform(steps(), str.upper) == ["A", "B"]


@WAYS
def test_a_script_may_undo_what_went_wrong(perform: Callable[..., list[str]]) -> None:
    """It meets the error where it yielded the step."""
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
    """With its result."""

    def steps() -> Script:
        return ["nothing"]
        yield "never"

    assert perform(steps(), lambda step: None) == ["nothing"]
