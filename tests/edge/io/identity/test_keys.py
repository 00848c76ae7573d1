"""The child process answers, or says in a sentence why it did not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.joining.pki import Authority

from fairlead_edge.io.identity import keys

pytestmark = pytest.mark.process


async def test_key_request_and_signature_come_from_the_child() -> None:
    made = await keys.make(node="shop-17")
    request = x509.load_der_x509_csr(made.request)
    again = x509.load_der_x509_csr(await keys.request(made.key))
    assert request.public_key() == again.public_key()
    public = request.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    public.verify(await keys.sign(made.key, b"content"), b"content", ec.ECDSA(hashes.SHA256()))
    assert "PRIVATE" not in repr(made)
    assert serialization.load_pem_private_key(made.key, None)


async def test_what_the_child_refuses_is_its_sentence() -> None:
    with pytest.raises(keys.KeyMakerFailed, match="no private key that can be read"):
        await keys.sign(b"no key", b"content")


async def test_a_child_that_cannot_start_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(keys.KeyMakerFailed, match="cannot be started: No such file"):
        await keys.make()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(keys.KeyMakerFailed, match="exited with 1: no output"):
        await keys.make()


def test_neither_module_imports_cryptography() -> None:
    code = (
        "import sys, fairlead_edge.io.identity.keys, fairlead_edge.io.identity.identity_files;"
        "sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


async def test_the_child_says_whether_authorities_vouch_for_a_certificate(tmp_path: Path) -> None:
    one, two = Authority(tmp_path / "one"), Authority(tmp_path / "two")
    own = one.issue("hub").certificate.read_bytes()
    assert await keys.reaches(own, one.certificate.read_bytes())
    assert not await keys.reaches(own, two.certificate.read_bytes())
    with pytest.raises(keys.KeyMakerFailed, match="the hub's certificates cannot be read"):
        await keys.reaches(b"", one.certificate.read_bytes())
