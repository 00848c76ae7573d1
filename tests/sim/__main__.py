"""``make sim``: play many seeded worlds, or replay one.

python -m tests.sim --seeds 1000
python -m tests.sim --first 5000 --seeds 1000 --only down
python -m tests.sim --seed 17 --only down
"""

from __future__ import annotations

import sys
import time
import traceback

import click
from tests.sim.worlds import WORLDS


@click.command()
@click.option("--seeds", default=200, show_default=True, help="How many worlds of each kind.")
@click.option("--first", default=0, show_default=True, help="Seed of the first of them.")
@click.option("--seed", type=int, default=None, help="Replay this one only.")
@click.option("--only", type=click.Choice(sorted(WORLDS)), default=None, help="This kind of world only.")
def main(seeds: int, first: int, seed: int | None, only: str | None) -> None:
    """Deterministic simulation of the pure cores; a failing seed is printed with the command that replays it."""
    chosen = [seed] if seed is not None else list(range(first, first + seeds))
    failed = 0
    for kind, play in WORLDS.items():
        if only not in (None, kind):
            continue
        started = time.monotonic()
        broken = []
        for one in chosen:
            try:
                play(one)
            except Exception:  # noqa: BLE001 - whatever went wrong belongs to this seed, and is printed and counted
                broken.append(one)
                click.echo(f"{kind}: seed {one} failed; replay it with: make sim SEED={one} ONLY={kind}", err=True)
                click.echo(traceback.format_exc(limit=-3), err=True)
        failed += len(broken)
        seconds = time.monotonic() - started
        click.echo(f"{kind}: {len(chosen) - len(broken)} worlds kept every law, {len(broken)} did not, {seconds:.1f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
