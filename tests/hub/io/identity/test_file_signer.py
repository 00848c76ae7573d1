"""An authority in files: used, replaced, wrong."""

import base64
import datetime
import os
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from tests.support.joining import pki

from fairlead_hub.identity import csr
from fairlead_hub.identity.signer import CertificateTemplate, SignerUnavailable
from fairlead_hub.io.identity import file_signer
from fairlead_hub.io.identity.file_signer import FileSigner, SignerFilesError
from fairlead_wire.identity import node_names

KEY = ec.generate_private_key(ec.SECP256R1())
NAMES = node_names.of("shop-17")


def _template(hours: float = 1) -> CertificateTemplate:
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return CertificateTemplate(
        names=NAMES,
        request=csr.check(pki.signing_request(KEY), NAMES),
        serial=77,
        not_before=now,
        not_after=now + datetime.timedelta(hours=hours),
    )


def _read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def _der(path: Path) -> bytes:
    return _read(path).public_bytes(Encoding.DER)


async def test_it_signs_with_the_authority_of_its_files(tmp_path: Path):
    """And says which one that is, as a metric shows it."""
    root = pki.Authority(tmp_path / "ca", "edge authority")
    signer = FileSigner(root.certificate, root.key)
    template = _template()
    issued = await signer.sign(template)
    assert issued == await signer.sign(template)
    [made] = x509.load_pem_x509_certificates(issued.chain)
    made.verify_directly_issued_by(_read(root.certificate))
    assert (issued.serial, issued.issuer) == ("4d", "edge authority")
    assert signer.authority.fingerprint == _read(root.certificate).fingerprint(hashes.SHA256()).hex()


async def test_below_a_root_the_chain_is_shown_without_it(tmp_path: Path):
    """A peer that knows the root alone can follow it; the order in the file does not matter beyond the first."""
    root = pki.Authority(tmp_path / "root", "root")
    middle = pki.Authority(tmp_path / "middle", "middle", signer=root)
    low = pki.Authority(tmp_path / "low", "low", signer=middle)
    bundle = tmp_path / "bundle.crt"
    bundle.write_bytes(b"".join(each.certificate.read_bytes() for each in (low, root, middle)))
    issued = await FileSigner(bundle, low.key, trusted=lambda: [_der(root.certificate)]).sign(_template())
    found = [each.subject.rfc4514_string() for each in x509.load_pem_x509_certificates(issued.chain)]
    assert found == ["CN=shop-17", "CN=low", "CN=middle"]


def test_what_cannot_sign_is_refused_at_the_start(tmp_path: Path):
    """By the name of the setting and its file."""
    root, other = pki.Authority(tmp_path / "ca"), pki.Authority(tmp_path / "other")
    leaf = pki.Authority(tmp_path / "leaf", is_authority=False)
    noise = tmp_path / "noise"
    noise.write_text("noise")
    large = tmp_path / "large"
    large.write_bytes(b"#" * 300_000)
    for certificate, key, text in (
        (root.certificate, other.key, "is not the key of the first certificate"),
        (leaf.certificate, leaf.key, "is not an authority"),
        (noise, root.key, f"ca_cert {noise}"),
        (root.certificate, noise, f"ca_key {noise}"),
        (tmp_path / "none", root.key, "ca_cert .*none"),
        (large, root.key, "larger than"),
    ):
        with pytest.raises(SignerFilesError, match=text):
            FileSigner(certificate, key)


def test_an_authority_that_the_link_does_not_trust_signs_nothing(tmp_path: Path):
    """Every node it signed would be refused at the door."""
    root, other = pki.Authority(tmp_path / "ca"), pki.Authority(tmp_path / "other", "other")
    with pytest.raises(SignerFilesError, match="add it to link_ca first"):
        FileSigner(root.certificate, root.key, trusted=lambda: [_der(other.certificate)])
    FileSigner(root.certificate, root.key, trusted=lambda: [_der(other.certificate), _der(root.certificate)])
    below = pki.Authority(tmp_path / "below", "below", signer=root)
    FileSigner(below.certificate, below.key, trusted=lambda: [_der(root.certificate)])


