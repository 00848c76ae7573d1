"""Proofs of devices whose certificate ended while they were away."""

from __future__ import annotations

import base64
import datetime
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.hubs.hub_core import Core
from tests.support.joining import pki

from fairlead_hub.delivery.identities import NodeCertificate
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.io.identity.file_signer import FileSigner
from fairlead_hub.io.identity.issuing import Issuing
from fairlead_hub.io.identity.late_service import PROOFS_BURST, LateService, PendingRenewal
from fairlead_hub.session_ref import SessionRef
from fairlead_hub.settings import IdentitySettings
from fairlead_wire import message
from fairlead_wire.objects.api_group import APPROVE_IDENTITY

DAY = datetime.timedelta(days=1)
HUB = b"the hub's certificate"
TEXT = "%Y-%m-%dT%H:%M:%SZ"


class Desk:
    """A hub that knows edge-1, whose certificate ended ten days ago."""

    def __init__(self, folder: Path, **identity: Any) -> None:
        self.core = Core("edge-1", identity=IdentitySettings(**identity))
        self.edges = pki.Authority(folder / "edges", "edges", age=400 * DAY)
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        self.pair = self.edges.issue("edge-1", hosts=("edge-1",), begins=now - 100 * DAY, valid=-10 * DAY)
        [leaf] = x509.load_pem_x509_certificates(self.pair.certificate.read_bytes())
        shown = NodeCertificate(
            issued=leaf.not_valid_before_utc.strftime(TEXT),
            expires=leaf.not_valid_after_utc.strftime(TEXT),
            serial=f"{leaf.serial_number:x}",
            issuer="edges",
        )
        session = self.core.hub.sessions.open("edge-1", self.core.hello("edge-1", store_epoch=7), 0.0, shown)
        assert isinstance(session, SessionRef)
        self.core.hub.sessions.closed(session, 0.0)
        self.counts: Counter[str] = Counter()
        issuing = Issuing(
            FileSigner(self.edges.certificate, self.edges.key),
            installation="fairlead",
            days=90,
            wall=time.time,
            refusal=lambda: None,
        )
        root = x509.load_pem_x509_certificate(self.edges.certificate.read_bytes())
        self.service = LateService(
            self.core.hub,
            issuing,
            hub_certificate=lambda: HUB,
            roots=lambda: [root.public_bytes(serialization.Encoding.DER)],
            clock=lambda: self.core.now,
            counts=self.counts,
        )
        self.request = pki.signing_request(ec.generate_private_key(ec.SECP256R1()))

    def proof(
        self, begun: PendingRenewal, *, hub: bytes = HUB, request: bytes = b"", pair: pki.Pair | None = None
    ) -> bytes:
        pair = pair or self.pair
        key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        signed = message.late_proof(begun.nonce, hub_certificate=hub, request=self.request)
        made = message.Proof(
            certificates=pair.certificate.read_text(),
            request=base64.b64encode(request or self.request).decode(),
            signature=base64.b64encode(key.sign(signed, ec.ECDSA(hashes.SHA256()))).decode(),
        )
        return msgspec.json.encode(made)

    async def begin(self, node: str = "edge-1", epoch: int = 7) -> PendingRenewal:
        late = message.Late(node=node, agent="1", store_epoch=epoch, fence=0)
        challenge, begun = await self.service.challenge(late, "peer")
        assert bytes.fromhex(challenge.nonce) == begun.nonce
        return begun

    async def refused(self, begun: PendingRenewal, content: bytes) -> str:
        with pytest.raises(IdentityRefused) as caught:
            await self.service.prove(begun, content, "peer")
        return caught.value.code


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    # The core's wall clock begins in 2027; so long after its end a certificate is still taken here.
    return Desk(tmp_path, late_days=3650)


