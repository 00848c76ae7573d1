"""``tests/corpus/<target>/``: one file for each input; a former finding has its sentence in ``<name>.why``."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.fuzz.target import ROOT

CORPUS = ROOT / "tests" / "corpus"
GROWN = ROOT / "build" / "fuzz"
"""Inputs that reached new code at earlier runs here; the next run goes on from them."""
WHY = ".why"


def committed(target: str) -> dict[str, bytes]:
    """Committed inputs, by file name."""
    return _files(CORPUS / target)


def grown(target: str) -> dict[str, bytes]:
    """Inputs of earlier searches, by file name; empty on a fresh checkout."""
    return _files(GROWN / target)


def keep(target: str, content: bytes, folder: Path = GROWN) -> Path:
    """Store an input that reached new code."""
    return _write(folder / target / _name(content), content)


def write_finding(target: str, content: bytes, sentence: str, folder: Path = CORPUS) -> Path:
    """Write an input that stays as a regression test."""
    path = _write(folder / target / f"found-{_name(content)}", content)
    path.with_name(path.name + WHY).write_text(" ".join(sentence.split()) + "\n")
    return path


def _files(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix != WHY}


def _write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _name(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
