"""Authorities written into a node's folder, killed with SIGKILL at each step, and written again by a new process.

python -m tests.support.kills.authority_steps FOLDER OLD NEW   →  a JSON line for each step at which it was killed
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

from tests.support.kills import lives
from tests.support.kills.identity_steps import STEPS

from fairlead_edge.io.identity.identity_files import IdentityFiles


def main(folder: Path, old: Path, new: Path) -> None:
    """Kill at step 1, 2, 3 … until a life completes."""
    contents = {old.read_bytes(): "old", new.read_bytes(): "new"}
    last = 0
    while True:
        last += 1
        files = IdentityFiles(folder / str(last))
        files.make_folder()
        files.write_authorities(old.read_bytes())

        act = partial(files.write_authorities, new.read_bytes())
        killed = lives.was_killed(lives.life(partial(lives.die_at, last, STEPS, act), folder / f"{last}.trace"))
        found = contents.get(files.authorities.read_bytes(), "damaged")
        files.write_authorities(new.read_bytes())
        after, left = contents.get(files.authorities.read_bytes(), "damaged"), len(list(files.folder.iterdir()))
        print(json.dumps({"killed": killed, "found": found, "after": after, "left": left}), flush=True)
        if not killed:
            return


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
