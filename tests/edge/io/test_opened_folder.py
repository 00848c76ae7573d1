"""The agent's folder opened with all it keeps, and closed again whatever fails."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead_edge.errors import NotPermitted, StoreUnusable
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


NOBODY = 65534


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that another user reaches, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        yield Path(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("name", ["outbox.db", "objects.db", "token", "lock", "identity/node.pem", "key"])
async def test_a_file_of_another_user_is_named_with_its_owner_and_the_command(open_to_all: Path, name: str) -> None:
    """Before a store is opened; what is not the agent's, as the lost+found of a disk, is no matter."""
    data, key = open_to_all / "data", open_to_all / "key"
    data.mkdir()
    (data / "lost+found").mkdir(mode=0o700)
    (data / "identity").mkdir()
    for folder in (data, data / "identity"):
        os.chown(folder, NOBODY, NOBODY)
    foreign = key if name == "key" else data / name
    foreign.write_text("of root")
    foreign.chmod(0o600)
    settings = EdgeSettings(
        node="edge-1", hub_url="wss://hub:1", data_dir=str(data), tls_ca=str(key), tls_cert=str(key), tls_key=str(key)
    ) if name == "key" else _settings(data)  # fmt: skip
    os.seteuid(NOBODY)
    try:
        with pytest.raises(NotPermitted) as refused:
            async with contextlib.AsyncExitStack() as stack:
                await open_folder(settings, stack, thorough=False)
    finally:
        os.seteuid(0)
    said = str(refused.value)
    assert f"{foreign}: Permission denied: it belongs to user root" in said
    assert said.endswith(f"chown nobody {key}" if name == "key" else f"chown -R nobody {data}"), said
