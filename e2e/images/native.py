"""Which shared libraries of the system a set of binaries needs, as the dynamic linker resolves them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

ELF = b"\x7fELF"
NEEDED = re.compile(r"(?:=> )?(/\S+) \(0x")
BATCH = 200


def binaries(folder: Path) -> list[Path]:
    """Every ELF file below a folder."""
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and _is_elf(path)]


def _is_elf(path: Path) -> bool:
    with path.open("rb") as content:
        return content.read(4) == ELF


def needed(files: Iterable[Path]) -> set[Path]:
    """Absolute paths of every library that `ldd` resolves for the files."""
    found: set[Path] = set()
    waiting = [str(file) for file in files]
    for start in range(0, len(waiting), BATCH):
        done = subprocess.run(["ldd", *waiting[start : start + BATCH]], capture_output=True, text=True)
        # A static program makes ldd answer 1 for the whole batch; what it printed for the others still holds.
        found.update(Path(match) for match in NEEDED.findall(done.stdout))
    return found
