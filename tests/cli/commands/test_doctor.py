"""`fairlead doctor` as people and programs run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.processes import free_ports

from fairlead_cli.doctor.device import disk, examine
from fairlead_cli.main import build


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is judged here must not depend on how busy this machine and its disk are."""
    monkeypatch.setattr(disk, "FSYNC_PROBLEM_SECONDS", float("inf"))
    monkeypatch.setattr(examine, "LOCAL_SECONDS", 300.0)
    monkeypatch.setattr(examine, "LINK_SECONDS", 300.0)


def settings(folder: Path, *lines: str) -> Path:
    local, hub = free_ports(2)
    path = folder / "edge.toml"
    known = [
        'node = "edge-1"',
        'security = "insecure"',
        f'hub_url = "ws://127.0.0.1:{hub}"',
        f'http_listen = "127.0.0.1:{local}"',
        f'data_dir = "{folder / "data"}"',
    ]
    path.write_text("\n".join([*known, *lines]))
    return path


def test_a_problem_is_exit_1_with_its_remedy(tmp_path: Path) -> None:
    shown = CliRunner().invoke(build(), ["doctor", "--edge", "--config", str(settings(tmp_path))])
    assert shown.exit_code == 1, shown.output
    [at] = [number for number, line in enumerate(shown.output.splitlines()) if line.startswith("PROBLEM  link.tcp ")]
    assert "Connection refused" in shown.output.splitlines()[at]
    assert shown.output.splitlines()[at + 1].endswith(
        "-> check that the hub is running and that no firewall blocks this port"
    )
    assert shown.output.splitlines()[-1].endswith(" 1 problem")


def test_settings_that_cannot_be_used_are_exit_2(tmp_path: Path) -> None:
    shown = CliRunner().invoke(build(), ["doctor", "--config", str(settings(tmp_path, "colour = 1"))])
    assert shown.exit_code == 2


@pytest.mark.process
def test_a_running_agent_is_not_disturbed(tmp_path: Path) -> None:
    """It keeps its lock and store; its own account says why it has no session."""
    agent = EdgeAgent(tmp_path, "ws://127.0.0.1:1").start()
    try:
        config = settings(tmp_path)
        text = config.read_text().replace("http_listen", "# http_listen")
        config.write_text(f'{text}\nhttp_listen = "127.0.0.1:{agent.port}"\n')
        before = agent.get("/v1/status")[1]["storeEpoch"]
        shown = CliRunner().invoke(build(), ["doctor", "--edge", "--config", str(config), "-o", "json"])
        found = {each["check"]: each for each in json.loads(shown.output)["items"]}
        assert shown.exit_code == 1 and found["store.objects"]["level"] == found["store.outbox"]["level"] == "ok"
        assert "is running without a session with the hub" in found["agent"]["message"]
        assert agent.get("/v1/status")[1]["storeEpoch"] == before
    finally:
        agent.kill()