async def test_who_proves_its_key_gets_a_new_certificate(desk: Desk) -> None:
    """And again when the answer got lost; another key with the same claim is a second machine."""
    begun = await desk.begin()
    issued = await desk.service.prove(begun, desk.proof(begun), "peer")
    assert (issued.node, issued.issuer) == ("edge-1", "edges")
    begun = await desk.begin()
    assert (await desk.service.prove(begun, desk.proof(begun), "peer")).node == "edge-1"
    desk.request = pki.signing_request(ec.generate_private_key(ec.SECP256R1()))
    begun = await desk.begin()
    assert await desk.refused(begun, desk.proof(begun)) == "held"
    assert desk.counts == {"late": 2, "held": 1}


async def test_a_signature_is_good_for_one_hub_one_nonce_one_request_one_name(desk: Desk) -> None:
    begun, other = await desk.begin(), await desk.begin()
    foreign = pki.signing_request(ec.generate_private_key(ec.SECP256R1()))
    assert await desk.refused(begun, desk.proof(begun, hub=b"another certificate")) == "identity"
    assert await desk.refused(begun, desk.proof(other)) == "identity"
    assert await desk.refused(begun, desk.proof(begun, request=foreign)) == "identity"
    stranger = await desk.begin(node="edge-2")
    assert await desk.refused(stranger, desk.proof(stranger)) == "identity"
    for noise in (b"", b"[]", b"{}", b'{"certificates": "x", "request": "\xff", "signature": "?"}'):
        assert await desk.refused(begun, noise) == "identity"
    assert desk.core.hub.identities.held == {}


async def test_a_certificate_of_another_authority_proves_nothing(desk: Desk, tmp_path: Path) -> None:
    other = pki.Authority(tmp_path / "other", "edges", age=400 * DAY)
    begins = datetime.datetime.now(datetime.UTC) - 100 * DAY
    pair = other.issue("edge-1", hosts=("edge-1",), begins=begins, valid=-10 * DAY)
    begun = await desk.begin()
    assert await desk.refused(begun, desk.proof(begun, pair=pair)) == "identity"


async def test_another_opening_of_the_store_waits_for_a_person(desk: Desk) -> None:
    begun = await desk.begin(epoch=8)
    assert await desk.refused(begun, desk.proof(begun)) == "held"
    assert desk.core.hub.identities.held["edge-1"].startswith("late-")


async def test_an_approval_lets_one_machine_in(desk: Desk) -> None:
    """A copy of its disk makes the same claim with a key of its own: that is another question to a person."""
    begun = await desk.begin(epoch=8)
    assert await desk.refused(begun, desk.proof(begun)) == "held"
    identities = desk.core.hub.identities
    identities.observed("edge-1", {}, {APPROVE_IDENTITY: identities.held["edge-1"]})
    for _ in range(2):  # also when the first answer was lost
        begun = await desk.begin(epoch=8)
        assert (await desk.service.prove(begun, desk.proof(begun), "peer")).node == "edge-1"
    for _ in range(2):
        desk.request = pki.signing_request(ec.generate_private_key(ec.SECP256R1()))
        begun = await desk.begin(epoch=8)
        assert await desk.refused(begun, desk.proof(begun)) == "held"
        identities.observed("edge-1", {}, {APPROVE_IDENTITY: identities.held["edge-1"]})
        begun = await desk.begin(epoch=8)
        assert (await desk.service.prove(begun, desk.proof(begun), "peer")).node == "edge-1"


async def test_it_can_be_off(tmp_path: Path) -> None:
    off = Desk(tmp_path, late_days=0)
    with pytest.raises(IdentityRefused) as caught:
        await off.begin()
    assert caught.value.code == "late_off"


async def test_too_many_at_once_come_again(desk: Desk) -> None:
    """Proofs cost time; guesses do not take it from others."""
    begun = await desk.begin()
    codes = {await desk.refused(begun, b"") for _ in range(int(PROOFS_BURST) + 1)}
    assert codes == {"identity", "too_many"}
