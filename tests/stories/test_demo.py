"""The whole line in one story: `make demo`, as a test. Everything else proves the parts; this proves that they meet."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.demo.record import Record
from e2e.demo.stack import ROOT

LINE = re.compile(r"demo: ok objects=(\d+) messages=(\d+) rows=(\d+) lost=0 duplicated=0 seconds=\d+")


@pytest.mark.kube
@pytest.mark.spark
@pytest.mark.faults
@pytest.mark.timeout(900)
def test_the_demo_tells_its_story_to_the_end(tmp_path: Path) -> None:
    """Objects down, a cut, two kills, a return, messages up, one row each; a picture, and nothing left running."""
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "e2e.demo", "--folder", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    counts = LINE.fullmatch(done.stdout.splitlines()[-1])
    assert done.returncode == 0 and counts, done.stdout[-8000:]
    objects, messages, rows = map(int, counts.groups())
    assert objects > 30
    assert messages == rows > 4000
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert not Record.of(folder).path.exists()
