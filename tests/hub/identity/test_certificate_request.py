"""What cert-manager is asked, and what its answers mean."""

import base64
import datetime
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from tests.support.joining import pki

from fairlead_hub.identity import certificate_profile, certificate_request, csr
from fairlead_hub.identity.signer import CertificateTemplate, SignerUnavailable
from fairlead_wire.identity import node_names

KEY = ec.generate_private_key(ec.SECP256R1())
NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
NAMES = node_names.of("edge-1")
TEMPLATE = CertificateTemplate(
    names=NAMES, request=csr.check(pki.signing_request(KEY, name="edge-1"), NAMES), serial=77,
    not_before=NOW, not_after=NOW + datetime.timedelta(days=2),
)  # fmt: skip


def test_the_request_carries_the_devices_own():
    """A node's purposes, the times that are wanted, the issuer of the settings."""
    found = certificate_request.body(TEMPLATE, "ClusterIssuer/edges")
    assert found["metadata"]["name"] == "fairlead-4d"
    assert found["spec"]["issuerRef"] == {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "edges"}
    assert certificate_request.issuer_reference("edges")["kind"] == "Issuer"
    assert found["spec"]["duration"] == "172800s" and found["spec"]["isCA"] is False
    pem = base64.b64decode(found["spec"]["request"])
    assert x509.load_pem_x509_csr(pem).public_bytes(Encoding.DER) == TEMPLATE.request.der
    assert certificate_request.is_same(found, TEMPLATE)
    again, other = (
        csr.check(pki.signing_request(key, name="edge-1"), NAMES)
        for key in (KEY, ec.generate_private_key(ec.SECP256R1()))
    )
    assert certificate_request.is_same(found, msgspec.structs.replace(TEMPLATE, request=again))
    assert not certificate_request.is_same(found, msgspec.structs.replace(TEMPLATE, request=other))
    assert not certificate_request.is_same({"spec": 5}, TEMPLATE)


def _document(*conditions: tuple[str, str, str], **status: Any) -> dict[str, Any]:
    said = [{"type": kind, "status": value, "reason": reason, "message": "why"} for kind, value, reason in conditions]
    return {"metadata": {"name": "fairlead-4d"}, "status": {"conditions": said, **status}}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (_document(("Denied", "True", "Policy")), "was denied"),
        (_document(("InvalidRequest", "True", "x")), "is not valid"),
        (_document(("Ready", "False", "Failed")), "failed"),
        (_document(("Ready", "True", "Issued"), certificate="no base64!"), "cannot be read"),
        (_document(("Ready", "True", "Issued"), certificate="größer"), "cannot be read"),
    ],
)
def test_what_ends_a_request_is_explained(document: dict[str, Any], text: str):
    """With cert-manager's own words."""
    with pytest.raises(SignerUnavailable, match=text):
        certificate_request.answer(document)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({}, "did not answer"),
        (_document(), "waits for approval.*cmctl approve fairlead-4d"),
        (_document(("Approved", "True", "x")), "no controller took it"),
        (_document(("Approved", "True", "x"), ("Ready", "False", "Pending")), "Pending: why"),
        ({"metadata": 5, "status": {"conditions": [7, {"type": 1}]}}, "waits for approval"),
    ],
)
def test_until_it_is_answered_it_says_what_is_missing(document: dict[str, Any], text: str):
    """For the device that waits, and the person beside it."""
    assert certificate_request.answer(document) is None
    assert re.search(text, certificate_request.waits_for(document))


def test_the_answer_is_the_certificate():
    """When it says that it is ready."""
    pem = base64.b64encode(b"pem").decode()
    assert certificate_request.answer(_document(("Ready", "True", "Issued"), certificate=pem)) == b"pem"
    assert certificate_request.answer(_document(certificate=pem)) is None


class Issuer:
    """Signs what a test wants, right or wrong."""

    def __init__(self, folder: Path) -> None:
        self.root = pki.Authority(folder, "issuer")
        self.certificate = x509.load_pem_x509_certificate(self.root.certificate.read_bytes())
        self.trusted = [self.certificate.public_bytes(Encoding.DER)]

    def signs(self, template: CertificateTemplate = TEMPLATE) -> bytes:
        key: Any = load_pem_private_key(self.root.key.read_bytes(), None)
        return certificate_profile.certificate(template, self.certificate, key).public_bytes(Encoding.PEM)


def test_a_right_certificate_is_taken_with_its_chain(tmp_path: Path):
    """Serial number and times are the issuer's; roots are left out."""
    issuer = Issuer(tmp_path)
    pem = issuer.signs()
    found = certificate_request.issued(pem + issuer.root.certificate.read_bytes(), TEMPLATE, issuer.trusted)
    assert (found.node, found.serial, found.issuer, found.chain) == ("edge-1", "4d", "issuer", pem)
    assert (found.not_before, found.not_after) == (TEMPLATE.not_before, TEMPLATE.not_after)


def test_a_wrong_certificate_is_not_given_out(tmp_path: Path):
    """Another key, another name, an authority's, too early, of an authority the link does not know."""
    issuer, change = Issuer(tmp_path), msgspec.structs.replace
    other_names = node_names.of("edge-2")
    other = csr.check(pki.signing_request(ec.generate_private_key(ec.SECP256R1())), NAMES)
    wrong: list[tuple[bytes, CertificateTemplate, list[bytes], str]] = [
        (issuer.signs(change(TEMPLATE, request=other)), TEMPLATE, issuer.trusted, "a key other than"),
        (issuer.signs(change(TEMPLATE, names=other_names)), TEMPLATE, issuer.trusted, "not the node"),
        (
            issuer.signs(),
            change(TEMPLATE, revoked_before=NOW + datetime.timedelta(seconds=1)),
            issuer.trusted,
            "revoked",
        ),
        (issuer.signs(), TEMPLATE, Issuer(tmp_path / "o").trusted, "link_ca does not trust"),
        (b"noise", TEMPLATE, [], "is not a certificate"),
        (b"", TEMPLATE, [], "is not a certificate"),
    ]
    for pem, template, trusted, text in wrong:
        with pytest.raises(SignerUnavailable, match=text):
            certificate_request.issued(pem, template, trusted)
    two = change(NAMES, dns=("edge-1", "hub"))
    with pytest.raises(SignerUnavailable, match="'hub' beside"):
        certificate_request.issued(issuer.signs(change(TEMPLATE, names=two)), TEMPLATE, issuer.trusted)
    builder = (
        x509.CertificateBuilder(issuer.certificate.subject, pki.named("edge-1"), KEY.public_key())
        .serial_number(1).not_valid_before(NOW).not_valid_after(TEMPLATE.not_after)
        .add_extension(x509.BasicConstraints(True, None), True)
    )  # fmt: skip
    key: Any = load_pem_private_key(issuer.root.key.read_bytes(), None)
    with pytest.raises(SignerUnavailable, match="of an authority"):
        made = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
        certificate_request.issued(made, TEMPLATE, issuer.trusted)
