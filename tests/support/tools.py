"""Programs of the system that some tests ask questions of: a browser, Prometheus.  `make tools` installs them.

A test that needs one is skipped where it is missing, and the reason names the remedy; `FAIRLEAD_TOOLS=required` (as in
the workflow) makes it fail instead, so that no gate passes because it looked at nothing.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

PACKAGE = {
    **{"gcc": "build-essential", "chromium": "chromium", "prometheus": "prometheus", "promtool": "prometheus"},
    **{"java": "openjdk-17-jre-headless", "mvn": "maven", "javac": "openjdk-17-jdk-headless", "setpriv": "util-linux"},
}
"""Which Debian package brings which program."""


def tool(name: str) -> Path:
    """Where the program is.  Skips the test, or fails it where tools are required."""
    if found := shutil.which(name):
        return Path(found)
    reason = f"{name} is not installed: make tools, or apt-get install {PACKAGE[name]}"
    if os.environ.get("FAIRLEAD_TOOLS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)
