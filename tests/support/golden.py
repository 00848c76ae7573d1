"""Golden files: the output of the plugin's commands against a real API server.

    golden = Golden(folder)          one file for each command, `$ kubectl fairlead …` in its first line
    golden.check("nodes-wide", "nodes -o wide", done)

`FAIRLEAD_REWRITE=1` writes them; otherwise a difference fails with both texts.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

# What differs each time a cluster is made.
_CHANGES = (
    (re.compile(r'(uid"?: )"?[0-9a-f]{8}-[0-9a-f-]{27}"?'), r'\1"<uid>"'),
    (re.compile(r'((?:resourceVersion|creationTimestamp|created)"?: )"[^"\n]*"'), r'\1"<changes>"'),
    (re.compile(r"resourceVersion \d+, SHA-256 [0-9a-f]{12}"), "resourceVersion <changes>, SHA-256 <digest>"),
    (re.compile(r"https?://127\.0\.0\.1:\d+"), "https://<server>"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "<message id>"),
    (re.compile(r"\b20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "<time>"),
)


def normalised(text: str) -> str:
    """The text without uids, versions, addresses, message ids and current times."""
    for pattern, instead in _CHANGES:
        text = pattern.sub(instead, text)
    return text


def transcript(command: str, exit_code: int, stdout: str, stderr: str) -> str:
    """As a user would see it, with standard error if there is any, and with the exit code if it is not 0."""
    parts = [f"$ kubectl fairlead {command}\n", stdout]
    if stdout and not stdout.endswith("\n"):
        parts.append("\n")
    if stderr:
        parts += ["--- standard error\n", stderr]
    if exit_code:
        parts.append(f"--- exit code {exit_code}\n")
    return normalised("".join(parts))


def check(path: Path, text: str) -> None:
    """The file holds this text; FAIRLEAD_REWRITE=1 writes it."""
    if os.environ.get("FAIRLEAD_REWRITE"):
        path.write_text(text)
    assert path.exists(), f"{path.name} is not there: look at what the command prints, then FAIRLEAD_REWRITE=1"
    assert text == path.read_text(), f"{path.name} differs; look at it, then FAIRLEAD_REWRITE=1"
