"""`certificates.source=cert-manager`: its own definitions take what the chart renders, its own controllers issue."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509
from tests.support.kube.cert_manager import REASON, CertManager, program
from tests.support.kube.charts import CHARTS, COMBINATIONS, LONG_NAME, helm, helm_with, objects, rendered
from tests.support.kube.cluster import Cluster
from tests.support.processes import wait_until

pytestmark = [pytest.mark.process, pytest.mark.kube, pytest.mark.verify, pytest.mark.usefixtures("helm")]
RELEASE = "fairlead"
ISSUED_SECONDS = 300.0
EXPECTED = ("hub-tls", "messaging-tls", "ingest-tls", "test-tls", "edge-edge-1", f"edge-{LONG_NAME}")


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of this module's own, with cert-manager in it: others must not find its definitions."""
    if program() is None:
        pytest.skip(REASON)
    with Cluster(tmp_path_factory.mktemp("cert-manager")) as cluster:
        running = CertManager(cluster, cluster.folder).start()
        yield cluster
        running.stop()


@pytest.fixture(scope="module")
def issued(kubernetes: Cluster) -> dict[str, dict[str, Any]]:
    """Secrets of a release with authorities of its own, by the end of their names, once all are issued."""
    kubernetes.kubectl("create", "namespace", "issued")
    install(kubernetes, "issued", COMBINATIONS["cert-manager"][1])
    return wait_for(kubernetes, "issued", EXPECTED)


def install(cluster: Cluster, namespace: str, values: Any, verb: str = "install") -> None:
    arguments = (verb, RELEASE, str(CHARTS / "fairlead"), "-n", namespace, "--skip-crds")
    helm_with(values, *arguments, kubeconfig=cluster.kubeconfig)


def wait_for(cluster: Cluster, namespace: str, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Secrets by the end of their names, once cert-manager says that each of these is ready."""

    def ready() -> bool:
        found = listed(cluster, "certificate", namespace)
        done = {each["metadata"]["name"] for each in found if condition(each, "Ready") == "True"}
        return {f"{RELEASE}-{name}" for name in names} <= done

    wait_until("cert-manager issued all", ready, seconds=ISSUED_SECONDS)
    found = listed(cluster, "secret", namespace)
    return {each["metadata"]["name"].removeprefix(f"{RELEASE}-"): each["data"] for each in found}


def listed(cluster: Cluster, kind: str, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.kubectl("get", kind, "-n", namespace, "-o", "json"))["items"]
    return found


def condition(found: dict[str, Any], kind: str) -> str:
    conditions = (found.get("status") or {}).get("conditions") or []
    return next((each["status"] for each in conditions if each["type"] == kind), "")


def certificate(data: dict[str, str], key: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(data[key]))


@pytest.mark.parametrize("name", ["cert-manager", "cert-manager-issuers"])
def test_its_definitions_take_every_object(kubernetes: Cluster, name: str) -> None:
    """Strictly: an unknown field would be an error."""
    said = kubernetes.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-n", "default", "-f", "-",
        stdin=rendered(name),
    )  # fmt: skip
    assert said.count("serverside-applied") == len(objects(name))


def test_each_half_has_its_authority(issued: dict[str, dict[str, Any]]) -> None:
    """As with those that the chart makes: no edge opens messaging, and none is the hub."""
    internal, edge = (certificate(issued[f"authority-{name}"], "tls.crt") for name in ("internal", "edge"))
    for name in ("hub-tls", "messaging-tls", "ingest-tls", "test-tls"):
        certificate(issued[name], "tls.crt").verify_directly_issued_by(internal)
        assert certificate(issued[name], "ca.crt") == internal
    certificate(issued["edge-edge-1"], "tls.crt").verify_directly_issued_by(edge)
    assert internal.subject != edge.subject


def test_a_long_name_is_a_dns_name(issued: dict[str, dict[str, Any]]) -> None:
    """The first one, and there is no common name: what the hub reads then."""
    found = certificate(issued[f"edge-{LONG_NAME}"], "tls.crt")
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName)[0] == LONG_NAME
    assert not list(found.subject)


def test_an_authority_keeps_its_key_when_it_is_renewed(kubernetes: Cluster, issued: dict[str, dict[str, Any]]) -> None:
    """What it signed before is good under the new certificate, so a renewal locks no node out."""
    name = f"{RELEASE}-authority-edge"
    before = certificate(issued["authority-edge"], "tls.crt")
    soon = {"spec": {"duration": "8760h"}}
    kubernetes.kubectl("patch", "certificate", name, "-n", "issued", "--type=merge", "-p", json.dumps(soon))

    def renewed() -> x509.Certificate | None:
        [secret] = [each for each in listed(kubernetes, "secret", "issued") if each["metadata"]["name"] == name]
        found = certificate(secret["data"], "tls.crt")
        return found if found != before else None

    after = wait_until("the authority is renewed", renewed, seconds=ISSUED_SECONDS)
    assert after is not None and after.public_key() == before.public_key()
    certificate(issued["edge-edge-1"], "tls.crt").verify_directly_issued_by(after)


def test_from_the_charts_authorities_to_cert_manager(kubernetes: Cluster) -> None:
    """It takes over the authorities that are there: certificates of nodes stay good."""
    kubernetes.kubectl("create", "namespace", "moved")
    install(kubernetes, "moved", {"certificates": {"edges": ["edge-1", "edge-2"]}})
    found = {each["metadata"]["name"]: each["data"] for each in listed(kubernetes, "secret", "moved")}
    node = certificate(found[f"{RELEASE}-edge-edge-1"], "tls.crt")
    values = {"certificates": {"source": "cert-manager", "edges": ["edge-2"]}}
    install(kubernetes, "moved", values, "upgrade")
    after = wait_for(kubernetes, "moved", ("authority-edge", "authority-internal", "hub-tls", "edge-edge-2"))
    for half, signed in (("edge", "edge-edge-2"), ("internal", "hub-tls")):
        before = certificate(found[f"{RELEASE}-authority-{half}"], "tls.crt")
        authority = certificate(after[f"authority-{half}"], "tls.crt")
        assert authority.public_key() == before.public_key()
        certificate(after[signed], "tls.crt").verify_directly_issued_by(authority)
    node.verify_directly_issued_by(certificate(after["authority-edge"], "tls.crt"))
    said = helm("uninstall", RELEASE, "-n", "moved", kubeconfig=kubernetes.kubeconfig)
    assert said.returncode == 0, said.stderr
    left = {each["metadata"]["name"] for each in listed(kubernetes, "secret", "moved")}
    assert {f"{RELEASE}-authority-edge", f"{RELEASE}-authority-internal"} <= left
