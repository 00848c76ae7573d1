"""`fairlead edge join`, killed with SIGKILL at each step, and run again, as users do after a power cut.

python -m tests.support.kills.join_steps URL TOKEN FOLDER   →  one JSON line for each step at which it was killed

A step is a system call that changes the disk, or a frame to the hub.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.kills import lives
from tests.support.kills.identity_steps import STEPS

from fairlead_edge.io.identity import join
from fairlead_edge.io.identity.identity_files import IdentityFiles
from fairlead_edge.io.identity.join_client import JoinClient
from fairlead_wire.identity import join_token


def act(url: str, token: str, folder: Path, last: int) -> None:
    """One command, killed at step number ``last``; 0: not killed."""
    wanted = join.JoinOptions(url=url, token=join_token.parse(token), config=folder / "edge.toml")
    if last:
        step = lives.kill_at(last, STEPS)
        ask = JoinClient.ask

        async def asked(self: JoinClient, *arguments: Any) -> Any:
            step()
            answer = await ask(self, *arguments)
            step()
            return answer

        setattr(JoinClient, "ask", asked)  # noqa: B010
    asyncio.run(join.join(wanted, {"PATH": os.environ["PATH"]}, lambda *_: None))


def main(url: str, token: str, place: Path) -> None:
    """Kill at step 1, 2, 3 … until a life completes."""
    last, killed = 0, True
    while killed:
        last += 1
        folder = place / str(last)
        folder.mkdir(parents=True)
        killed = lives.was_killed(lives.life(partial(act, url, token, folder, last), place / f"{last}.killed"))
        trace = place / f"{last}.trace"
        ended = lives.life(partial(act, url, token, folder, 0), trace)
        files = IdentityFiles.of(folder / "edge-data")
        current = files.current()
        line = {
            "step": last,
            "killed": killed,
            "ended": ended,
            "error": lives.said(trace),
            "chain": files.chain(current).decode() if current else "",
            "settings": (folder / "edge.toml").read_text(),
            "left": sorted(os.listdir(files.folder)),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    _, url, token, folder = sys.argv
    main(url, token, Path(folder))
