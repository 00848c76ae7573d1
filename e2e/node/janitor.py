"""Cleans up after a harness that was killed.

The harness holds the writing end of our standard input and never writes. End of file means that it has ended, however
that happened; the node's processes die with it, and a folder and cgroups are left.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from e2e.node import node

ROOT = Path(__file__).resolve().parents[2]


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start a janitor for the node in `folder`; it cleans up when its `stdin` is closed."""
    # A session of its own: Ctrl-C at the terminal must not take the one that cleans up.
    return subprocess.Popen(
        [sys.executable, "-m", "e2e.node.janitor", str(folder)],
        cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def main(folder: str) -> int:
    """Run as a program; see the module's docstring."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdin.buffer.read()
    node.remove(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
