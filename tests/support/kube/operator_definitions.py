"""The Prometheus operator's definitions, from its own Go module: the real schema of monitors and rules.

`go mod download` fetches the module once into Go's cache (25 MB) and verifies it against the pinned sum.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

MODULE = "github.com/prometheus-operator/prometheus-operator"
VERSION = "v0.85.0"
SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
KINDS = ("podmonitors", "prometheusrules", "servicemonitors")
DOWNLOAD_SECONDS = 600


@functools.cache
def definitions() -> list[Path]:
    """One file for each of `KINDS`.  Skips the test without Go or network; fails where tools are required."""
    if (go := shutil.which("go")) is None:
        return _without("go is not here: install Go to have the Prometheus operator's definitions")
    # The pinned sum is the check; no other place has to be asked for one.
    environ = {**os.environ, "GONOSUMDB": MODULE, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [go, "mod", "download", "-json", f"{MODULE}@{VERSION}"], cwd=folder, env=environ,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS,
        )  # fmt: skip
    if done.returncode != 0:
        return _without(
            f"{MODULE} cannot be fetched: set GOPROXY to a mirror you can reach\n{done.stdout}{done.stderr}"
        )
    found = json.loads(done.stdout)
    assert found["Sum"] == SUM, f"{MODULE}@{VERSION} has another content: {found['Sum']}"
    examples = Path(found["Dir"]) / "example" / "prometheus-operator-crd"
    return [examples / f"monitoring.coreos.com_{kind}.yaml" for kind in KINDS]


def _without(reason: str) -> list[Path]:
    if os.environ.get("FAIRLEAD_TOOLS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)
