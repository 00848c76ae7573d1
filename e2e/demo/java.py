"""Finds the Java that Spark needs.  Standard library only, because this runs before anything is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

JAVA_LEAST = 17


class Missing(Exception):
    """A missing tool; the text is one sentence with what to install."""


def require_java() -> None:
    """Raise Missing when there is no Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    remedy = f"install a Java {JAVA_LEAST} runtime (Debian: apt-get install openjdk-{JAVA_LEAST}-jre-headless)"
    if java is None or not os.access(java, os.X_OK):
        raise Missing(f"needs Java for Spark and found none; {remedy} or set JAVA_HOME")
    asked = subprocess.run([java, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    found = re.search(r'version "((\d+)[^"]*)"', asked.stderr)
    version = found[1] if found else ""
    if found is None or int(found[2]) < JAVA_LEAST:
        raise Missing(f"needs Java {JAVA_LEAST} or newer for Spark, found {version or 'something else'}; {remedy}")
