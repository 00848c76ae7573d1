"""The definitions of kubeflow's Spark operator, from its Go module: pinned by go.mod and go.sum beside this.

Apache's operator is a Java program that publishes images and a Helm chart; its definition is on no registry that pins
content.  A test takes the file by FAIRLEAD_APACHE_SPARK_DEFINITION.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

MODULE = "github.com/kubeflow/spark-operator/v2"
HERE = Path(__file__).resolve().parent / "operators"
SECONDS = 240
APACHE = "FAIRLEAD_APACHE_SPARK_DEFINITION"


@functools.cache
def kubeflow() -> Path | None:
    """The folder with its definitions; None without Go, or where the module cannot be fetched (an error where
    FAIRLEAD_E2E=required)."""
    go = shutil.which("go")
    if go is None:
        return None
    done = subprocess.run(
        [go, "mod", "download", "-json", MODULE], cwd=HERE, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={**os.environ, "GOFLAGS": "-mod=readonly"}, timeout=SECONDS,
    )  # fmt: skip
    if done.returncode != 0:
        assert os.environ.get("FAIRLEAD_E2E") != "required", done.stderr
        return None
    return Path(json.loads(done.stdout)["Dir"]) / "config" / "crd" / "bases"


def apache() -> Path | None:
    """The file with the definition of Apache's SparkApplication, where it is named."""
    return Path(os.environ[APACHE]) if APACHE in os.environ else None
