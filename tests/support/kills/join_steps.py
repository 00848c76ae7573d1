"""`fairlead edge join`, killed with SIGKILL at each step, and given again: what people do after a power cut.

python -m tests.support.kills.join_steps URL TOKEN FOLDER   →  one JSON line for each step that was the last

A step is a call of the system that changes the disk, or a frame to the hub: the kill comes before or after it. The
parent only imports; each life is a fork of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.support.kills import identity_steps

from fairlead_edge.io.identity import join
from fairlead_edge.io.identity.identity_files import IdentityFiles
from fairlead_edge.io.identity.joining import Joining
from fairlead_wire.identity import join_token


def act(url: str, token: str, folder: Path, last: int) -> None:
    """One command, which dies at step number ``last``; 0: it lives."""
    wanted = join.Wanted(url=url, token=join_token.parse(token), config=folder / "edge.toml")
    if last:
        step = identity_steps.kill_at(last)
        ask = Joining.ask

        async def asked(self: Joining, *arguments: Any) -> Any:
            step()
            answer = await ask(self, *arguments)
            step()
            return answer

        setattr(Joining, "ask", asked)  # noqa: B010
    asyncio.run(join.join(wanted, {"PATH": os.environ["PATH"]}, lambda *_: None))


def life(url: str, token: str, folder: Path, last: int) -> tuple[int, str]:
    """How it ended (0, or the signal's number negative), and its error."""
    errors = folder.with_suffix(".error")
    pid = os.fork()
    if pid:
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return ended, errors.read_text() if ended == 1 else ""
    try:
        act(url, token, folder, last)
    except BaseException as error:  # noqa: BLE001 - the parent reads it
        errors.write_text(f"{type(error).__name__}: {error}")
        os._exit(1)
    os._exit(0)


def main(url: str, token: str, place: Path) -> None:
    """Kill at step 1, 2, 3 … until a life ends by itself."""
    last, killed = 0, True
    while killed:
        last += 1
        folder = place / str(last)
        folder.mkdir(parents=True)
        killed = life(url, token, folder, last)[0] == -signal.SIGKILL
        ended, error = life(url, token, folder, 0)
        files = IdentityFiles.of(folder / "edge-data")
        current = files.current()
        line = {
            "step": last,
            "killed": killed,
            "ended": ended,
            "error": error,
            "chain": files.chain(current).decode() if current else "",
            "settings": (folder / "edge.toml").read_text(),
            "left": sorted(os.listdir(files.folder)),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    _, url, token, folder = sys.argv
    main(url, token, Path(folder))
