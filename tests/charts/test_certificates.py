"""The chart's certificates: who vouches for whom, and that upgrades keep them."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from tests.support.charts import CHARTS, COMBINATIONS, helm, helm_with, objects
from tests.support.cluster import Cluster

pytestmark = pytest.mark.usefixtures("helm")
RELEASE = "fairlead"


def certificates(secret: dict[str, Any], key: str) -> list[x509.Certificate]:
    """The certificates of one key of a Secret."""
    return x509.load_pem_x509_certificates(base64.b64decode(secret["data"][key]))


@pytest.fixture(scope="module")
def secrets(helm: None) -> dict[str, dict[str, Any]]:
    """Secrets of the combination with edges, by the end of their names."""
    return {
        found["metadata"]["name"].removeprefix("fl-fairlead-"): found
        for found in objects("node-port")
        if found["kind"] == "Secret"
    }


def test_messaging_trusts_no_edge(secrets: dict[str, dict[str, Any]]) -> None:
    """An edge's certificate is signed by an authority that messaging does not know; the hub knows both."""
    (edge,) = certificates(secrets["edge-edge-1"], "tls.crt")
    (trusted,) = certificates(secrets["messaging-tls"], "ca.crt")
    internal, edges = certificates(secrets["hub-tls"], "ca.crt")
    assert trusted == internal
    edge.verify_directly_issued_by(edges)
    with pytest.raises(ValueError, match="Issuer"):
        edge.verify_directly_issued_by(trusted)


def test_edge_cannot_pose_as_the_hub(secrets: dict[str, dict[str, Any]]) -> None:
    """Edges trust the authority of the hub alone, which signs no edge."""
    assert certificates(secrets["edge-edge-1"], "ca.crt") == certificates(secrets["messaging-tls"], "ca.crt")
    (hub,) = certificates(secrets["hub-tls"], "tls.crt")
    hub.verify_directly_issued_by(certificates(secrets["edge-edge-1"], "ca.crt")[0])


def test_names_are_in_the_certificates(secrets: dict[str, dict[str, Any]]) -> None:
    """The hub's serves every name and address edges use; an edge's common name is its node."""
    (hub,) = certificates(secrets["hub-tls"], "tls.crt")
    names = hub.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"fl-fairlead-hub.fairlead.svc", "hub.example.com"} <= set(names.get_values_for_type(x509.DNSName))
    assert "192.0.2.7" in [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    (edge,) = certificates(secrets["edge-edge-2.site.example"], "tls.crt")
    assert edge.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "edge-2.site.example"


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The chart as an older version."""
    chart = tmp_path / "fairlead"
    shutil.copytree(CHARTS / "fairlead", chart)
    text = (chart / "Chart.yaml").read_text()
    (chart / "Chart.yaml").write_text(text.replace("version: 0.1.0\n", "version: 0.0.9\n", 1))
    return chart


@pytest.fixture
def installed(previous: Path, cluster: Cluster, namespace: str) -> Iterator[str]:
    """A release of the older chart on the real API server; nothing runs its Pods. Gives the namespace.

    Without the definitions: the cluster is the session's, and other tests own them.
    """
    install = ("install", RELEASE, str(previous), "-n", namespace, "--skip-crds")
    helm_with(COMBINATIONS["node-port"][1], *install, kubeconfig=cluster.kubeconfig)
    yield namespace
    helm("uninstall", RELEASE, "-n", namespace, kubeconfig=cluster.kubeconfig)


def held(cluster: Cluster, namespace: str) -> dict[str, dict[str, str]]:
    """Data of the release's Secrets by name."""
    found = json.loads(
        cluster.kubectl(
            "get", "secret", "-n", namespace, "-l", "app.kubernetes.io/component=certificates", "-o", "json"
        )
    )
    return {secret["metadata"]["name"]: secret["data"] for secret in found["items"]}


def test_upgrade_keeps_certificates_and_renews_what_changed(cluster: Cluster, installed: str) -> None:
    """From the previous chart version: same names, same certificates; a new host gives the hub alone a new one."""
    before = held(cluster, installed)
    upgrade = ("upgrade", RELEASE, str(CHARTS / "fairlead"), "-n", installed)
    values = json.loads(json.dumps(COMBINATIONS["node-port"][1]))
    helm_with(values, *upgrade, kubeconfig=cluster.kubeconfig)
    assert held(cluster, installed) == before
    values["hub"]["hosts"].append("198.51.100.4")
    helm_with(values, *upgrade, kubeconfig=cluster.kubeconfig)
    after = held(cluster, installed)
    assert {name for name in before if after[name] != before[name]} == {f"{RELEASE}-hub-tls"}
    assert after[f"{RELEASE}-hub-tls"]["ca.crt"] == before[f"{RELEASE}-hub-tls"]["ca.crt"]
    said = helm("rollback", RELEASE, "1", "-n", installed, kubeconfig=cluster.kubeconfig)
    assert said.returncode == 0, said.stderr


def test_stored_values_render_the_same(cluster: Cluster, installed: str) -> None:
    """Helm stores values with every number as a fraction; an upgrade that reuses them changes no setting."""
    settings = (
        "get",
        "configmap",
        "-n",
        installed,
        "-l",
        "app.kubernetes.io/part-of=fairlead",
        "-o",
        "jsonpath={..data}",
    )
    before = cluster.kubectl(*settings)
    upgrade = ("upgrade", RELEASE, str(CHARTS / "fairlead"), "-n", installed, "--reuse-values")
    done = helm(*upgrade, kubeconfig=cluster.kubeconfig)
    assert done.returncode == 0, done.stderr
    assert "hub.toml" in before
    assert cluster.kubectl(*settings) == before


def test_certificate_near_its_end_is_renewed(cluster: Cluster, installed: str) -> None:
    """Past `renew-after` an upgrade makes a new certificate from the same authority."""
    before = held(cluster, installed)
    name = f"{RELEASE}-messaging-tls"
    cluster.kubectl("annotate", "secret", "-n", installed, name, "fairlead.dev/renew-after=1", "--overwrite")
    upgrade = ("upgrade", RELEASE, str(CHARTS / "fairlead"), "-n", installed)
    helm_with(COMBINATIONS["node-port"][1], *upgrade, kubeconfig=cluster.kubeconfig)
    after = held(cluster, installed)
    assert {each for each in before if after[each] != before[each]} == {name}
