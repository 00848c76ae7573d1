"""`make bench`: run the benchmarks of one room or all, print one table, write bench.json; exit 0 whatever came out."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.collect import collect, modules, table
from benchmarks.goals import ROOMS

REPORT = Path(__file__).resolve().parents[1] / "bench.json"


def main() -> int:
    """Parse the command line, measure, report."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", choices=ROOMS, help="measure this room alone")
    only: str | None = parser.parse_args().only
    rows = collect(only, modules(), lambda text: print(text, file=sys.stderr, flush=True))
    REPORT.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(table(rows))
    met = sum(row["met"] for row in rows)
    print(f"\n{met} of {len(rows)} goals met; the same as JSON: {REPORT.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
