"""What decides who somebody is: certificate requests, tokens, authorities, proofs, and their objects in the cluster."""

from __future__ import annotations

import base64
import datetime
import functools

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.fuzz import der
from tests.fuzz.target import Target, promise

from fairlead_hub.cluster import api_json
from fairlead_hub.identity import certificate_profile, csr, join_tokens, joining, old_certificate, revocation
from fairlead_hub.identity.csr import CsrRefused
from fairlead_hub.identity.join_tokens import UnreadableToken
from fairlead_hub.identity.old_certificate import ProofRefused
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.signer import CertificateTemplate
from fairlead_wire import message
from fairlead_wire.errors import Malformed, RemoteError
from fairlead_wire.identity import authority_bundle, certificate, join_token, node_names
from fairlead_wire.link import codec

NODE = "shop-17"
NAMES = node_names.of(NODE, "test")
SINCE = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)
UNTIL = datetime.datetime(2027, 2, 20, tzinfo=datetime.UTC)
KEY = ec.derive_private_key(0x0F1E2D3C4B5A69788796A5B4C3D2E1F0, ec.SECP256R1())
"""Of every request in the corpus, so that what was changed in one can be signed again."""
_ECDSA_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")


@functools.cache
def _issuer() -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.derive_private_key(7, ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "edges")])
    builder = x509.CertificateBuilder(name, name, key.public_key()).serial_number(1)
    builder = builder.not_valid_before(SINCE).not_valid_after(UNTIL)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    names = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
    others = dict.fromkeys((*names, "decipher_only"), False)
    usage = x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **others)
    builder = builder.add_extension(usage, critical=True)
    return builder.sign(key, hashes.SHA256(), ecdsa_deterministic=True), key


def request(content: bytes) -> None:
    """Whatever a request asks for, the certificate says what the hub says, and nothing else."""
    checked = csr.check(content, NAMES)
    template = CertificateTemplate(names=NAMES, request=checked, serial=5, not_before=SINCE, not_after=UNTIL)
    made = certificate_profile.certificate(template, *_issuer())
    again = certificate_profile.certificate(template, *_issuer())
    promise(made == again, "the same template makes the same bytes")
    spki = made.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    promise(csr.key_sha256(spki) == checked.key_sha256, "the key is that of the request")
    basic = made.extensions.get_extension_for_class(x509.BasicConstraints).value
    usage = made.extensions.get_extension_for_class(x509.KeyUsage).value
    promise(not basic.ca and not usage.key_cert_sign, "no request makes an authority")
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    promise(names.get_values_for_type(x509.DNSName) == list(NAMES.dns), "the names are the hub's")
    promise(names.get_values_for_type(x509.UniformResourceIdentifier) == [NAMES.uri], "the URI is the hub's")
    found = certificate.read(made.public_bytes(serialization.Encoding.DER))
    promise((found.common_name, found.name) == (NODE, NODE), "the reader of devices finds the node's name")


def signed_request(content: bytes) -> None:
    """The same with a good signature of whatever was changed, so that the checks behind it are reached."""
    tree = der.parse(content)
    if tree is None or not tree.inner:
        return
    info = der.encode(tree.inner[0])
    signature = der.encode(
        der.Element(0x03, b"\0" + KEY.sign(info, ec.ECDSA(hashes.SHA256(), deterministic_signing=True)))
    )
    body = info + _ECDSA_SHA256 + signature
    request(der.encode(der.Element(0x30, body)))


def late_proof(content: bytes) -> None:
    """An old certificate in DER, as a device shows it that cannot speak TLS with it any more."""
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(content) + b"-----END CERTIFICATE-----\n"
    issuer = _issuer()[0].public_bytes(serialization.Encoding.DER)
    old = old_certificate.verify(pem.decode(), [issuer])
    promise(old.name == NODE, "only what the authority signed is believed")


def late_chain(content: bytes) -> None:
    """The same as text, right or wrong in any way."""
    old_certificate.verify(content.decode(errors="replace"), [_issuer()[0].public_bytes(serialization.Encoding.DER)])


def token(content: bytes) -> None:
    text = content.decode(errors="surrogateescape")
    try:
        found = join_token.parse(text)
    except ValueError as error:
        promise(len(text) < 12 or text not in str(error), "a refusal does not repeat the text")
        raise
    promise(found.text == text.strip(), "a token is written as it was read")
    promise(found.secret not in f"{found} {found!r}", "a log shows no secret")
    promise(join_token.is_id(found.id), "its id can be the name of a JoinToken")


def authorities(content: bytes) -> None:
    found = authority_bundle.by_pin(content)
    for pin, pem in found.items():
        promise(list(authority_bundle.by_pin(pem)) == [pin], "each is found again by its pin")
        promise(b"-----BEGIN CERTIFICATE-----" in pem, "as a certificate in PEM")


