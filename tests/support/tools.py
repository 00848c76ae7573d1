"""System programs that some tests need: a browser, Prometheus.  `make tools` installs them.

A test that needs a missing one is skipped, and the reason names the remedy; `FAIRLEAD_TOOLS=required` (as in
the workflow) makes it fail instead, so that no gate passes without having tested anything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

PACKAGE = {
    **{"gcc": "build-essential", "chromium": "chromium", "prometheus": "prometheus", "promtool": "prometheus"},
    **{"java": "openjdk-17-jre-headless", "mvn": "maven", "javac": "openjdk-17-jdk-headless", "setpriv": "util-linux"},
}
"""Which Debian package brings which program."""

NOT_FETCHED: Final = 2
"""How a builder ends that could not fetch what it builds from: no program for it, no network."""


def tool(name: str) -> Path:
    """The path of the program.  If it is missing, skips the test, or fails it if tools are required."""
    if found := shutil.which(name):
        return Path(found)
    raise absent(f"{name} is not installed: make tools, or apt-get install {PACKAGE[name]}")


def fetched(builder: Path, target: str, *arguments: str) -> Path:
    """The folder that the builder fetched.  If it is not available, skips the test, or fails it as `tool` does.

    A download that does not match its pinned checksum always fails the test.
    """
    command = [sys.executable, str(builder), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode == NOT_FETCHED:
        raise absent(f"`make {target}` cannot fetch it here: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().splitlines()[-1])


def absent(reason: str) -> BaseException:
    """Skip or fail a test without a tool that it needs."""
    if os.environ.get("FAIRLEAD_TOOLS") == "required":
        return pytest.fail.Exception(reason)
    return pytest.skip.Exception(reason)
