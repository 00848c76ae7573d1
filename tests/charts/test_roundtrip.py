"""The script of `helm test` at the port of a real hub: without a certificate no session opens."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.hubs.hub import CRDS, HubProcess
from tests.support.joining import pki
from tests.support.kube.charts import CHARTS
from tests.support.kube.cluster import Cluster

SCRIPT = CHARTS / "fairlead" / "files" / "roundtrip.py"
TEST_SECONDS = 100


@pytest.fixture
def kube(cluster: Cluster) -> Iterator[Cluster]:
    """The definitions a hub needs."""
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    yield cluster
    cluster.kubectl("delete", "leases", "--all")


@pytest.mark.parametrize("signer", ["files", "off"])
def test_it_knocks_at_the_hub(kube: Cluster, tmp_path: Path, signer: str) -> None:
    """Where devices join by tokens the hub speaks with those who show no certificate, and refuses them a session."""
    internal, edges = pki.Authority(tmp_path / "internal", "internal"), pki.Authority(tmp_path / "edge", "edge")
    server, ours = internal.issue("hub", hosts=("127.0.0.1",)), internal.issue("fairlead-test")
    top = f'tls_ca = "{internal.certificate}"\ntls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'
    toml = f'[identity]\nsigner = "{signer}"\nlink_ca = "{edges.certificate}"\nca_cert = "{edges.certificate}"\n'
    hub = HubProcess(kube, tmp_path, top=top, toml=f'{toml}ca_key = "{edges.key}"\n')
    hub.config.write_text(hub.config.read_text().replace('"insecure"', '"mtls"'))
    hub.url = hub.url.replace("ws://", "wss://")
    (tmp_path / "tls").mkdir()
    for name, path in (("ca.crt", internal.certificate), ("tls.crt", ours.certificate), ("tls.key", ours.key)):
        (tmp_path / "tls" / name).write_bytes(path.read_bytes())
    hub.start()
    try:
        environ = {"TLS": str(tmp_path / "tls"), "HUB": hub.url.partition("//")[2], "TIMEOUT_SECONDS": "60"}
        command = [sys.executable, str(SCRIPT)]
        done = subprocess.run(
            command, env={"PATH": os.defpath, **environ}, capture_output=True, text=True, timeout=TEST_SECONDS
        )
    finally:
        hub.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "hub: has a certificate of ours, and refuses a session without one",
        "hub: refuses our own certificate too: nodes have an authority of their own",
    ]
