"""What `make` alone prints: a newcomer's two words first."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.process
def test_help_begins_with_demo_and_test() -> None:
    """Then the daily words, then the others by name; none is left out."""
    command = ["make", "--no-print-directory", "help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    found = [line.split()[1] for line in done.stdout.splitlines()]
    assert found[:7] == ["demo", "test", "up", "down", "quick", "check", "verify"]
    assert found[7:] == sorted(found[7:])
    described = re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(found) == sorted(described)
