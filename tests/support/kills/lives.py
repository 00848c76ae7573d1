"""Lives of a program, each a separate fork: killed with SIGKILL at a chosen step, and continued by the next one.

A step is a call that writes to a disk or queries another program: a kill can come before or after it.  The
parent only imports, so a life costs milliseconds.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def kill_at(last: int, calls: Iterable[tuple[Any, str]]) -> Callable[[], None]:
    """Kill this process before or after the call that is its step number `last`; returns the step counter.

    Calls are named by their owner (a module or a class) and attribute.
    """
    taken = 0

    def step() -> None:
        nonlocal taken
        taken += 1
        if taken == last:
            os.kill(os.getpid(), signal.SIGKILL)

    _watch(calls, step)
    return step


def _watch(calls: Iterable[tuple[Any, str]], step: Callable[[], None]) -> None:
    """`step` before and after each of these calls."""

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            step()
            answer = function(*args, **keywords)
            step()
            return answer

        return call

    for owner, name in calls:
        found = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
        is_class_method = isinstance(found, classmethod)
        call = wrapped(found.__func__ if is_class_method else found)
        setattr(owner, name, classmethod(call) if is_class_method else call)


def die_at(last: int, calls: Iterable[tuple[Any, str]], act: Callable[[], object]) -> None:
    """Act, and die at step number `last`."""
    kill_at(last, calls)
    act()


def count(calls: Iterable[tuple[Any, str]], act: Callable[[], object], into: Path) -> None:
    """Act, and write the number of steps to `into`."""
    taken = 0

    def step() -> None:
        nonlocal taken
        taken += 1

    _watch(calls, step)
    act()
    into.write_text(str(taken))


def begin(act: Callable[[], object], trace: Path) -> int:
    """Fork and act there; returns the process id for ``end``."""
    pid = os.fork()
    if pid:
        return pid
    code = 0
    try:
        act()
    except BaseException:  # noqa: BLE001 - the parent reads it
        trace.write_text(traceback.format_exc())
        code = 1
    os._exit(code)


def end(pid: int) -> int:
    """How it ended: 0; 1 with a traceback in its `trace`; or the negative number of the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def life(act: Callable[[], object], trace: Path) -> int:
    """One life; returns what ``end`` returns."""
    return end(begin(act, trace))


def was_killed(ended: int) -> bool:
    """Whether the life was killed at its step."""
    return ended == -signal.SIGKILL


def said(trace: Path) -> str:
    """The traceback of the last life that wrote one; empty if none did."""
    return trace.read_text() if trace.exists() else ""
