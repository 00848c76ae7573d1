"""A release admits a device: the hub has its own account's rights, the volumes of its Pod, and nothing else."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from tests.support.edges.edge_agent import PROGRAM
from tests.support.hubs.hub import CRDS
from tests.support.hubs.released_hub import RELEASE, ReleasedHub, install
from tests.support.kube.cert_manager import REASON, CertManager, program
from tests.support.kube.cluster import Cluster
from tests.support.processes import wait_until

pytestmark = [pytest.mark.process, pytest.mark.kube, pytest.mark.verify, pytest.mark.usefixtures("helm")]
ISSUED_SECONDS = 300.0
COMMAND_SECONDS = 120
NODE = "shop-17"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of this module's own, with Fairlead's definitions."""
    with Cluster(tmp_path_factory.mktemp("released")) as cluster:
        cluster.apply(CRDS)
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        yield cluster


@pytest.fixture(scope="module")
def cert_manager(kubernetes: Cluster) -> Iterator[None]:
    """cert-manager in it."""
    if program() is None:
        pytest.skip(REASON)
    running = CertManager(kubernetes, kubernetes.folder).start()
    yield
    running.stop()


def fairlead(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), *arguments], input=stdin, capture_output=True, text=True, timeout=COMMAND_SECONDS
    )


def joined(cluster: Cluster, namespace: str, folder: Path) -> tuple[ReleasedHub, x509.Certificate]:
    """A device that joined the hub of this release, by the commands people use."""
    hub = ReleasedHub(cluster, namespace, folder)
    hub.start()
    try:
        command = ("token", "create", "--kubeconfig", str(cluster.kubeconfig), "--node", NODE, "--create-node")
        made = fairlead(*command, "-o", "json")
        assert made.returncode == 0, made.stderr + hub.tail()
        token: dict[str, Any] = json.loads(made.stdout)
        config = folder / "device" / "edge.toml"
        config.parent.mkdir()
        done = fairlead(
            "edge",
            "join",
            hub.url,
            "--node",
            NODE,
            "--token-file",
            "-",
            "--config",
            str(config),
            stdin=f"{token['token']}\n",
        )
        assert done.returncode == 0, done.stdout + done.stderr + hub.tail()
    finally:
        hub.stop()
        cluster.kubectl("delete", "nodes,edgenodes,jointokens,leases", "--all", "--wait=true")
    [link] = folder.glob("device/**/identity/node.pem")
    return hub, x509.load_pem_x509_certificates(link.read_bytes())[0]


def nothing_forbidden(hub: ReleasedHub) -> bool:
    assert hub.running is not None
    return " is forbidden: " not in hub.running.log.read_text()


def test_the_hub_signs_with_the_authority_it_mounts(kubernetes: Cluster, tmp_path: Path) -> None:
    """Signer `files`, which is the default; the authority that vouches for hubs is in none of its volumes."""
    install(kubernetes, "by-files", {})
    hub, certificate = joined(kubernetes, "by-files", tmp_path)
    assert nothing_forbidden(hub)
    authority = x509.load_pem_x509_certificate((tmp_path / "authority" / "tls.crt").read_bytes())
    certificate.verify_directly_issued_by(authority)
    internal = json.loads(
        kubernetes.kubectl("get", "secret", f"{RELEASE}-authority-internal", "-n", "by-files", "-o", "json")
    )
    keys = {path.read_bytes() for folder in ("tls", "authority") for path in (tmp_path / folder).glob("*")}
    assert not any(internal["data"]["tls.key"] == base64.b64encode(key).decode() for key in keys)


@pytest.mark.usefixtures("cert_manager")
def test_the_hub_asks_cert_manager(kubernetes: Cluster, tmp_path: Path) -> None:
    """Signer `cert-manager`: by the Issuer that the chart made, and the hub has no key of any authority."""
    install(kubernetes, "by-cert-manager", {"certificates": {"source": "cert-manager"}})

    def issued() -> bool:
        found = json.loads(kubernetes.kubectl("get", "certificate", "-n", "by-cert-manager", "-o", "json"))["items"]
        ready = [
            each["metadata"]["name"]
            for each in found
            for condition in (each.get("status") or {}).get("conditions") or ()
            if (condition["type"], condition["status"]) == ("Ready", "True")
        ]
        return len(ready) == len(found) and f"{RELEASE}-hub-tls" in ready

    wait_until("cert-manager issued all", issued, seconds=ISSUED_SECONDS)
    hub, certificate = joined(kubernetes, "by-cert-manager", tmp_path)
    assert nothing_forbidden(hub)
    assert not (tmp_path / "authority").exists()
    assert {path.name for path in (tmp_path / "tls").iterdir()} == {"ca.crt", "link.crt", "tls.crt", "tls.key"}
    link = x509.load_pem_x509_certificate((tmp_path / "tls" / "link.crt").read_bytes())
    certificate.verify_directly_issued_by(link)
