"""Reads the folder that ``fairlead edge join`` writes; keys are not looked at."""

from __future__ import annotations

from pathlib import Path

from fairlead_cli.doctor.device.identity import IdentityFolder
from fairlead_edge.io.identity.identity_files import IdentityFiles, IdentityFilesError

JOIN = "join "
"""How the purpose of a key begins that a join has made."""


def read(data_dir: Path) -> IdentityFolder:
    """What cannot be read is said in the values; nothing is raised."""
    files = IdentityFiles.of(data_dir)
    pending = files.pending()
    try:
        current, error = files.current(), ""
    except IdentityFilesError as failure:
        current, error = None, str(failure)
    return IdentityFolder(
        link=str(files.link),
        current=current.path.name if current else "",
        error=error,
        others=len(files.others()),
        unfinished=pending is not None and pending.purpose.startswith(JOIN),
    )
