"""The conversation of a device whose certificate ended, from its side: a real TLS server answers as the test says."""

from __future__ import annotations

import base64
import datetime
import ssl
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.joining.pki import Authority
from websockets.asyncio.server import ServerConnection, serve

from fairlead_edge.io.identity.identity_files import IdentityFiles
from fairlead_edge.io.identity.late_renewal import LateRenewal
from fairlead_edge.io.identity.renewer import Renewer
from fairlead_edge.io.link.dialler import Dialler
from fairlead_edge.objects.sync import effects
from fairlead_hub.identity import csr
from fairlead_hub.identity.signer import CertificateTemplate
from fairlead_hub.io.identity.file_signer import FileSigner
from fairlead_wire import message
from fairlead_wire.identity import node_names
from fairlead_wire.identity.join_token import ALPN
from fairlead_wire.link import codec

pytestmark = pytest.mark.process
DAY = datetime.timedelta(days=1)
NONCE = bytes(range(32))


class Site:
    """A device with a certificate that ended, and a hub that answers with ``answer`` where it is given."""

    def __init__(self, folder: Path) -> None:
        self.edges = Authority(folder / "edges", "edges", age=400 * DAY)
        self.internal = Authority(folder / "internal", "internal")
        self.own = self.internal.issue("hub", hosts=("127.0.0.1",))
        now = datetime.datetime.now(datetime.UTC)
        pair = self.edges.issue("shop-1", hosts=("shop-1",), begins=now - 100 * DAY, valid=-10 * DAY)
        self.files = IdentityFiles(folder / "identity")
        self.files.make_folder()
        self.files.use(self.files.add(pair.key.read_bytes(), pair.certificate.read_bytes()))
        self.files.write_authorities(self.internal.certificate.read_bytes())
        self.heard: list[tuple[message.FromDevice, bytes]] = []
        self.answer: message.Refuse | None = None
        self.renewer = Renewer(self.files, node="shop-1", ask=self.never, random=Random())

    async def never(self, request: bytes) -> Any:
        raise AssertionError

    async def attempt(self) -> effects.Close:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(self.own.certificate), str(self.own.key))
        context.set_alpn_protocols([ALPN])
        async with serve(self.converse, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            dial = Dialler(f"wss://127.0.0.1:{port}", agent="1").connect
            late = LateRenewal(self.files, self.renewer, node="shop-1", agent="1", dial=dial)
            return await late.attempt(store_epoch=77, fence=3, earliest=None)

    async def converse(self, connection: ServerConnection) -> None:
        side = connection.transport.get_extra_info("ssl_object")
        assert side.selected_alpn_protocol() == ALPN and not side.getpeercert()
        await self.hear(connection)
        if self.answer is not None:
            await connection.send(codec.encode(self.answer))
            return
        await connection.send(codec.encode(message.Challenge(nonce=NONCE.hex())))
        proof = msgspec.json.decode(await self.hear(connection), type=message.Proof)
        header, content = await self.issue(base64.b64decode(proof.request))
        await connection.send(codec.encode(header, content))

    async def hear(self, connection: ServerConnection) -> bytes:
        found = codec.decode_from_device(await connection.recv(decode=False))
        self.heard.append(found)
        return found[1]

    async def issue(self, request: bytes) -> tuple[message.Issued, bytes]:
        names = node_names.of("shop-1")
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        signer = FileSigner(self.edges.certificate, self.edges.key)
        made = await signer.sign(
            CertificateTemplate(
                names=names, request=csr.check(request, names), serial=4711, not_before=now, not_after=now + DAY
            )
        )
        content = message.IssuedCertificates(certificates=made.chain.decode(), authorities="")
        return message.Issued(node="shop-1", expires="2099-01-01T00:00:00Z"), msgspec.json.encode(content)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def serial(files: IdentityFiles) -> str:
    current = files.current()
    assert current is not None
    return current.certificate.serial


async def test_the_old_key_signs_for_this_hub_and_this_request(site: Site) -> None:
    """What it gets is in use at once, and the old pair stays until that opened a session."""
    before = site.files.current()
    assert before is not None
    end = await site.attempt()
    assert (end.code, end.retry_after) == ("renewed_late", 0.0)
    assert serial(site.files) == f"{4711:x}" and before.path.exists() and site.files.pending() is None
    (late, _), (_, content) = site.heard
    assert late == message.Late(node="shop-1", agent="1", store_epoch=77, fence=3)
    proof = msgspec.json.decode(content, type=message.Proof)
    [old] = x509.load_pem_x509_certificates(proof.certificates.encode())
    key = old.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey) and "PRIVATE" not in content.decode()
    shown = ssl.PEM_cert_to_DER_cert(site.own.certificate.read_text())
    signed = message.late_proof(NONCE, hub_certificate=shown, request=base64.b64decode(proof.request))
    key.verify(base64.b64decode(proof.signature), signed, ec.ECDSA(hashes.SHA256()))
    assert site.renewer.counters == {"late": 1}


async def test_a_refusal_is_told_and_asked_again_later(site: Site) -> None:
    """Also one for good: a person may approve it."""
    before = serial(site.files)
    for retry_after, expected in ((60.0, 60.0), (None, 30.0)):
        site.answer = message.Refuse(code="held", reason="fairlead node approve shop-1", retry_after=retry_after)
        end = await site.attempt()
        assert (end.code, end.reason, end.retry_after) == ("held", "fairlead node approve shop-1", expected)
    assert serial(site.files) == before and site.renewer.counters == {"late_refused_held": 2}


async def test_a_hub_of_another_authority_hears_nothing(site: Site, tmp_path: Path) -> None:
    """It is checked as ever, also without a certificate of ours."""
    site.own = Authority(tmp_path / "other", "internal").issue("hub", hosts=("127.0.0.1",))
    with pytest.raises(Exception, match="refused here"):
        await site.attempt()
    assert not site.heard
