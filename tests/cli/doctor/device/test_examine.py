"""A whole device with real broken things: what is wrong is found, and nothing else."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.support.joining.pki import Authority
from tests.support.processes import free_ports

from fairlead_cli.doctor import examination
from fairlead_cli.doctor.device import disk, examine
from fairlead_edge.io.moving.files import LeftService, MoveFiles
from fairlead_edge.settings import EdgeSettings


def found(settings: EdgeSettings) -> dict[str, str]:
    return {each.check: f"{each.level}: {each.message}" for each in examination.run(examine.checks(settings))}


def test_a_node_that_has_left(tmp_path: Path) -> None:
    """What else the settings name is not there any more, and no mistake."""
    MoveFiles(tmp_path).leave(LeftService(node="edge-1", hub="ws://hub:1", at="2026-11-24T00:00:00Z"))
    said = found(EdgeSettings(node="edge-1", hub_url="ws://hub:1", data_dir=str(tmp_path), security="insecure"))
    assert list(said) == ["service"] and "edge-1 was taken out of service at 2026-11-24T00:00:00Z" in said["service"]


def test_a_folder_that_this_user_may_not_read(tmp_path: Path) -> None:
    """One finding with the remedy, not a traceback; all else needs this folder, too."""
    (tmp_path / "left.json").mkdir()
    said = found(EdgeSettings(node="edge-1", hub_url="ws://hub:1", data_dir=str(tmp_path), security="insecure"))
    assert said == {"service": f"problem: {tmp_path}/left.json: cannot be read: Is a directory"}


def test_a_device_whose_certificate_has_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And whose key others may read, and whose hub is away; the rest is well, however busy this machine is."""
    monkeypatch.setattr(disk, "FSYNC_PROBLEM_SECONDS", float("inf"))
    monkeypatch.setattr(examine, "LOCAL_SECONDS", 300.0)
    monkeypatch.setattr(examine, "LINK_SECONDS", 300.0)
    authority = Authority(tmp_path / "pki")
    pair = authority.issue("edge-1", valid=datetime.timedelta(minutes=-1))
    pair.key.chmod(0o644)
    (tmp_path / "data").mkdir(mode=0o700)
    [local, hub] = free_ports(2)
    said = found(
        EdgeSettings(
            node="edge-1",
            hub_url=f"wss://127.0.0.1:{hub}",
            data_dir=str(tmp_path / "data"),
            http_listen=f"127.0.0.1:{local}",
            tls_ca=str(authority.certificate),
            tls_cert=str(pair.certificate),
            tls_key=str(pair.key),
        )
    )
    assert said["certificate"].startswith("problem: ") and "expired on" in said["certificate"]
    assert said["permissions.tls_key"].startswith("problem: ")
    assert "Connection refused" in said["link.tcp"]
    bad = {check for check, text in said.items() if text.startswith("problem")}
    assert bad == {"certificate", "permissions.tls_key", "link.tcp"}
    assert said["disk.write"].startswith("ok") and said["store.objects"].startswith("ok")
