"""Lives of a program, each a fork of its own: killed with SIGKILL at a chosen step, and gone on with in the next one.

A step is a call that leaves something on a disk or asks another program: what a kill can come before or after.  The
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
    """Let this process die before or after the call that is its step number `last`; returns what counts as a step.

    Calls are named by their owner, a module or a class, and their name there.
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
    """Act until step number `last`."""
    kill_at(last, calls)
    act()


def count(calls: Iterable[tuple[Any, str]], act: Callable[[], object], into: Path) -> None:
    """Act, and write to `into` how many steps that took."""
    taken = 0

    def step() -> None:
        nonlocal taken
        taken += 1

    _watch(calls, step)
    act()
    into.write_text(str(taken))


def begin(act: Callable[[], object], trace: Path) -> int:
    """Fork and act there; the process's number, for ``end``."""
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
    """The way it ended: 0; 1 with a traceback in its `trace`; or the signal's number negative."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def life(act: Callable[[], object], trace: Path) -> int:
    """One life, and the way it ended, as of ``end``."""
    return end(begin(act, trace))


def was_killed(ended: int) -> bool:
    """Whether this is the end of a life that met its last step."""
    return ended == -signal.SIGKILL


def said(trace: Path) -> str:
    """The traceback of the last life that wrote one; empty: none did."""
    return trace.read_text() if trace.exists() else ""
