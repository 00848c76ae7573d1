"""The chart's certificates: who vouches for whom, and that upgrades keep them."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import ssl
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID
from tests.support.kube.charts import CHARTS, COMBINATIONS, LONG_NAME, LONGEST_NAME, helm, helm_with, objects, pods
from tests.support.kube.cluster import Cluster

from fairlead_wire.io import tls

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]
RELEASE = "fairlead"
NODE_PORT = COMBINATIONS["node-port"][1]
SHORT_NAMES = {**NODE_PORT, "certificates": {"edges": ["edge-1", "edge-2.site.example"]}}
"""What the chart of before could make certificates for."""


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
    """An edge's certificate is signed by an authority that messaging does not know; the hub takes nodes by it alone."""
    (edge,) = certificates(secrets["edge-edge-1"], "tls.crt")
    (trusted,) = certificates(secrets["messaging-tls"], "ca.crt")
    (internal,) = certificates(secrets["hub-tls"], "ca.crt")
    (edges,) = certificates(secrets["hub-tls"], "link.crt")
    assert trusted == internal
    edge.verify_directly_issued_by(edges)
    with pytest.raises(ValueError, match="Issuer"):
        edge.verify_directly_issued_by(trusted)


def test_each_authority_has_a_secret_of_its_own(secrets: dict[str, dict[str, Any]]) -> None:
    """Who may read the one that signs nodes cannot sign a hub."""
    for name, signed in (("internal", "hub-tls"), ("edge", "edge-edge-1")):
        held = secrets[f"authority-{name}"]
        assert set(held["data"]) == {"tls.crt", "tls.key"}
        assert held["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        (authority,) = certificates(held, "tls.crt")
        certificates(secrets[signed], "tls.crt")[0].verify_directly_issued_by(authority)
    assert "authorities" not in secrets


def test_messaging_refuses_a_node_at_its_door(secrets: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """In a handshake, not by a name: an authority for all would let a node named like the hub in."""
    server = context(ssl.PROTOCOL_TLS_SERVER, secrets["messaging-tls"], "ca.crt", tmp_path)
    server.verify_mode = ssl.CERT_REQUIRED
    client = context(ssl.PROTOCOL_TLS_CLIENT, secrets["edge-edge-1"], "ca.crt", tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(server, client, "fl-fairlead-messaging")


@pytest.mark.parametrize("name", COMBINATIONS)
def test_no_pod_sees_a_key_it_does_not_sign_with(name: str) -> None:
    """The hub that signs has the key of edge nodes' authority; the one that vouches for hubs is in no Pod at all."""
    for pod, spec in pods(name).items():
        for secret, keys in mounted(spec).items():
            assert not secret.endswith("-authority-internal") and not secret.endswith("-authorities"), pod
            if secret.endswith("-authority-edge"):
                signer = hub_settings(name)["identity"]["signer"]
                assert pod.endswith("-hub") and keys == (None if signer == "files" else {"tls.crt"}), (pod, keys)
    for volume in pods(name).get("fl-fairlead-hub", {}).get("volumes", []):
        if volume["name"] == "authority":
            assert volume["secret"]["defaultMode"] == 0o400


def mounted(spec: dict[str, Any]) -> dict[str, set[str] | None]:
    """Secrets of a Pod, each with the keys that it sees; None: all."""
    found: dict[str, set[str] | None] = {}
    for volume in spec["volumes"]:
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        for secret in (each["secret"] for each in sources if "secret" in each):
            items = secret.get("items")
            found[secret.get("secretName") or secret["name"]] = {each["key"] for each in items} if items else None
    return found


def hub_settings(name: str) -> dict[str, Any]:
    """hub.toml of a combination."""
    [config] = [each for each in objects(name) if "hub.toml" in (each.get("data") or {})]
    return tomllib.loads(config["data"]["hub.toml"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("defaults", {"signer": "files", "url": "wss://fl-fairlead-hub.fairlead.svc:10000"}),
        ("node-port", {"signer": "files", "url": "wss://192.0.2.7:30900"}),
        ("load-balancer", {"signer": "files", "url": None}),
        ("cert-manager", {"signer": "cert-manager", "issuer": "fl-fairlead-edge", "ca_key": None}),
        ("cert-manager-issuers", {"signer": "cert-manager", "issuer": "shops"}),
        ("existing-certificates", {"signer": "off", "link_ca": None, "ca_key": None, "url": None}),
        (
            "existing-authority",
            {
                "signer": "files",
                "link_ca": "/etc/fairlead/authority/tls.crt",
                "certificate_days": 30,
                "late_days": 0,
                "installation": "shops.example.com",
                "url": "wss://hub.example.com:443",
            },
        ),
    ],
)
def test_the_hub_is_told_who_signs_nodes(name: str, expected: dict[str, Any]) -> None:
    """By the source of certificates, unless the values say otherwise; the authority it believes signs."""
    identity = {"link_ca": "/etc/fairlead/tls/link.crt", **expected}
    found = hub_settings(name)["identity"]
    assert {key: found.get(key) for key in identity} == identity


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


@pytest.mark.parametrize("node", ["edge-1", LONG_NAME, LONGEST_NAME], ids=["short", "long", "longest"])
def test_a_node_is_known_by_any_long_name(secrets: dict[str, dict[str, Any]], node: str, tmp_path: Path) -> None:
    """A common name ends at 64 characters, a node's name at 253: the hub reads it off a real handshake all the same."""
    [name] = [
        volume["secret"]["secretName"]
        for spec in pods_of_nodes(node).values()
        for volume in spec["volumes"]
        if "secret" in volume
    ]
    assert len(name) <= 253
    edge, hub = secrets[name.removeprefix("fl-fairlead-")], secrets["hub-tls"]
    server = context(ssl.PROTOCOL_TLS_SERVER, hub, "link.crt", tmp_path)
    server.verify_mode = ssl.CERT_REQUIRED
    client = context(ssl.PROTOCOL_TLS_CLIENT, edge, "ca.crt", tmp_path)
    assert tls.peer_name(shaken_hands(server, client, "fl-fairlead-hub")) == node


def pods_of_nodes(*nodes: str) -> dict[str, dict[str, Any]]:
    """Pods of chart fairlead-edge for these nodes, with the Secrets of the release."""
    values = {"certificates": {"nodes": list(nodes), "secretPrefix": "fl-fairlead-edge-"}}
    text = helm_with(values, "template", "fl-edge", str(CHARTS / "fairlead-edge"))
    made = [each for each in yaml.safe_load_all(text) if each and each["kind"] == "DaemonSet"]
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in made}


def context(protocol: ssl._SSLMethod, secret: dict[str, Any], trusted: str, folder: Path) -> ssl.SSLContext:
    """One side of a handshake, with the files of a Secret as its program has them."""
    made = ssl.SSLContext(protocol)
    for key in ("tls.crt", "tls.key"):
        (folder / key).write_bytes(base64.b64decode(secret["data"][key]))
    made.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    made.load_verify_locations(cadata=base64.b64decode(secret["data"][trusted]).decode())
    return made


def shaken_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> Any:
    """What the server knows of the client after a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_server = server.wrap_bio(to_server, to_client, server_side=True)
    at_client = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(4):
        for side in (at_client, at_server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return at_server.getpeercert()


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The chart as an older version."""
    chart = tmp_path / "fairlead"
    shutil.copytree(CHARTS / "fairlead", chart)
    text = (chart / "Chart.yaml").read_text()
    (chart / "Chart.yaml").write_text(text.replace("version: 0.1.0\n", "version: 0.0.9\n", 1))
    return chart


@pytest.fixture
def one_secret(previous: Path) -> Path:
    """The chart as it was when both authorities' keys lay in one Secret."""
    shutil.copy(Path(__file__).parent / "before" / "certificates.yaml", previous / "templates")
    shared = previous / "templates" / "_certificates.tpl"
    text = shared.read_text()
    link = '{{- $_ := set $made "link_ca" "/etc/fairlead/tls/link.crt" -}}\n'
    assert link in text
    shared.write_text(text.replace(link, ""))
    return previous


@pytest.mark.verify
@pytest.mark.usefixtures("one_secret")
def test_an_upgrade_takes_the_keys_out_of_the_one_secret(cluster: Cluster, installed: str) -> None:
    """The same authorities in two Secrets, every certificate kept, no node locked out; a rollback finds what it had."""
    before = held(cluster, installed)
    old = before.pop(f"{RELEASE}-authorities")
    assert set(old) == {"internal.crt", "internal.key", "edge.crt", "edge.key"}
    upgrade = ("upgrade", RELEASE, str(CHARTS / "fairlead"), "-n", installed)
    values = SHORT_NAMES
    for _ in range(2):
        helm_with(values, *upgrade, kubeconfig=cluster.kubeconfig)
        after = held(cluster, installed)
        assert after.pop(f"{RELEASE}-authorities") == {k: v for k, v in old.items() if k.endswith(".crt")}
        for name in ("internal", "edge"):
            kept = after.pop(f"{RELEASE}-authority-{name}")
            assert kept == {"tls.crt": old[f"{name}.crt"], "tls.key": old[f"{name}.key"]}
        hub = after[f"{RELEASE}-hub-tls"]
        assert (hub.pop("ca.crt"), hub.pop("link.crt")) == (old["internal.crt"], old["edge.crt"])
        assert hub == {key: before[f"{RELEASE}-hub-tls"][key] for key in ("tls.crt", "tls.key")}
        assert {n: d for n, d in after.items() if n != f"{RELEASE}-hub-tls"} == {
            n: d for n, d in before.items() if n != f"{RELEASE}-hub-tls"
        }
    said = helm("rollback", RELEASE, "1", "-n", installed, kubeconfig=cluster.kubeconfig)
    assert said.returncode == 0, said.stderr
    assert held(cluster, installed)[f"{RELEASE}-authorities"] == old
    helm_with(values, *upgrade, kubeconfig=cluster.kubeconfig)
    assert set(held(cluster, installed)[f"{RELEASE}-authorities"]) == {"internal.crt", "edge.crt"}


@pytest.fixture
def installed(previous: Path, cluster: Cluster, namespace: str) -> Iterator[str]:
    """A release of the older chart on the real API server; nothing runs its Pods. Gives the namespace.

    Without the definitions: the cluster is the session's, and other tests own them.
    """
    install = ("install", RELEASE, str(previous), "-n", namespace, "--skip-crds")
    helm_with(SHORT_NAMES, *install, kubeconfig=cluster.kubeconfig)
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
    values = json.loads(json.dumps(SHORT_NAMES))
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
    helm_with(SHORT_NAMES, *upgrade, kubeconfig=cluster.kubeconfig)
    after = held(cluster, installed)
    assert {each for each in before if after[each] != before[each]} == {name}


@pytest.mark.verify
@pytest.mark.parametrize("half", ["edge", "internal"])
def test_an_authority_is_replaced_with_overlap(cluster: Cluster, installed: str, half: str) -> None:
    """Its Secret deleted, its certificate a value: nothing that it signed is locked out, and the new one signs all."""
    before = held(cluster, installed)
    former = base64.b64decode(before[f"{RELEASE}-authority-{half}"]["tls.crt"]).decode()
    cluster.kubectl("delete", "secret", "-n", installed, f"{RELEASE}-authority-{half}")
    upgrade = ("upgrade", RELEASE, str(CHARTS / "fairlead"), "-n", installed)
    certificates_of = {**SHORT_NAMES["certificates"], "formerAuthorities": {half: former}}
    values = {**SHORT_NAMES, "certificates": certificates_of}
    for _ in range(2):
        helm_with(values, *upgrade, kubeconfig=cluster.kubeconfig)
        after = held(cluster, installed)
        signed, believes = {"edge": ("edge-edge-1", "link.crt"), "internal": ("hub-tls", "ca.crt")}[half]
        new, old = certificates({"data": after[f"{RELEASE}-hub-tls"]}, believes)
        assert old == x509.load_pem_x509_certificate(former.encode()) and new != old
        certificates({"data": before[f"{RELEASE}-{signed}"]}, "tls.crt")[0].verify_directly_issued_by(old)
        certificates({"data": after[f"{RELEASE}-{signed}"]}, "tls.crt")[0].verify_directly_issued_by(new)
    node = after[f"{RELEASE}-edge-edge-1"]
    assert len(certificates({"data": node}, "ca.crt")) == (2 if half == "internal" else 1)
    helm_with(SHORT_NAMES, *upgrade, kubeconfig=cluster.kubeconfig)
    done = held(cluster, installed)
    assert certificates({"data": done[f"{RELEASE}-hub-tls"]}, believes) == [new]
    certificates({"data": done[f"{RELEASE}-{signed}"]}, "tls.crt")[0].verify_directly_issued_by(new)
