"""Writes of a node's identity, killed with SIGKILL at each step, and continued by a new process.

python -m tests.support.kills.identity_steps FOLDER OLD NEW → a JSON line for each kill: what was found after it

A step is a system call that changes the disk. OLD and NEW are files with a key and a certificate; OLD is in use
in each life's folder before it begins.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

from tests.support.kills import lives

from fairlead_edge.io.identity.identity_files import IdentityFiles, Pending

STEPS = [(os, name) for name in ("fchmod", "fsync", "replace", "symlink", "unlink")]


def renew(folder: Path, new: Path) -> None:
    """Every step with a new pair: the request is stored, the pair is added, used and confirmed."""
    files = IdentityFiles(folder)
    content = new.read_bytes()
    files.keep_pending(Pending(key=content, request=b"request"))
    files.use(files.add(content, content))
    files.drop_pending()
    files.confirm()


def main(folder: Path, old: Path, new: Path) -> None:
    """Kill at step 1, 2, 3 … until a life completes."""
    last = 0
    while True:
        last += 1
        place = folder / str(last)
        files = IdentityFiles(place)
        files.make_folder()
        content = old.read_bytes()
        files.use(files.add(content, content))

        act, trace = partial(renew, place, new), folder / f"{last}.trace"
        killed = lives.was_killed(lives.life(partial(lives.die_at, last, STEPS, act), trace))
        current = files.current()
        found = current.certificate.name if current else None
        ended = lives.life(act, trace) if killed else 0
        left = sorted(path.name for path in place.iterdir())
        after = files.current()
        line = {
            "step": last,
            "killed": killed,
            "found": found,
            "ended": ended,
            "trace": lives.said(trace),
            "left": left,
            "after": after.certificate.name if after else None,
        }
        print(json.dumps(line), flush=True)
        if not killed:
            return


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
