"""What ``spark-submit`` takes: ``spark-submit --master … …/fairlead_ingest/__main__.py --config FILE``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairlead_ingest.app import run


def main() -> int:
    """The same as ``fairlead ingest run``; the master is spark-submit's."""
    parser = argparse.ArgumentParser(prog="fairlead_ingest")
    parser.add_argument("--config", type=Path)
    return run(parser.parse_args().config)


if __name__ == "__main__":
    sys.exit(main())
