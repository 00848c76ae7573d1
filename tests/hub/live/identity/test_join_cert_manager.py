"""Devices join a hub whose certificates cert-manager signs: its own controllers on a real API server."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.hubs.hub import CRDS, edge_node, fleet, until
from tests.support.joining.join_client import certificates, join, make_token
from tests.support.joining.join_site import Site, running
from tests.support.kube.cert_manager import REASON, CertManager, program
from tests.support.kube.cluster import Cluster

from fairlead_wire import message

pytestmark = [pytest.mark.process, pytest.mark.kube, pytest.mark.verify]


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of this module's own, with cert-manager in it: others must not find its definitions."""
    if program() is None:
        pytest.skip(REASON)
    with Cluster(tmp_path_factory.mktemp("join-cert-manager")) as cluster:
        cluster.apply(CRDS)
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        running = CertManager(cluster, cluster.folder).start()
        yield cluster
        running.stop()


def _issuer(site: Site) -> list[dict[str, Any]]:
    files = {"tls.crt": site.edges.certificate, "tls.key": site.edges.key}
    data = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "edges", "namespace": "default"}, "data": data}
    issuer = {
        "apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": "edges", "namespace": "default"},
        "spec": {"ca": {"secretName": "edges"}},
    }  # fmt: skip
    return [{**secret, "type": "kubernetes.io/tls"}, issuer]


async def test_a_device_joins_by_cert_manager(kube: Cluster, tmp_path: Path) -> None:
    """Without its issuer it hears what is missing; with it, it is served, and the same again is the same again."""
    site = Site(kube, tmp_path, signer='signer = "cert-manager"\nissuer = "edges"\n')
    async with running(site):
        kube.apply(edge_node("edge-1"))
        token, key = make_token(kube, node="edge-1"), ec.generate_private_key(ec.SECP256R1())
        await site.seen(token.id)
        header, _ = await join(site.url, token, roots=site.roots, key=key)
        assert isinstance(header, message.Refuse) and header.code == "csr_name"  # its request names no node
        for document in _issuer(site):
            kube.apply(document)
        issued = certificates(await join(site.url, token, roots=site.roots, node="edge-1", key=key))
        again = certificates(await join(site.url, token, roots=site.roots, node="edge-1", key=key))
        [leaf] = x509.load_pem_x509_certificates(issued.certificates.encode())
        [root] = x509.load_pem_x509_certificates(site.edges.certificate.read_bytes())
        leaf.verify_directly_issued_by(root)
        assert len(set(_requests(kube))) == 1
        assert x509.load_pem_x509_certificates(again.certificates.encode())[0].public_key() == leaf.public_key()
        async with fleet(site.hub, "edge-1", context=site.tls(issued, key)) as nodes:
            await until("it is served", nodes["edge-1"].connected.is_set)


def _requests(kube: Cluster) -> list[str]:
    found = kube.get("/apis/cert-manager.io/v1/namespaces/default/certificaterequests")
    return [each["metadata"]["name"] for each in found["items"]]


async def test_an_issuer_that_is_not_there_is_explained(kube: Cluster, tmp_path: Path) -> None:
    """The device waits, and hears why; nothing of the token is lost to it."""
    site = Site(kube, tmp_path, signer='signer = "cert-manager"\nissuer = "ClusterIssuer/missing"\n')
    async with running(site):
        token = make_token(kube, node="edge-2")
        await site.seen(token.id)
        header, _ = await join(site.url, token, roots=site.roots, node="edge-2")
        assert isinstance(header, message.Refuse) and header.code == "signer_unavailable", header
        assert "missing" in header.reason and header.retry_after is not None