def from_device(frame: bytes) -> None:
    header, content = codec.decode_from_device(frame)
    promise(
        codec.decode_from_device(codec.encode(header, content)) == (header, content), "it is written as it was read"
    )
    if isinstance(header, message.Join):
        joining.check_secret(None, header.secret)
        promise(not joining.check_secret(None, header.secret), "an unknown token has no secret")


def to_device(frame: bytes) -> None:
    header, content = codec.decode_to_device(frame)
    promise(codec.decode_to_device(codec.encode(header, content)) == (header, content), "it is written as it was read")


def token_object(raw: bytes) -> None:
    """A JoinToken of the cluster: what cannot be read admits none, and each use counts."""
    own = api_json.own(raw)
    found = join_tokens.read(own.header.name, own.header.version, own.spec, own.status)
    uses = own.status.get("uses")
    promise(len(found.uses) == (len(uses) if isinstance(uses, list) else 0), "each use counts")
    promise(found.uses_max >= 1 and found.expires > 0, "it ends, by uses and by time")
    promise(not (found.replace and found.pattern), "a pattern does not revoke")
    promise(bool(found.node) != bool(found.pattern), "it is for one name, or for those like a pattern")
    tokens = join_tokens.JoinTokens()
    tokens.put(found)
    for use in found.uses:
        tokens.uses_of(use.node)
        promise(tokens.key_owner(use.key_sha256, use.node) != use.node or not use.node, "a key's owner is another node")
        use.document()
    for asked in ("", NODE, "Shop", found.node):
        try:
            node = joining.node_of(found, asked)
        except IdentityRefused:
            continue
        promise(found.covers(node) and node_names.is_node_name(node), "it admits whom it names")
    tokens.remove(found.id)
    promise(not list(tokens) and not tokens.uses_of(NODE), "a token that is gone leaves nothing")


def revoked(raw: bytes) -> None:
    """``spec`` of an EdgeNode: what is there and cannot be read revokes everything."""
    spec = api_json.own(raw).spec
    found = revocation.read(spec)
    promise((found is None) == (spec.get("revoked") is None), "what is there revokes")
    if found is not None:
        promise(len(found.before) == len(revocation.FOR_EVER), "moments compare as text")
        promise(found.covers("0001-01-01T00:00:00Z") or found.before <= "0001-01-01T00:00:00Z", "the oldest is covered")
        again = revocation.read(revocation.spec(found))
        promise(again is not None and again.before == found.before, "it is read as it is written")
        promise(NODE in found.why(NODE), "the sentence names the node")
        promise(found.moment.tzinfo is not None, "the moment has a zone")


TARGETS = (
    Target(
        name="csr",
        says="A certificate request: refused by a code, or a certificate with the hub's names alone.",
        read=request,
        refusals=(CsrRefused,),
        shape="der",
    ),
    Target(
        name="csr-signed",
        says="A request that was changed and signed again: the same.",
        read=signed_request,
        refusals=(CsrRefused,),
        shape="der",
        tries=250,
    ),
    Target(
        name="late-certificate",
        says="The certificate of a device that was away too long: what the authority signed, or refused.",
        read=late_proof,
        refusals=(ProofRefused,),
        shape="der",
        tries=250,
    ),
    Target(
        name="late-chain",
        says="The same with its chain, as text.",
        read=late_chain,
        refusals=(ProofRefused,),
        shape="text",
        words=(b"-----BEGIN CERTIFICATE-----\n", b"-----END CERTIFICATE-----\n", b"\n"),
        tries=200,
    ),
    Target(
        name="join-token",
        says="The text of a join token: written as it was read; its secret is in no log and no refusal.",
        read=token,
        refusals=(ValueError,),
        shape="text",
        words=(b"fl1-", b"-", b".", b"a" * 26, b"0" * 64),
    ),
    Target(
        name="authorities",
        says="The authorities a hub shows a device that does not believe it yet.",
        read=authorities,
        refusals=(ValueError,),
        shape="text",
        words=(b"-----BEGIN CERTIFICATE-----\n", b"-----END CERTIFICATE-----\n", b"\n"),
        tries=200,
    ),
    Target(
        name="link-from-device",
        says="A frame of a device without a certificate.",
        read=from_device,
        refusals=(RemoteError,),
        shape="frame",
    ),
    Target(
        name="link-to-device",
        says="A frame to a device without a certificate, by any program that answers.",
        read=to_device,
        refusals=(RemoteError,),
        shape="frame",
    ),
    Target(
        name="hub-join-token",
        says="A JoinToken of the cluster, edited by hand: what cannot be read admits none.",
        read=token_object,
        refusals=(Malformed, UnreadableToken),
        shape="json",
        words=(b'"pattern"', b'"node"', b'"replace"', b'"uses"', b'"expires"', b'"shop-*"'),
    ),
    Target(
        name="hub-revoked",
        says="What a person revoked, edited by hand: what cannot be read revokes everything.",
        read=revoked,
        refusals=(Malformed,),
        shape="json",
        words=(b'"revoked"', b'"before"', b'"2026-11-22T10:00:00.5+02:00"', b'"0001-01-01T00:00:00+10:00"'),
    ),
)
