"""Chart fairlead-edge with a token: its init container joins once, and the agent's settings find what it made."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.support.edges.edge_agent import PROGRAM
from tests.support.joining.join_hub import JoinHub
from tests.support.kube.charts import CHARTS, LONGEST_NAME, objects, pods

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]
SCRIPT = CHARTS / "fairlead-edge" / "files" / "join.py"
JOIN_SECONDS = 100


def run(folder: Path, url: str = "wss://127.0.0.1:1") -> subprocess.CompletedProcess[str]:
    """The script as its Pod has it, with folders of a test."""
    environ = {
        "PATH": f"{PROGRAM.parent}:{os.defpath}",
        "HOME": str(folder),
        "DATA": str(folder / "data"),
        "SCRATCH": str(folder),
        "TOKEN_FILE": str(folder / "token"),
        "FAIRLEAD_EDGE_NODE": "shop-17",
        "HUB_URL": url,
        "TOKEN_SECRET": "fairlead-join-shop-17",
    }
    return subprocess.run(
        [sys.executable, str(SCRIPT)], env=environ, capture_output=True, text=True, timeout=JOIN_SECONDS
    )


async def test_it_joins_once_and_then_needs_no_token(tmp_path: Path) -> None:
    """Key and certificate lie where edge.toml says; started again without the Secret, it goes on with them."""
    (tmp_path / "data").mkdir()
    async with JoinHub(tmp_path / "hub") as hub:
        (tmp_path / "token").write_text(f"{hub.token().text}\n")
        done = await asyncio.to_thread(run, tmp_path, hub.url)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "joined as shop-17" in done.stdout and hub.joins
    (tmp_path / "token").unlink()
    again = await asyncio.to_thread(run, tmp_path)
    assert (again.returncode, again.stdout) == (0, "shop-17 has its identity; no token is needed\n")
    [config] = [each["data"]["edge.toml"] for each in objects("edge-token") if "edge.toml" in (each.get("data") or {})]
    settings = tomllib.loads(config)
    made = [settings[key].replace("/data/", f"{tmp_path}/data/", 1) for key in ("tls_ca", "tls_cert", "tls_key")]
    assert all(map(os.path.isfile, made)), made


def test_without_a_token_it_says_how_to_make_one(tmp_path: Path) -> None:
    """Exit 1, so that the kubelet tries again when the Secret is there."""
    done = run(tmp_path)
    assert done.returncode == 1 and done.stderr == ""
    assert "Secret fairlead-join-shop-17" in done.stdout
    assert "fairlead token create --node shop-17" in done.stdout


def test_a_hub_that_is_away_is_no_success(tmp_path: Path) -> None:
    """The reason is the command's own, and nothing that looks like an identity is left."""
    (tmp_path / "data").mkdir()
    (tmp_path / "token").write_text(f"fl1-{'a' * 10}-{'b' * 26}-{'0' * 64}\n")
    done = run(tmp_path)
    assert done.returncode == 1 and "127.0.0.1:1 cannot be reached" in done.stderr
    assert not (tmp_path / "data" / "identity" / "node.pem").exists()


@pytest.mark.parametrize(("name", "secrets"), [("edge-token", ["fairlead-join"]), ("edge-tokens", None)])
def test_only_the_init_container_sees_the_token(name: str, secrets: list[str] | None) -> None:
    """And the Pod starts without the Secret, which goes once the node has its identity."""
    seen = []
    for spec in pods(name).values():
        [volume] = [each for each in spec["volumes"] if each["name"] == "token"]
        seen.append(volume["secret"]["secretName"])
        assert volume["secret"]["optional"] is True
        assert not any("secret" in each for each in spec["volumes"] if each is not volume)
        [agent] = spec["containers"]
        assert not any(each["name"] == "token" for each in agent["volumeMounts"])
        joining = spec["initContainers"][-1]
        assert joining["name"] == "join" and joining["securityContext"]["runAsNonRoot"] is True
    if secrets is not None:
        assert seen == secrets
    else:
        assert seen[0] == "fairlead-join-edge-1" and LONGEST_NAME[:100] in seen[1] and len(seen[1]) <= 253