async def test_replaced_files_are_taken_whole_or_not(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Half of a new pair is on disk for a moment: the old one signs on."""
    root, new = pki.Authority(tmp_path / "ca", "old"), pki.Authority(tmp_path / "new", "new")
    signer = FileSigner(root.certificate, root.key)
    os.replace(new.certificate, root.certificate)
    signer.reload()
    assert signer.authority.name == "old" and (await signer.sign(_template())).issuer == "old"
    os.replace(new.key, root.key)
    signer.reload()
    assert signer.authority.name == "new" and (await signer.sign(_template())).issuer == "new"


async def test_a_replacement_that_cannot_be_read_in_full_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A certificate with a key of an unknown curve, and a file that vanishes between two looks at it."""
    root = pki.Authority(tmp_path / "ca", "old")
    signer, good, key = FileSigner(root.certificate, root.key), root.certificate.read_bytes(), root.key.read_bytes()
    curve = bytes.fromhex("06082a8648ce3d030107")
    der = _der(root.certificate)
    assert der.count(curve) == 1
    strange = base64.encodebytes(der.replace(curve, curve[:-1] + b"\x63"))
    root.certificate.write_bytes(b"-----BEGIN CERTIFICATE-----\n" + strange + b"-----END CERTIFICATE-----\n")
    signer.reload()
    assert (await signer.sign(_template())).issuer == "old"
    with pytest.raises(SignerFilesError, match="ca_cert"):
        FileSigner(root.certificate, root.key)
    root.certificate.write_bytes(good)

    def vanishing(path: Path) -> bytes:
        content = path.read_bytes()
        if path == root.key:
            path.unlink()
        return content

    monkeypatch.setattr(file_signer, "_read", vanishing)
    signer.reload()
    monkeypatch.undo()
    assert (await signer.sign(_template())).issuer == "old"
    root.key.write_bytes(key)
    signer.reload()
    assert (await signer.sign(_template())).issuer == "old"


async def test_what_the_link_trusts_may_come_after_the_new_pair(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Two Secrets of a Pod change at two moments: the pair that could not be used is tried again, and said once."""
    old, new = pki.Authority(tmp_path / "old", "old"), pki.Authority(tmp_path / "new", "new")
    trusted = [_der(old.certificate)]
    signer = FileSigner(old.certificate, old.key, trusted=lambda: trusted)
    old.certificate.write_bytes(new.certificate.read_bytes())
    old.key.write_bytes(new.key.read_bytes())
    for _ in range(3):
        signer.reload()
    assert signer.authority.name == "old"
    assert [record.getMessage() for record in caplog.records].count("signer_not_reloaded") == 1
    trusted.append(_der(new.certificate))
    signer.reload()
    assert signer.authority.name == "new"


async def test_no_certificate_outlives_its_authority(tmp_path: Path):
    """The times were chosen by the authority of a moment ago."""
    root = pki.Authority(tmp_path / "ca", valid=datetime.timedelta(minutes=30))
    with pytest.raises(SignerUnavailable, match="ends before"):
        await FileSigner(root.certificate, root.key).sign(_template())


async def test_openssl_takes_what_was_signed(tmp_path: Path):
    """A real handshake, both sides, with the issued chain."""
    root = pki.Authority(tmp_path / "root", "root")
    low = pki.Authority(tmp_path / "low", "low", signer=root)
    issued = await FileSigner(low.certificate, low.key).sign(_template())
    pair = tmp_path / "node.pem"
    pair.write_bytes(pki.write_key(tmp_path / "node.key", KEY).read_bytes() + issued.chain)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.verify_mode = ssl.CERT_REQUIRED
    for context in (server, client):
        context.load_cert_chain(pair)
        context.load_verify_locations(root.certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname="shop-17"),
    ]
    waiting = list(sides)
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert not waiting
    assert dict(pair[0] for pair in sides[0].getpeercert()["subject"]) == {"commonName": "shop-17"}  # type: ignore[index,misc]
