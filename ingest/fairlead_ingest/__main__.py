"""The entry point for ``spark-submit``: ``spark-submit --master … …/fairlead_ingest/__main__.py --config FILE``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairlead_ingest.app import run


def main() -> int:
    """Run the job as ``fairlead ingest run`` does, on the master that spark-submit chose."""
    parser = argparse.ArgumentParser(prog="fairlead_ingest")
    parser.add_argument("--config", type=Path)
    return run(parser.parse_args().config)


if __name__ == "__main__":
    sys.exit(main())
