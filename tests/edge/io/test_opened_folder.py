"""The agent's folder opened with all it keeps, and closed again whatever fails."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.data_dir import DataDir
from fairlead_edge.io.opened_folder import open_folder
from fairlead_edge.settings import EdgeSettings


def _settings(folder: Path) -> EdgeSettings:
    return EdgeSettings(node="edge-1", hub_url="ws://127.0.0.1:1", data_dir=str(folder), security="insecure")


async def test_everything_is_open_and_nothing_is_encrypted_without_a_key(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        opened = await open_folder(_settings(tmp_path / "data"), stack, thorough=False)
        assert (tmp_path / "data" / "token").read_text().strip() == opened.token
        assert opened.encryption.extent == "none" and not opened.encryption.objects
        assert (tmp_path / "data" / "reserve").exists()
    DataDir(tmp_path / "data").close()


@pytest.mark.parametrize("name", ["objects.db", "outbox.db"])
async def test_a_store_that_is_none_leaves_the_folder_free(tmp_path: Path, name: str) -> None:
    """The one who mends it can start again at once: no lock stays, and the other store is closed."""
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / name).mkdir()
    with pytest.raises(StoreUnusable, match=f"{name}: cannot be opened"):
        async with contextlib.AsyncExitStack() as stack:
            await open_folder(_settings(tmp_path / "data"), stack, thorough=False)
    DataDir(tmp_path / "data").close()
