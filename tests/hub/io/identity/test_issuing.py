"""The last checks before a signature."""

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.joining import join_cluster, pki
from tests.support.joining.join_cluster import NOW

from fairlead_hub.identity.csr import CsrRefused
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.io.identity import issuing
from fairlead_hub.io.identity.file_signer import FileSigner
from fairlead_hub.io.identity.issuing import Issuing

KEY = ec.generate_private_key(ec.SECP256R1())


def _issuing(folder: Path, *refusals: IdentityRefused | None) -> Issuing:
    authority, left = join_cluster.authority_of(folder), list(refusals)
    signer = FileSigner(authority.certificate, authority.key)
    refusal = lambda: left.pop(0) if left else None  # noqa: E731
    return Issuing(signer, installation="acme", days=2, wall=lambda: NOW, refusal=refusal)


async def test_a_new_certificate_from_now_on(tmp_path: Path):
    """For renewals: a serial number of its own, not before the identity was revoked."""
    found = _issuing(tmp_path)
    request = found.check("edge-1", pki.signing_request(KEY))
    now = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
    issued = await found.issue("edge-1", request, revoked_before=now - datetime.timedelta(seconds=9))
    assert issued.not_before == now - datetime.timedelta(seconds=9)
    assert issued.not_after == now + datetime.timedelta(days=2)
    [leaf] = x509.load_pem_x509_certificates(issued.chain)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["spiffe://acme/node/edge-1"]
    assert (await found.issue("edge-1", request)).serial != issued.serial and found.signed == 2


async def test_a_hub_that_lost_its_place_while_it_signed_gives_nothing(tmp_path: Path):
    """What was signed then is never seen."""
    deposed = IdentityRefused("signer_unavailable", "may have been replaced")
    for refusals in ((deposed,), (None, deposed)):
        found = _issuing(tmp_path, *refusals)
        with pytest.raises(IdentityRefused):
            await found.issue("edge-1", found.check("edge-1", pki.signing_request(KEY)))
        assert found.signed == 0


def test_requests_are_held_against_the_nodes_names(tmp_path: Path):
    """Of this installation."""
    with pytest.raises(CsrRefused):
        _issuing(tmp_path).check("edge-1", pki.signing_request(KEY, name="edge-2"))


def test_serial_numbers_are_drawn():
    """Positive, and of 20 bytes at most."""
    drawn = {issuing.new_serial() for _ in range(20)}
    assert len(drawn) == 20 and all(0 < each < 2**159 for each in drawn)
