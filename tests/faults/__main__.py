"""`make faults`: kill real processes at random, write faults.json; exit 1 when anything was lost, doubled or untrue."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from pathlib import Path

from tests.faults.collect import ROOMS, collect, held, modules, sentence

REPORT = Path(__file__).resolve().parents[2] / "faults.json"


def positive(text: str) -> int:
    """A count of at least one."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def main() -> int:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--only", choices=ROOMS, help="run this room's tests alone")
    parser.add_argument("--kills", type=positive, help="how many kills each; default: each test's full dose")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="replay a run's choices")
    options = parser.parse_args()
    results = collect(
        options.only, options.kills, options.seed, modules(), lambda text: print(text, file=sys.stderr, flush=True)
    )
    REPORT.write_text(json.dumps(results, indent=1) + "\n")
    for result in results:
        print(sentence(result))
    if not results:
        print(f"no fault test for {options.only or 'any room'} in this checkout")
    return 0 if all(held(result) for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
