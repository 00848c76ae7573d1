"""Which certificate signed which."""

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from tests.support.joining import pki

from fairlead_hub.identity import chain


def test_a_chain_leads_to_an_authority_that_is_trusted(tmp_path: Path):
    """Itself, or one that signed any of it; a namesake with another key did not."""
    root, namesake = (pki.Authority(tmp_path / name, "root") for name in ("root", "namesake"))
    low = pki.Authority(tmp_path / "low", "low", signer=root)
    [top, other, below] = [
        x509.load_pem_x509_certificate(each.certificate.read_bytes()) for each in (root, namesake, low)
    ]
    der = [each.public_bytes(Encoding.DER) for each in (top, other)]
    assert chain.leads_to([below], der[:1]) and chain.leads_to([top], der[:1])
    assert not chain.leads_to([below], der[1:]) and not chain.leads_to([below], [])
    assert chain.name(below) == "low"
    unnamed = x509.load_pem_x509_certificate(low.issue("x").certificate.read_bytes())
    assert chain.name(unnamed) == "x"
