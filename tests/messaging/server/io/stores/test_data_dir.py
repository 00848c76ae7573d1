"""The lock: who has the folder, and who has it no longer."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.data_dir import ServiceDataDir

SINCE = "2026-11-22T10:00:00+00:00"


def test_the_second_names_the_first(tmp_path: Path) -> None:
    """Its process, since when, and what to do."""
    first = ServiceDataDir(tmp_path, SINCE)
    with pytest.raises(StorageError, match=re.escape(f"process {os.getpid()} since {SINCE}; stop that, or")):
        ServiceDataDir(tmp_path, SINCE)
    first.close()
    ServiceDataDir(tmp_path, SINCE).close()


def test_a_folder_that_went_and_came(tmp_path: Path) -> None:
    """Ours, gone, another's, ours again."""
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    held = ServiceDataDir(folder, SINCE)
    assert held.is_ours()
    folder.rename(elsewhere)
    assert not held.is_ours()
    ServiceDataDir(folder, SINCE).close()
    assert not held.is_ours()
    (folder / "lock").unlink()
    folder.rmdir()
    elsewhere.rename(folder)
    assert held.is_ours()
    held.close()


def test_what_cannot_be_had_is_said(tmp_path: Path) -> None:
    """A file where the folder should be."""
    (tmp_path / "data").write_text("")
    with pytest.raises(StorageError, match="data_dir"):
        ServiceDataDir(tmp_path / "data", SINCE)
