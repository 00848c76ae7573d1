"""Writes of a node's identity, killed with SIGKILL at each step, and gone on with by a new process.

python identity_steps.py FOLDER OLD NEW   →  one JSON line for each step that was the last: what was found after it

A step is a call of the system that changes the disk: the kill comes before or after it. OLD and NEW are files with a
key and a certificate; OLD is in use in each life's folder before it begins.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead_edge.io.identity.identity_files import IdentityFiles, Pending

_STEPS = ("fchmod", "fsync", "replace", "symlink", "unlink")


def kill_at(last: int) -> Callable[[], None]:
    """Let this process die before or after the call that is its step number `last`; returns what counts as a step."""
    taken = 0

    def step() -> None:
        nonlocal taken
        taken += 1
        if taken == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            step()
            answer = function(*args, **keywords)
            step()
            return answer

        return call

    for name in _STEPS:
        setattr(os, name, wrapped(getattr(os, name)))
    return step


def renew(folder: Path, new: Path) -> None:
    """All that is done with a new pair: the request is kept, the pair is added, used and confirmed."""
    files = IdentityFiles(folder)
    content = new.read_bytes()
    files.keep_pending(Pending(key=content, request=b"request"))
    files.use(files.add(content, content))
    files.drop_pending()
    files.confirm()


def life(act: Callable[[], None]) -> int:
    """Act in a process of its own; its exit code, negative where a signal ended it."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        act()
    except BaseException as error:  # noqa: BLE001 - the parent reads the exit code
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


def main(folder: Path, old: Path, new: Path) -> None:
    """Kill at step 1, 2, 3 … until a life ends by itself."""
    last = 0
    while True:
        last += 1
        place = folder / str(last)
        files = IdentityFiles(place)
        files.make_folder()
        content = old.read_bytes()
        files.use(files.add(content, content))

        def act(last: int = last, place: Path = place) -> None:
            kill_at(last)
            renew(place, new)

        killed = life(act) == -signal.SIGKILL
        current = files.current()
        found = current.certificate.name if current else None
        ended = life(lambda place=place: renew(place, new)) if killed else 0  # type: ignore[misc]
        left = sorted(path.name for path in place.iterdir())
        after = files.current()
        line = {
            "step": last,
            "killed": killed,
            "found": found,
            "ended": ended,
            "left": left,
            "after": after.certificate.name if after else None,
        }
        print(json.dumps(line), flush=True)
        if not killed:
            return


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
