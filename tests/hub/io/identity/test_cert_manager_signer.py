"""cert-manager's side is played here: answers now, later, never, or in the middle of a watch that breaks."""

from __future__ import annotations

import base64
import copy
import datetime
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from tests.support.joining import pki

from fairlead_hub.identity import certificate_request, csr
from fairlead_hub.identity.certificate_profile import certificate
from fairlead_hub.identity.signer import CertificateTemplate, SignerUnavailable
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_hub.io.identity import cert_manager_signer
from fairlead_hub.io.identity.cert_manager_signer import CertManagerSigner
from fairlead_wire.identity import node_names

KEY = ec.generate_private_key(ec.SECP256R1())
NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
NAMES = node_names.of("edge-1")
TEMPLATE = CertificateTemplate(
    names=NAMES, request=csr.check(pki.signing_request(KEY, name="edge-1"), NAMES), serial=77,
    not_before=NOW, not_after=NOW + datetime.timedelta(days=2),
)  # fmt: skip
Change = Callable[[dict[str, Any]], None]


class Api:
    """An API server with requests in one namespace; ``changes`` are made one after the other while it is watched."""

    def __init__(self, *changes: Change | Exception) -> None:
        self.changes = list(changes)
        self.document: dict[str, Any] = {}
        self.created = 0

    async def request(self, method: str, path: str, body: Any = None, **_: Any) -> bytes:
        assert method == "POST" and path.endswith("/namespaces/fairlead/certificaterequests")
        if self.changes and isinstance(self.changes[0], ApiRefused):
            raise self.changes.pop(0)  # type: ignore[misc]
        if self.document:
            raise ApiRefused(409, "it exists")
        self.created += 1
        self.document = copy.deepcopy(body)
        self.document["metadata"]["resourceVersion"] = "1"
        return msgspec.json.encode(self.document)

    async def get(self, path: str, **_: str) -> bytes:
        assert path.endswith("/certificaterequests/fairlead-4d")
        return msgspec.json.encode(self.document)

    async def lines(self, path: str, params: dict[str, str], *_: Any) -> AsyncGenerator[bytes, None]:
        assert params["fieldSelector"] == "metadata.name=fairlead-4d"
        if not self.changes:
            return
        change = self.changes.pop(0)
        if isinstance(change, Exception):
            raise change
        change(self.document)
        yield msgspec.json.encode({"type": "MODIFIED", "object": self.document})


class Issuer:
    def __init__(self, folder: Path) -> None:
        self.root = pki.Authority(folder, "issuer")
        self.certificate = x509.load_pem_x509_certificate(self.root.certificate.read_bytes())
        self.trusted = [self.certificate.public_bytes(Encoding.DER)]

    def signs(self, document: dict[str, Any]) -> None:
        key: Any = load_pem_private_key(self.root.key.read_bytes(), None)
        made = certificate(TEMPLATE, self.certificate, key).public_bytes(Encoding.PEM)
        document["status"] = {"certificate": base64.b64encode(made).decode(), "conditions": [_condition("Ready")]}


def _condition(kind: str, value: str = "True", reason: str = "x") -> dict[str, str]:
    return {"type": kind, "status": value, "reason": reason, "message": "why"}


def _says(*conditions: dict[str, str]) -> Change:
    def change(document: dict[str, Any]) -> None:
        document["status"] = {"conditions": list(conditions)}

    return change


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cert_manager_signer, "AGAIN_SECONDS", 0.0)


def _signer(kube: Any, issuer: Issuer, seconds: float = 60.0) -> CertManagerSigner:
    return CertManagerSigner(
        kube, namespace="fairlead", issuer="edges", trusted=lambda: issuer.trusted, seconds_left=lambda: 10.0,
        answer_seconds=seconds,
    )  # fmt: skip


async def test_approved_signed_given(tmp_path: Path):
    """Also when a watch ends or breaks in between."""
    issuer = Issuer(tmp_path)
    api = Api(_says(_condition("Approved")), ApiUnavailable("the watch broke"), issuer.signs)
    signer = _signer(api, issuer)
    assert signer.takes_names and not signer.authority.name and not signer.authority.fingerprint
    issued = await signer.sign(TEMPLATE)
    assert (issued.node, issued.issuer) == ("edge-1", "issuer") and not api.changes
    assert await signer.sign(TEMPLATE) == issued and api.created == 1


async def test_denied_and_failed_are_said_at_once(tmp_path: Path):
    """In cert-manager's words; the device need not come soon."""
    for condition in (_condition("Denied"), _condition("InvalidRequest"), _condition("Ready", "False", "Failed")):
        with pytest.raises(SignerUnavailable, match="why") as caught:
            await _signer(Api(_says(condition)), Issuer(tmp_path)).sign(TEMPLATE)
        assert caught.value.retry_after_seconds == certificate_request.REFUSED_RETRY_SECONDS


async def test_what_nobody_answers_ends_in_time(tmp_path: Path):
    """With what it waits for; the request stays, and is found when the device comes again."""
    issuer = Issuer(tmp_path)
    api = Api()
    with pytest.raises(SignerUnavailable, match="waits for approval"):
        await _signer(api, issuer, 0.05).sign(TEMPLATE)
    api.changes.append(issuer.signs)
    assert (await _signer(api, issuer).sign(TEMPLATE)).node == "edge-1" and api.created == 1


async def test_another_request_of_the_name_is_not_taken(tmp_path: Path):
    """Made by hand, or left by another installation."""
    issuer, api = Issuer(tmp_path), Api(ApiUnavailable("x"))
    api.document = {"metadata": {"name": "fairlead-4d", "resourceVersion": "1"}, "spec": {"request": "other"}}
    with pytest.raises(SignerUnavailable, match="exists with different content"):
        await _signer(api, issuer).sign(TEMPLATE)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApiRefused(404, "no such resource"), "not installed"),
        (ApiRefused(403, "forbidden"), "grant"),
        (ApiRefused(422, "invalid"), "refuses the request"),
    ],
)
async def test_why_it_cannot_be_asked(tmp_path: Path, error: Exception, text: str):
    """With the remedy."""
    with pytest.raises(SignerUnavailable, match=text):
        await _signer(Api(error), Issuer(tmp_path)).sign(TEMPLATE)
