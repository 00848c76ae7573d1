"""`cable cut edge-2` and `cable mend edge-2`: cut and restore the link of a node of the local stack.

`source .run/demo/env` defines the command. It signals the link's process and waits until the link is cut or restored.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
import tomllib
import urllib.parse
from pathlib import Path

from e2e.demo.proxy import CUT, HOST, MEND
from e2e.demo.record import Record

DONE_SECONDS = 60.0
POLL_SECONDS = 0.05


def carries(port: int) -> bool:
    """Whether the link accepts connections."""
    try:
        socket.create_connection((HOST, port), timeout=DONE_SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True


def main() -> int:
    """Parse the command line; returns 0 once the link is cut or restored."""
    parser = argparse.ArgumentParser(prog="cable", description="Cut the link of a node of the local stack, or mend it.")
    parser.add_argument("folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("word", choices=["cut", "mend"], help="cut: connections break, new ones are refused")
    parser.add_argument("node", help="edge-1, edge-2 or edge-3")
    options = parser.parse_args()
    links = {
        name.removeprefix("link-"): pid
        for name, pid in Record.of(options.folder).alive().items()
        if name.startswith("link-")
    }
    if options.node not in links:
        there = f"name one of {', '.join(sorted(links))}" if links else "make up starts some"
        print(f"cable: no link of {options.node} runs; {there}", file=sys.stderr)
        return 1
    settings = tomllib.loads((options.folder / f"{options.node}.toml").read_text())
    port = urllib.parse.urlsplit(settings["hub_url"]).port or 0
    wanted = options.word == "mend"
    os.kill(links[options.node], MEND if wanted else CUT)
    deadline = time.monotonic() + DONE_SECONDS
    while carries(port) is not wanted:
        if time.monotonic() > deadline:
            print(f"cable: the link of {options.node} did not change; make down, make up", file=sys.stderr)
            return 1
        time.sleep(POLL_SECONDS)
    print(f"{options.node}: the link is {'restored' if wanted else 'cut'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
